//! Every test target of the tree is run by a command of the tree: none is forgotten.

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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_target_nobody_runs_is_found() {
        assert_eq!(found("golden", "common/tests/golden.rs"), 1);
        assert_eq!(found("faults", "tests/lab/tests/faults/main.rs"), 1);
    }

    #[test]
    fn targets_run_by_name_or_by_folder_pass() {
        assert_eq!(found("tidy", "tests/tidy.rs"), 0);
        assert_eq!(found("faults", "tests/lab/tests/faults.rs"), 0);
    }
}
