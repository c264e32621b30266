//! Only tests of wall-clock limits may retry: they are named `timed_...`, and their number is limited.

use crate::tree::TextFile;
use crate::violation::Violation;

/// The number may only fall: where there are fewer, this falls with them.
const MAX_TIMED_TESTS: usize = 24;
const TIMED_IMPORT: &str = "timed::timed";
const TIMED_HELPER: &str = "tests/lab/tests/support/timed.rs";

pub(crate) fn violations(files: &[TextFile]) -> Vec<Violation> {
    let sources = || files.iter().filter(|file| is_test(&file.path));
    let count: usize = sources().map(|file| count_timed(&file.text)).sum();
    let other_number = (count != MAX_TIMED_TESTS).then(|| {
        let what = format!("{count} tests judge wall-clock time, and not {MAX_TIMED_TESTS}");
        let advice = if count > MAX_TIMED_TESTS {
            "judge by facts, or by the order of events"
        } else {
            "lower MAX_TIMED_TESTS"
        };
        Violation::new(TIMED_HELPER, 1, what, advice)
    });
    let unnamed =
        sources().filter(|file| file.text.contains(TIMED_IMPORT) && count_timed(&file.text) == 0);
    let unnamed = unnamed.map(|file| {
        let what = "a test that retries is not named timed_...";
        Violation::new(&file.path, 1, what, "rename it to timed_...")
    });
    other_number.into_iter().chain(unnamed).collect()
}

fn is_test(path: &str) -> bool {
    path.ends_with(".rs") && path != TIMED_HELPER && !path.starts_with("tests/tidy")
}

/// A function that takes something is no test.
fn count_timed(text: &str) -> usize {
    let functions = text.split("fn timed_").skip(1);
    let tests = functions.filter(|rest| is_without_arguments(rest)).count();
    tests + text.matches("\"timed_").count()
}

fn is_without_arguments(rest: &str) -> bool {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    rest.trim_start_matches(name).starts_with("()")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[String]) -> usize {
        let file = |text: &String| TextFile {
            path: "tests/some.rs".to_owned(),
            text: text.clone(),
        };
        violations(&texts.iter().map(file).collect::<Vec<_>>()).len()
    }

    const TIMED_TEST_TEXT: &str =
        "#[test]\nfn timed_it_answers_soon() {\n    timed(\"an answer\", SOON, asked);\n}\n";

    fn found_with(other: &str) -> usize {
        let mut texts = vec![TIMED_TEST_TEXT.to_owned(); MAX_TIMED_TESTS];
        texts.push(other.to_owned());
        found(&texts)
    }

    #[test]
    fn number_of_timed_tests_is_exact() {
        assert_eq!(found(&vec![TIMED_TEST_TEXT.to_owned(); MAX_TIMED_TESTS]), 0);
        assert_eq!(
            found(&vec![TIMED_TEST_TEXT.to_owned(); MAX_TIMED_TESTS - 1]),
            1
        );
        assert_eq!(found_with(TIMED_TEST_TEXT), 1);
        let trial = "trial(\"timed_it_answers_soon\", &[], || timed(\"an answer\", SOON, asked))\n";
        assert_eq!(found_with(trial), 1);
        assert_eq!(found_with("fn timed_ring(hosts: u16) {}\n"), 0);
    }

    #[test]
    fn retrying_test_needs_timed_name() {
        let test =
            "use crate::timed::timed;\n#[test]\nfn soon() {\n    timed(\"x\", SOON, asked);\n}\n";
        assert_eq!(found_with(test), 1);
    }
}
