//! Who may depend on whom, and what every package must say of itself.

use crate::rooms::{Room, SIMULATED_DISK, room_of};
use crate::tree::{Need, Package};
use crate::violation::{Violation, line_of};

/// Crates whose purpose is a clock, a socket, a thread or the dice of the machine.
const IMPURE_PACKAGES: &[&str] = &[
    "async-std",
    "chrono",
    "crossbeam",
    "getrandom",
    "hyper",
    "libc",
    "mio",
    "nix",
    "quinn",
    "rand",
    "rayon",
    "reqwest",
    "rustix",
    "smol",
    "socket2",
    "tempfile",
    "time",
    "tokio",
];

pub(crate) fn violations(packages: &[Package]) -> Vec<Violation> {
    packages.iter().flat_map(of_package).collect()
}

fn of_package(package: &Package) -> Vec<Violation> {
    let Some(room) = room_of(&package.name) else {
        return vec![stranger(package)];
    };
    let misplaced = (package.dir != room.dir).then(|| wrong_dir(package, room));
    let arrows = package
        .needs
        .iter()
        .filter_map(|need| of_need(package, room, need));
    misplaced
        .into_iter()
        .chain(arrows)
        .chain(nameless(package))
        .collect()
}

fn of_need(package: &Package, room: &Room, need: &Need) -> Option<Violation> {
    if need.own {
        let tests_alone = need.for_tests && need.package == SIMULATED_DISK;
        let is_allowed = tests_alone || room.reach().contains(need.package.as_str());
        return (!is_allowed).then(|| forbidden_arrow(package, room, need));
    }
    let impure = room.pure && !need.for_tests && IMPURE_PACKAGES.contains(&&*need.package);
    impure.then(|| impure_need(package, need))
}

fn stranger(package: &Package) -> Violation {
    Violation::new(
        &package.manifest_path(),
        line_of(&package.manifest, "name ="),
        format!("{} is not in the table of rooms", package.name),
        "make it a module of a room, or give it a row in tests/tidy/rooms.rs that says what it \
         enforces",
    )
}

fn wrong_dir(package: &Package, room: &Room) -> Violation {
    Violation::new(
        &package.manifest_path(),
        line_of(&package.manifest, "name ="),
        format!("{} lies in {}/", package.name, package.dir),
        format!("move it to {}/", room.dir),
    )
}

fn forbidden_arrow(package: &Package, room: &Room, need: &Need) -> Violation {
    let allowed: Vec<_> = room.reach().into_iter().collect();
    let allowed = if allowed.is_empty() {
        "nothing of ours".into()
    } else {
        allowed.join(", ")
    };
    Violation::new(
        &package.manifest_path(),
        line_of(&package.manifest, &need.package),
        format!("{} must not use {}", package.name, need.package),
        format!("it may use {allowed}; move the code to where it may be used"),
    )
}

fn impure_need(package: &Package, need: &Need) -> Violation {
    Violation::new(
        &package.manifest_path(),
        line_of(&package.manifest, &need.package),
        format!("{} is pure and must not use {}", package.name, need.package),
        "take time, randomness and input as arguments and return effects",
    )
}

fn nameless(package: &Package) -> Option<Violation> {
    package.description.trim().is_empty().then(|| {
        Violation::new(
            &package.manifest_path(),
            line_of(&package.manifest, "name ="),
            format!("{} has no description", package.name),
            "say in one sentence what belongs here",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(name: &str, needs: &[Need]) -> Package {
        let room = room_of(name);
        let lines: Vec<_> = needs
            .iter()
            .map(|n| format!("{}.workspace = true", n.package))
            .collect();
        Package {
            name: name.into(),
            dir: room.map_or("somewhere", |room| room.dir).into(),
            description: "Planted.".into(),
            manifest: format!(
                "[package]\nname = \"{name}\"\n[dependencies]\n{}",
                lines.join("\n")
            ),
            needs: needs.to_vec(),
            test_targets: vec![],
        }
    }

    fn ours(package: &str, for_tests: bool) -> Need {
        Need {
            package: package.into(),
            own: true,
            for_tests,
        }
    }

    fn foreign(package: &str, for_tests: bool) -> Need {
        Need {
            package: package.into(),
            own: false,
            for_tests,
        }
    }

    fn only(package: Package) -> String {
        let found = violations(&[package]);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].to_string()
    }

    #[test]
    fn missing_arrow_is_named_with_line() {
        let check = planted(
            "reweave-check",
            &[ours("reweave-common", false), ours("reweave-repair", false)],
        );
        let message = only(check);
        assert!(
            message.starts_with(
                "coordinator/check/Cargo.toml:5: reweave-check must not use reweave-repair; it may \
             use reweave-common"
            ),
            "{message}"
        );
    }

    #[test]
    fn dev_dependency_counts_as_arrow() {
        assert!(only(planted("reweave-common", &[ours("reweave-lab", true)])).contains("must not"));
    }

    #[test]
    fn simulated_disk_is_for_tests_alone() {
        let link = |for_tests| planted("reweave-link", &[ours(SIMULATED_DISK, for_tests)]);
        assert_eq!(violations(&[link(true)]), []);
        assert!(only(link(false)).contains("must not use reweave-sim-disk"));
    }

    #[test]
    fn transitive_and_onlooker_arrows_are_allowed() {
        let agent = planted("reweave-agent", &[ours("reweave-common", false)]);
        let tests = planted("reweave-tests", &[ours("reweave-coordinator", true)]);
        assert_eq!(violations(&[agent, tests]), []);
    }

    #[test]
    fn package_outside_table_is_named() {
        assert!(only(planted("reweave-utils", &[])).contains("not in the table"));
    }

    #[test]
    fn misplaced_room_is_named_with_folder() {
        let mut core = planted("reweave-core", &[]);
        core.dir = "core".into();
        assert!(only(core).ends_with("move it to coordinator/core/"));
    }

    #[test]
    fn pure_room_may_test_with_runtime() {
        let message = only(planted("reweave-common", &[foreign("tokio", false)]));
        assert!(message.contains("pure and must not use tokio"), "{message}");
        assert_eq!(
            violations(&[planted("reweave-common", &[foreign("tokio", true)])]),
            []
        );
        assert_eq!(
            violations(&[planted("reweave-lab", &[foreign("tokio", false)])]),
            []
        );
    }

    #[test]
    fn missing_package_description_is_named() {
        let mut lab = planted("reweave-lab", &[]);
        lab.description.clear();
        assert!(only(lab).contains("has no description"));
    }
}
