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
    let found = BANNED_WORDS
        .iter()
        .filter(|(word, _)| stands_alone(text, word));
    found
        .map(|(word, mend)| Violation::new(&file.path, line, format!("`{}`", word.trim()), *mend))
        .collect()
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
    fn longer_names_with_same_tail_pass() {
        for word in [BANNED_WORDS[0].0, BANNED_WORDS[1].0] {
            assert!(found(&format!("src{word}x and /proc/1{word} and ${{DIR}}{word}")).is_empty());
        }
    }
}
