//! Words that must not stand in the tree: it speaks of itself alone, on every machine.

use crate::tree::TextFile;
use crate::violation::Violation;

/// Each is put together from two pieces, or this file would accuse itself.
const BANNED_WORDS: &[(&str, &str)] = &[
    (
        concat!("/wo", "rk/"),
        "name the place relative to the tree, or by a variable",
    ),
    (
        concat!("/ro", "ot/"),
        "name the place relative to the tree, or by a variable",
    ),
    (
        concat!("issue", " #"),
        "say the reason itself; numbers of a tracker do not outlive it",
    ),
];

/// Words of a private dialect, in names and in prose: what stands in their place names the subject and what it does.
const DIALECT_WORDS: &[&str] = &[
    "anew", "foretold", "journey", "journeys", "nobody", "somebody", "told", "whoever", "whomever",
];
const DIALECT_ADVICE: &str = "name the subject and what it does, by the field's words";

pub(crate) fn violations(files: &[TextFile]) -> Vec<Violation> {
    files.iter().flat_map(of_file).collect()
}

fn of_file(file: &TextFile) -> Vec<Violation> {
    let numbered = file.text.lines().zip(1..);
    numbered
        .flat_map(|(text, line)| of_line(file, text, line))
        .collect()
}

fn of_line(file: &TextFile, text: &str, line: usize) -> Vec<Violation> {
    let banned = BANNED_WORDS
        .iter()
        .filter(|(word, _)| stands_alone(text, word));
    let banned = banned
        .map(|(word, mend)| Violation::new(&file.path, line, format!("`{}`", word.trim()), *mend));
    let dialect = DIALECT_WORDS
        .iter()
        .filter(|word| is_checked_for_dialect(&file.path, text) && is_word_of(text, word));
    let dialect =
        dialect.map(|word| Violation::new(&file.path, line, format!("`{word}`"), DIALECT_ADVICE));
    banned.chain(dialect).collect()
}

/// Rust and documents. The checks of words have them in lists, and formats that are written down keep their names.
fn is_checked_for_dialect(path: &str, text: &str) -> bool {
    let is_read = [".rs", ".md"].iter().any(|end| path.ends_with(end));
    is_read && !path.starts_with("tests/tidy/") && !text.contains("serde(rename")
}

/// As a whole word, or as a whole part of a name in snake case.
fn is_word_of(text: &str, word: &str) -> bool {
    let lower = text.to_lowercase();
    lower
        .split(|c: char| !c.is_alphanumeric())
        .any(|part| part == word)
}

/// Whether `word` stands in `text` on its own, not as the tail of a longer name or path.
fn stands_alone(text: &str, word: &str) -> bool {
    let lower = text.to_lowercase();
    lower.match_indices(word).any(|(at, _)| {
        let before = lower[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-})".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let file = TextFile {
            path: "README.md".into(),
            text: text.into(),
        };
        violations(&[file])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn machine_path_is_named_with_line() {
        let text = format!("fine\nsee `{}main`\n", BANNED_WORDS[0].0);
        assert!(
            found(&text)[0].starts_with("README.md:2: "),
            "{:?}",
            found(&text)
        );
    }

    #[test]
    fn tracker_number_found_in_any_case() {
        assert_eq!(found(&format!("mends Iss{}12", "ue #")).len(), 1);
    }

    #[test]
    fn dialect_is_found_in_names() {
        let word = DIALECT_WORDS[0];
        for text in [
            format!("starts {word}."),
            format!("fn starts_{word}() {{}}"),
        ] {
            assert_eq!(found(&text).len(), 1, "{text}");
        }
        let kept = format!("#[serde(rename = \"{word}\")]\nan{word}s\n");
        assert!(found(&kept).is_empty(), "{:?}", found(&kept));
    }

    #[test]
    fn longer_names_with_same_tail_pass() {
        for word in [BANNED_WORDS[0].0, BANNED_WORDS[1].0] {
            assert!(found(&format!("src{word}x and /proc/1{word} and ${{DIR}}{word}")).is_empty());
        }
    }
}
