//! Tests of limits in real time: they alone may run again, so there are few of them, and their names say so.

use crate::tree::TextFile;
use crate::violation::Violation;

/// The number may only fall.
const MOST: usize = 25;
/// As a function, and as the name of a trial.
const NAMED: [&str; 2] = ["fn timed_", "\"timed_"];
/// How such a test is judged.
const JUDGED: &str = "timed::timed;";
const JUDGE: &str = "tests/lab/tests/support/timed.rs";

pub(crate) fn violations(files: &[TextFile]) -> Vec<Violation> {
    let sources = || files.iter().filter(|file| is_test(&file.path));
    let count: usize = sources().map(|file| named(&file.text)).sum();
    let too_many = (count > MOST).then(|| {
        let what = format!("{count} tests hang on real time, where {MOST} may");
        Violation::new(JUDGE, 1, what, "judge by facts, or by the order of events")
    });
    let unnamed = sources().filter(|file| file.text.contains(JUDGED) && named(&file.text) == 0);
    let unnamed = unnamed.map(|file| {
        let what = "a test that may run again has a name that does not say so";
        Violation::new(&file.path, 1, what, "call it timed_...")
    });
    too_many.into_iter().chain(unnamed).collect()
}

fn is_test(path: &str) -> bool {
    path.ends_with(".rs") && path != JUDGE && !path.starts_with("tests/tidy")
}

fn named(text: &str) -> usize {
    NAMED.iter().map(|name| text.matches(name).count()).sum()
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

    #[test]
    fn few_tests_that_say_so_may_hang_on_real_time() {
        let test =
            "#[test]\nfn timed_it_answers_soon() {\n    timed(\"an answer\", SOON, asked);\n}\n";
        assert_eq!(found(&vec![test.to_owned(); MOST]), 0);
        assert_eq!(found(&vec![test.to_owned(); MOST + 1]), 1);
        let trial = "trial(\"timed_it_answers_soon\", &[], || timed(\"an answer\", SOON, asked))\n";
        assert_eq!(found(&vec![trial.to_owned(); MOST + 1]), 1);
    }

    #[test]
    fn one_that_does_not_say_so_is_found() {
        let test =
            "use crate::timed::timed;\n#[test]\nfn soon() {\n    timed(\"x\", SOON, asked);\n}\n";
        assert_eq!(found(&[test.to_owned()]), 1);
    }
}
