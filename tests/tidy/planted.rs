//! Every mistake that is kept to be planted can be planted, and what the release before lacks can be taken out: each place
//! that such a patch changes is there, once.

use crate::tree::TextFile;
use crate::violation::Violation;

const PLANTED_ADVICE: &str = "make the mistake again where that code is now";

/// One place that a patch changes.
#[derive(Debug, Default)]
struct Hunk<'a> {
    /// Of the patch, counted from 1.
    line: usize,
    file: &'a str,
    /// What has to stand there.
    old: Vec<&'a str>,
}

pub(crate) fn violations(files: &[TextFile]) -> Vec<Violation> {
    let patches = files.iter().filter(|file| is_planted(&file.path));
    patches.flat_map(|patch| of_patch(patch, files)).collect()
}

fn is_planted(path: &str) -> bool {
    let folders = ["tests/planted/", "tests/upgrade/"];
    folders.iter().any(|folder| path.starts_with(folder)) && path.ends_with(".patch")
}

fn of_patch(patch: &TextFile, files: &[TextFile]) -> Vec<Violation> {
    let hunks = hunks(&patch.text);
    if hunks.is_empty() {
        let what = "changes nothing";
        return vec![Violation::new(&patch.path, 1, what, PLANTED_ADVICE)];
    }
    let wrong = |hunk: &Hunk<'_>| {
        let what = misfit(hunk, files)?;
        Some(Violation::new(&patch.path, hunk.line, what, PLANTED_ADVICE))
    };
    hunks.iter().filter_map(wrong).collect()
}

fn hunks(patch: &str) -> Vec<Hunk<'_>> {
    let mut hunks: Vec<Hunk<'_>> = Vec::new();
    let mut file = None;
    let mut inside = false;
    for (text, line) in patch.lines().zip(1..) {
        if let Some(path) = text.strip_prefix("--- a/") {
            (file, inside) = (Some(path), false);
        } else if let (Some(file), true) = (file, text.starts_with("@@ ")) {
            let old = Vec::new();
            hunks.push(Hunk { line, file, old });
            inside = true;
        } else if let (Some(hunk), true) = (hunks.last_mut(), inside) {
            hunk.old.extend(stands_before(text));
        }
    }
    hunks
}

/// What a line of a hunk says of the file before the change.
fn stands_before(text: &str) -> Option<&str> {
    match text.strip_prefix([' ', '-']) {
        None if text.is_empty() => Some(text),
        old => old,
    }
}

fn misfit(hunk: &Hunk<'_>, files: &[TextFile]) -> Option<String> {
    let path = hunk.file;
    let Some(file) = files.iter().find(|file| file.path == path) else {
        return Some(format!("changes {path}, which is not there"));
    };
    let lines: Vec<_> = file.text.lines().collect();
    let places = lines.windows(hunk.old.len().max(1));
    match places.filter(|place| *place == hunk.old).count() {
        0 => Some(format!("changes what does not stand in {path}")),
        1 => None,
        count => Some(format!("changes what stands in {path} {count} times")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE_PATCH: &str = "Two comes before one.\n\n--- a/core/src/lib.rs\n+++ b/core/src/lib.rs\n@@ \
                         -1,3 +1,3 @@ fn f() {\n one();\n-two();\n+three();\n \n";

    fn found(patch: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| TextFile {
            path: path.into(),
            text: text.into(),
        };
        let files = [
            file("core/src/lib.rs", text),
            file("tests/planted/replication/two.patch", patch),
        ];
        violations(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn mutation_applies_after_code_moved() {
        assert!(found(SAMPLE_PATCH, "one();\ntwo();\n\n").is_empty());
        assert!(found(SAMPLE_PATCH, "zero();\none();\ntwo();\n\nfour();\n").is_empty());
    }

    #[test]
    fn missing_patch_context_names_its_line() {
        for text in [
            "one();\n2();\n\n",
            "one();\ntwo();\n",
            "one();\n\ntwo();\n",
            "",
        ] {
            assert_eq!(
                found(SAMPLE_PATCH, text),
                [
                    "tests/planted/replication/two.patch:5: changes what does not stand in \
                     core/src/lib.rs; make the mistake again where that code is now"
                ],
                "{text:?}"
            );
        }
    }

    #[test]
    fn repeated_patch_context_is_ambiguous() {
        let twice = found(SAMPLE_PATCH, "one();\ntwo();\n\none();\ntwo();\n\n");
        assert!(twice[0].contains("in core/src/lib.rs 2 times"), "{twice:?}");
    }

    #[test]
    fn each_patch_hunk_is_checked() {
        let second = "--- a/gone.rs\n+++ b/gone.rs\n@@ -1 +1 @@\n-a\n+b\n";
        let both = found(&format!("{SAMPLE_PATCH}{second}"), "one();\ntwo();\n\n");
        assert_eq!(both.len(), 1);
        assert!(both[0].contains("gone.rs, which is not there"), "{both:?}");
    }

    #[test]
    fn patch_without_change_is_refused() {
        assert!(found("Words alone.\n", "one();\n")[0].contains("changes nothing"));
    }
}
