//! docs/configuration.md is made of the sample files, which are themselves held to say all there is to set.

use std::fmt::Write;

const HEAD: &str = "\
# Every setting

Made of the sample files in [deploy](../deploy), in which each key stands with its default; `REWEAVE_WRITE_SETTINGS=1 cargo
test --workspace --test tidy settings` writes it anew. A key that is not here is an error, and so is a value that makes no sense: both are named
with file and line. `reweave config check` says what a coordinator would start with.
";

/// The page, of each file's name and text.
pub(crate) fn page(samples: &[(&str, &str)]) -> String {
    let mut page = HEAD.to_owned();
    for (name, text) in samples {
        let _ = write!(page, "\n## {name}\n");
        let mut in_table = false;
        let mut words = Vec::new();
        for line in text.lines() {
            let line = Line::of(line);
            if !matches!(line, Line::Words(_)) {
                paragraph(&mut page, &mut words);
            }
            if matches!(line, Line::Key { .. }) && !in_table {
                page += "\n| key | default | what it is |\n|---|---|---|\n";
            }
            in_table = matches!(line, Line::Key { .. });
            match line {
                Line::Words(line) => words.push(line),
                Line::Section(section) => page.push_str(&format!("\n### {section}\n")),
                Line::Key { key, value, what } => {
                    page.push_str(&format!("| `{key}` | `{value}` | {what} |\n"));
                }
                Line::Empty => {}
            }
        }
        paragraph(&mut page, &mut words);
    }
    page
}

fn paragraph(page: &mut String, words: &mut Vec<&str>) {
    if !words.is_empty() {
        let _ = write!(page, "\n{}\n", words.join("\n"));
    }
    words.clear();
}

enum Line<'a> {
    Empty,
    Words(&'a str),
    /// `[table]`, or `[[table]]` where there may be several.
    Section(&'a str),
    Key {
        key: &'a str,
        value: &'a str,
        what: &'a str,
    },
}

impl<'a> Line<'a> {
    /// A key that is commented out stands right behind its `#`.
    fn of(line: &'a str) -> Self {
        let bare = line.strip_prefix('#').unwrap_or(line);
        if line.starts_with('[') {
            return Self::Section(line);
        }
        if let Some(words) = line.strip_prefix("# ") {
            return Self::Words(words);
        }
        let Some((key, rest)) = bare.split_once(" = ") else {
            return Self::Empty;
        };
        let (value, what) = rest.split_once(" #").unwrap_or((rest, ""));
        let [value, what] = [value, what].map(str::trim);
        Self::Key { key, value, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_rows_and_words_stay_words() {
        let sample = "# Where it listens.\nport = 7 # a number\n#door = \"a#b\"\n\n[policy]\nmode = \"auto\"    # who decides\n";
        let page = page(&[("sample.toml", sample)]);
        let expected = "\n## sample.toml\n\nWhere it listens.\n\n| key | default | what it is |\n|---|---|---|\n\
             | `port` | `7` | a number |\n| `door` | `\"a#b\"` |  |\n\n### [policy]\n\n\
             | key | default | what it is |\n|---|---|---|\n| `mode` | `\"auto\"` | who decides |\n";
        assert_eq!(page.strip_prefix(HEAD), Some(expected));
    }
}
