//! Every test target of the tree is run by a command of the tree: none is forgotten. Each filter of a command names a test
//! that there is, for cargo takes any word.

use crate::tree::{Package, TextFile};
use crate::violation::{Violation, line_of};

/// The Makefile runs all files of this folder; every other test target it must name.
const LAB_TESTS_FOLDER: &str = "tests/lab/tests/";

pub(crate) fn violations(packages: &[Package], makefile: &TextFile) -> Vec<Violation> {
    let named: Vec<_> = named_targets(&makefile.text).collect();
    let targets = packages
        .iter()
        .flat_map(|p| p.test_targets.iter().map(move |t| (p, t)));
    targets
        .filter(|(_, (name, path))| !is_run(&named, name, path))
        .map(|(package, (name, path))| forgotten(package, name, path))
        .collect()
}

/// What stands after each `--test`.
fn named_targets(makefile: &str) -> impl Iterator<Item = &str> {
    let words = makefile.split_whitespace();
    words
        .clone()
        .zip(words.skip(1))
        .filter(|(word, _)| *word == "--test")
        .map(|(_, name)| name)
}

fn is_run(named: &[&str], name: &str, path: &str) -> bool {
    let by_folder = path
        .strip_prefix(LAB_TESTS_FOLDER)
        .is_some_and(|file| !file.contains('/'));
    by_folder || named.contains(&name)
}

fn forgotten(package: &Package, name: &str, path: &str) -> Violation {
    Violation::new(
        path,
        line_of(&package.manifest, name),
        format!(
            "no command of the tree runs test target {name} of {}",
            package.name
        ),
        format!("make it a #[cfg(test)] module, or add `--test {name}` to the Makefile"),
    )
}

/// Options of cargo and of tests whose value is the next word.
const VALUED: [&str; 9] = [
    "--test",
    "--package",
    "--bin",
    "--config",
    "--features",
    "--target-dir",
    "--manifest-path",
    "--message-format",
    "--test-threads",
];
/// Variables that hold filters.
const FILTERS: [&str; 3] = ["SLOW_KERNEL_TESTS", "SLOW_PLANS", "SLOW_REPLAYS"];

pub(crate) fn dead_filters(files: &[TextFile], makefile: &TextFile) -> Vec<Violation> {
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let rust: Vec<_> = rust.collect();
    let names = |segment: &str| {
        let mut rust = rust.iter();
        rust.any(|file| file.path.contains(segment) || file.text.contains(segment))
    };
    let lines = makefile.text.lines().zip(1..);
    let filters = lines.flat_map(|(text, line)| filters(text).map(move |filter| (filter, line)));
    let dead = filters.filter(|(filter, _)| !filter.split("::").all(names));
    let violation = |(filter, line)| {
        let what = format!("the filter {filter} runs no test");
        Violation::new(&makefile.path, line, what, "name a test that there is")
    };
    dead.map(violation).collect()
}

/// What a line has cargo choose tests by. Variables hold what other lines say.
fn filters(line: &str) -> impl Iterator<Item = &str> {
    let held = line
        .split_once(" := ")
        .filter(|(name, _)| FILTERS.contains(name));
    let run = line.split_once("cargo test ");
    let words = held.or(run).map_or("", |(_, words)| words).split(' ');
    let before = std::iter::once("").chain(words.clone());
    let chosen = words.zip(before).filter(|(word, before)| {
        let is_word = word.starts_with(|first: char| first.is_ascii_lowercase());
        is_word && !VALUED.contains(before)
    });
    chosen.map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn filter_without_test_is_found() {
        let tests = [text("tests/plans.rs", "fn plan_is_kept() {}\nmod slow;")];
        let dead = |line: &str| dead_filters(&tests, &text("Makefile", line)).len();
        for line in [
            "\tstage a cargo test --test plans -- --ignored plan_is_lost",
            "\tstage a cargo test --test plans plan_is_lost",
            "\tstage a cargo test -- --test-threads 1 --skip slow::rates",
            "SLOW_PLANS := plan_is_kept plan_is_lost",
        ] {
            assert_eq!(dead(line), 1, "{line}");
        }
        for line in [
            "\tstage a cargo test --locked --test plans -- --ignored plan_is",
            "\tstage a cargo test $(IN_LAB) --test plans plans::slow -- $(SKIPS)",
            "SLOW_PLANS := slow:: plan_is_kept",
            "OTHER := plan_is_lost",
        ] {
            assert_eq!(dead(line), 0, "{line}");
        }
    }

    fn found(name: &str, path: &str) -> usize {
        let makefile = TextFile {
            path: "Makefile".into(),
            text: "test:\n\tcargo test --workspace --test tidy\n".into(),
        };
        let package = Package {
            test_targets: vec![(name.into(), path.into())],
            ..Package::default()
        };
        violations(&[package], &makefile).len()
    }

    #[test]
    fn target_without_command_is_found() {
        assert_eq!(found("golden", "common/tests/golden.rs"), 1);
        assert_eq!(found("faults", "tests/lab/tests/faults/main.rs"), 1);
    }

    #[test]
    fn targets_named_or_in_folder_pass() {
        assert_eq!(found("tidy", "tests/tidy.rs"), 0);
        assert_eq!(found("faults", "tests/lab/tests/faults.rs"), 0);
    }
}
