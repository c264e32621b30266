//! Which of the marks found in the code are wrong where they stand, and crates without content.

use crate::rooms::room_of;
use crate::scan::{Facts, Habit, Mark};
use crate::tree::Package;
use crate::violation::Violation;

/// Packages that are test code from end to end.
const TEST_PACKAGES: &[&str] = &[
    "reweave-tests",
    "reweave-benches",
    "reweave-sim-cluster",
    "reweave-sim-disk",
];

/// What measures puts a load on something, at a pace, and asserts nothing.
const PACED_PACKAGE: &str = "reweave-benches";

/// The package a file belongs to: the one with the deepest folder around it.
pub(crate) fn owner<'a>(packages: &'a [Package], path: &str) -> Option<&'a Package> {
    let around = packages
        .iter()
        .filter(|package| inside(package, path).is_some());
    around.max_by_key(|package| package.dir.len())
}

fn inside<'a>(package: &Package, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(package.dir.as_str())?.strip_prefix('/')
}

/// Whether a whole file is test code: by its package, its folder or its name.
pub(crate) fn is_test_file(owner: &Package, path: &str) -> bool {
    let inner = inside(owner, path).unwrap_or(path);
    TEST_PACKAGES.contains(&owner.name.as_str())
        || inner
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs")
}

/// The marks of one file that must not stand where they stand.
pub(crate) fn violations(owner: &Package, path: &str, facts: &Facts) -> Vec<Violation> {
    let pure = room_of(&owner.name).is_some_and(|room| room.pure);
    let paced = |mark: &Mark| mark.habit == Habit::Sleep && owner.name == PACED_PACKAGE;
    let marks = facts.marks.iter().filter(|mark| !paced(mark));
    let wrong = marks.filter(|mark| is_wrong(mark, pure));
    wrong
        .map(|mark| Violation::new(path, mark.line, what(mark.habit), mend(mark.habit)))
        .collect()
}

fn is_wrong(mark: &Mark, pure: bool) -> bool {
    match mark.habit {
        Habit::Unfinished | Habit::Unwrap => !mark.in_test,
        Habit::Sleep => mark.in_test,
        Habit::BareIgnore => true,
        Habit::LiftedBan => pure && !mark.in_test,
    }
}

fn what(habit: Habit) -> &'static str {
    match habit {
        Habit::Unfinished => "unfinished code",
        Habit::Unwrap => "`.unwrap()` outside tests",
        Habit::Sleep => "a test that sleeps",
        Habit::BareIgnore => "`#[ignore]` without a reason",
        Habit::LiftedBan => "a ban of the pure rooms is lifted",
    }
}

fn mend(habit: Habit) -> &'static str {
    match habit {
        Habit::Unfinished => "write it, or leave it out until it is real",
        Habit::Unwrap => "return an error, or `.expect(..)` with the reason why it cannot fail",
        Habit::Sleep => "wait for the condition itself, with a deadline",
        Habit::BareIgnore => "write `#[ignore = \"what is missing here\"]`",
        Habit::LiftedBan => "hand the effect to the caller; only tests may lift a ban",
    }
}

/// Packages in which no file has any content.
pub(crate) fn empty_packages(packages: &[Package], sources: &[(String, Facts)]) -> Vec<Violation> {
    let is_empty = |package: &&Package| {
        let mut own = sources.iter().filter(|(path, _)| {
            owner(packages, path).is_some_and(|owner| owner.name == package.name)
        });
        own.all(|(_, facts)| facts.items == 0)
    };
    let empty = packages.iter().filter(is_empty);
    empty
        .map(|package| {
            let what = format!("{} is empty", package.name);
            let mend = "a room comes into being with its first real content; remove it until then";
            Violation::new(&package.manifest_path(), 1, what, mend)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::facts;

    fn package(name: &str, dir: &str) -> Package {
        Package {
            name: name.into(),
            dir: dir.into(),
            ..Package::default()
        }
    }

    fn tree() -> Vec<Package> {
        vec![
            package("reweave-common", "common"),
            package("reweave-tests", "tests"),
            package("reweave-lab", "tests/lab"),
        ]
    }

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = tree();
        let owner = owner(&tree, path).expect("the path lies in a package");
        let facts = facts(text, is_test_file(owner, path)).expect("the planted text is Rust");
        violations(owner, path, &facts)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn file_belongs_to_deepest_package() {
        let tree = tree();
        let name = |path| owner(&tree, path).map(|package| package.name.as_str());
        assert_eq!(name("tests/lab/src/lib.rs"), Some("reweave-lab"));
        assert_eq!(name("tests/tidy.rs"), Some("reweave-tests"));
        assert_eq!(name("commoner/src/lib.rs"), None);
    }

    #[test]
    fn lab_is_product_code_without_tests() {
        let tree = tree();
        let is_test = |path| is_test_file(owner(&tree, path).expect("owned"), path);
        assert!(!is_test("tests/lab/src/lib.rs"));
        assert!(is_test("tests/lab/tests/smoke.rs"));
        assert!(is_test("common/src/units/tests.rs"));
        assert!(is_test("tests/tidy.rs"));
    }

    #[test]
    fn unwrap_is_wrong_outside_tests_only() {
        let text = "fn f() {\n    a.unwrap();\n    todo!()\n}";
        assert_eq!(
            found("common/src/lib.rs", text),
            [
                "common/src/lib.rs:2: `.unwrap()` outside tests; return an error, or `.expect(..)` \
                 with the reason why it cannot fail",
                "common/src/lib.rs:3: unfinished code; write it, or leave it out until it is real"
            ]
        );
        assert!(found("tests/lab/tests/smoke.rs", text).is_empty());
    }

    #[test]
    fn sleeping_is_wrong_in_tests_only() {
        let text = "fn f() { std::thread::sleep(a) }";
        assert_eq!(found("tests/lab/tests/smoke.rs", text).len(), 1);
        assert!(found("tests/lab/src/lib.rs", text).is_empty());
    }

    #[test]
    fn bare_ignore_is_wrong_everywhere() {
        assert_eq!(
            found("tests/lab/tests/smoke.rs", "#[ignore]\nfn f() {}").len(),
            1
        );
    }

    #[test]
    fn lifted_ban_fails_in_pure_rooms() {
        let text = "#[allow(clippy::disallowed_types, reason = \"x\")]\nfn f() {}";
        assert_eq!(found("common/src/lib.rs", text).len(), 1);
        assert!(found("tests/lab/src/lib.rs", text).is_empty());
        assert!(found("common/src/tests.rs", text).is_empty());
    }

    #[test]
    fn package_of_bare_modules_is_empty() {
        let facts = |text| facts(text, false).expect("the planted text is Rust");
        let sources = [
            (
                "common/src/lib.rs".into(),
                facts("//! Words.\nmod a;\nuse b::c;"),
            ),
            ("tests/tidy.rs".into(), facts("fn f() {}")),
            ("tests/lab/src/lib.rs".into(), facts("pub struct Lab;")),
        ];
        let found = empty_packages(&tree(), &sources);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .to_string()
                .starts_with("common/Cargo.toml:1: reweave-common is empty")
        );
    }
}
