//! What a checker returns: where a rule is broken, what is wrong, and how to repair it.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) mend: String,
}

impl Violation {
    pub(crate) fn new(
        file: &str,
        line: usize,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
            mend: mend.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}; {}",
            self.file, self.line, self.what, self.mend
        )
    }
}

/// Fails the calling test with every violation, one per line.
#[track_caller]
pub(crate) fn assert_none(violations: &[Violation]) {
    let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert!(
        violations.is_empty(),
        "{} to mend:\n  {}\n",
        lines.len(),
        lines.join("\n  ")
    );
}

/// The first line of `text` that holds `needle`, counted from 1; 1 where none does.
pub(crate) fn line_of(text: &str, needle: &str) -> usize {
    text.lines()
        .position(|line| line.contains(needle))
        .map_or(1, |index| index + 1)
}
