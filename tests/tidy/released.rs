//! Files of shapes. One that was released stays as it is, under any `make shapes`: what changes gets a new version. The
//! first line of a log has the number of the newest file of its shapes.

use std::collections::BTreeMap;

use crate::tree::TextFile;
use crate::violation::{Violation, line_of};

/// One line for each file: a print of its text, and its path.
pub(crate) const RELEASED_LIST: &str = "tests/tidy/released.txt";
const FRAME_FILE: &str = "coordinator/replica/src/journal/frame.rs";
const HEADER_PREFIX: &str = "b\"reweave log ";

pub(crate) fn violations(files: &[TextFile]) -> Vec<Violation> {
    let wrong = |(line, print, path): (usize, &str, &str)| {
        let what = match find(files, path) {
            _ if path.is_empty() => "a line without a print and a path".to_owned(),
            None => format!("{path} was released, and is gone"),
            Some(text) if print_of(text) != print => {
                format!("{path} was released with another text")
            }
            Some(_) => return None,
        };
        let mend = "put it back; what has changed gets a new version, in the log's first line too, and a file of its own";
        Some(Violation::new(RELEASED_LIST, line, what, mend))
    };
    entries(files).filter_map(wrong).collect()
}

/// The list with all files of shapes that there are.
pub(crate) fn with_all(files: &[TextFile]) -> String {
    let is_shape = |path: &str| path.contains("/shapes/") && path.ends_with(".txt");
    let is_listed = |path: &str| entries(files).any(|(.., listed)| listed == path);
    let mut list = find(files, RELEASED_LIST).unwrap_or_default().to_owned();
    for TextFile { path, text } in files {
        if is_shape(path) && !is_listed(path) {
            list += &format!("{} {path}\n", print_of(text));
        }
    }
    list
}

/// In each folder the newest shapes of a log are those of the number that logs begin with.
pub(crate) fn log_numbers(files: &[TextFile]) -> Vec<Violation> {
    let frame = find(files, FRAME_FILE).unwrap_or_default();
    let begins = frame.split_once(HEADER_PREFIX).and_then(|(_, rest)| {
        let digits = rest.split(|it: char| !it.is_ascii_digit()).next();
        digits?.parse::<u32>().ok()
    });
    let begins = begins.unwrap_or_default();
    let mut newest: BTreeMap<&str, u32> = BTreeMap::new();
    for (folder, number) in files.iter().filter_map(|file| log_shapes(&file.path)) {
        let known = newest.entry(folder).or_default();
        *known = number.max(*known);
    }
    let others = newest.into_iter().filter(|(_, it)| *it != begins);
    let wrong = others.map(|(folder, number)| {
        let what = format!("the newest log of {folder} is {number}, and logs begin with {begins}");
        let mend = "give both one number";
        Violation::new(FRAME_FILE, line_of(frame, HEADER_PREFIX), what, mend)
    });
    wrong.collect()
}

/// The folder, and the number of the log.
fn log_shapes(path: &str) -> Option<(&str, u32)> {
    let (folder, name) = path.split_once("/shapes/log-")?;
    Some((folder, name.strip_suffix(".txt")?.parse().ok()?))
}

/// The line, the print and the path of each; an empty path where there is none.
fn entries(files: &[TextFile]) -> impl Iterator<Item = (usize, &str, &str)> {
    let list = find(files, RELEASED_LIST).unwrap_or_default();
    let lines = list.lines().zip(1..);
    let entries = lines.filter(|(text, _)| !text.starts_with('#'));
    entries.map(|(text, line)| {
        let (print, path) = text.split_once(' ').unwrap_or((text, ""));
        (line, print, path)
    })
}

fn find<'f>(files: &'f [TextFile], path: &str) -> Option<&'f str> {
    let found = files.iter().find(|file| file.path == path);
    found.map(|file| &*file.text)
}

/// FNV-1a, of 64 bits: the same on every machine.
fn print_of(text: &str) -> String {
    let print = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |print, byte| {
        (print ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{print:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG_SHAPES: &str = "coordinator/replica/shapes/log-7.txt";

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn released() -> [TextFile; 2] {
        let shapes = file(LOG_SHAPES, "Record {}\n");
        let list = with_all(std::slice::from_ref(&shapes));
        [file(RELEASED_LIST, &format!("# a word\n{list}")), shapes]
    }

    fn said(found: &[Violation]) -> Vec<String> {
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn released_shape_that_stays_is_right() {
        let files = released();
        assert_eq!(violations(&files), []);
        assert_eq!(with_all(&files), files[0].text, "it is listed already");
    }

    #[test]
    fn another_text_is_named() {
        let mut files = released();
        files[1].text.push_str("Vote {}\n");
        let said = said(&violations(&files));
        let begins =
            format!("{RELEASED_LIST}:2: {LOG_SHAPES} was released with another text; put it back");
        assert!(said.len() == 1 && said[0].starts_with(&begins), "{said:?}");
        assert_eq!(with_all(&files), files[0].text, "nor is it listed again");
    }

    #[test]
    fn line_without_path_is_named() {
        let said = said(&violations(&[file(RELEASED_LIST, "0123456789abcdef\n")]));
        assert!(said[0].contains("without a print and a path"), "{said:?}");
    }

    #[test]
    fn shape_that_is_gone_is_named() {
        let [list, _] = released();
        let said = said(&violations(&[list]));
        assert!(said[0].contains("was released, and is gone"), "{said:?}");
    }

    #[test]
    fn log_without_its_number_is_named() {
        let first_line = |number: u32| {
            let text = format!("//! Logs.\nconst MAGIC: &[u8] = b\"reweave log {number}  \\n\";\n");
            file(FRAME_FILE, &text)
        };
        let earlier = file("coordinator/replica/shapes/log-6.txt", "");
        let files = |number| [first_line(number), earlier.clone(), file(LOG_SHAPES, "")];
        assert_eq!(log_numbers(&files(7)), []);
        for other in [6, 8] {
            let said = said(&log_numbers(&files(other)));
            let begins = format!("{FRAME_FILE}:2: the newest log of coordinator/replica is 7");
            assert!(said.len() == 1 && said[0].starts_with(&begins), "{said:?}");
        }
    }
}
