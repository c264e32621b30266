//! docs/contributing.md says where each frequent change is made: the files are there, and hold what it names.

use crate::tree::TextFile;
use crate::violation::Violation;

const PAGE: &str = "docs/contributing.md";
const HEADLINE: &str = "## Where to change what";
const MEND: &str = "name the place where it is now";

pub(crate) fn violations(files: &[TextFile]) -> Vec<Violation> {
    let page = files.iter().find(|file| file.path == PAGE);
    let rows = page.map_or_else(Vec::new, |page| rows(&page.text));
    if rows.is_empty() {
        let what = format!("no table under {HEADLINE:?}");
        return vec![Violation::new(PAGE, 1, what, MEND)];
    }
    let wrong = |(line, row): (usize, &str)| {
        let what = outdated(files, row)?;
        Some(Violation::new(PAGE, line, what, MEND))
    };
    rows.into_iter().filter_map(wrong).collect()
}

/// Those with a link into the tree, and their lines.
fn rows(page: &str) -> Vec<(usize, &str)> {
    let lines = page.lines().zip(1..);
    let after = lines.skip_while(|(text, _)| *text != HEADLINE).skip(1);
    let section = after.take_while(|(text, _)| !text.starts_with("## "));
    let rows = section.filter(|(text, _)| text.contains("](../"));
    rows.map(|(text, line)| (line, text)).collect()
}

/// A file that is not there, or a name that the file of the definition does not have.
fn outdated(files: &[TextFile], row: &str) -> Option<String> {
    let find = |path: &str| files.iter().find(|file| file.path == path);
    if let Some(path) = links(row).find(|&path| find(path).is_none()) {
        return Some(format!("{path} is not there"));
    }
    let definition = row.split('|').nth(2).unwrap_or_default();
    let Some(file) = links(definition).next().and_then(find) else {
        return Some("no link in the column of definitions".to_owned());
    };
    let mut names = definition.split('`').skip(1).step_by(2);
    let name = names.find(|&name| !file.text.contains(name))?;
    Some(format!("{} has no {name}", file.path))
}

/// The paths of links from a page to the tree.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](../").skip(1);
    links.filter_map(|link| Some(link.split_once(')')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "| rate | `RATE` in [rate.rs](../a/rate.rs) | [sample](../b.toml) |";

    fn found(row: &str, code: &str) -> Vec<String> {
        let page = format!("# Page\n\n{HEADLINE}\n\n{row}\n\n## Next\n\n| [x](../gone.rs) |\n");
        let files = [(PAGE, &*page), ("a/rate.rs", code), ("b.toml", "")];
        let files = files.map(|(path, text)| TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        });
        let found = violations(&files);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn current_table_has_no_violation() {
        assert_eq!(found(ROW, "const RATE: u8 = 1;"), [""; 0]);
    }

    #[test]
    fn moved_definition_is_found() {
        let expected = format!("{PAGE}:5: a/rate.rs has no RATE; {MEND}");
        assert_eq!(found(ROW, ""), [expected]);
    }

    #[test]
    fn missing_file_is_found() {
        let row = ROW.replace("b.toml", "c.toml");
        let expected = format!("{PAGE}:5: c.toml is not there; {MEND}");
        assert_eq!(found(&row, "RATE"), [expected]);
    }

    #[test]
    fn row_without_definition_is_found() {
        let expected = format!("{PAGE}:5: no link in the column of definitions; {MEND}");
        assert_eq!(found("| rate | - | [sample](../b.toml) |", ""), [expected]);
    }

    #[test]
    fn empty_table_is_found() {
        assert_eq!(found("", "RATE").len(), 1);
    }
}
