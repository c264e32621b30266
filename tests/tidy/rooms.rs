//! The rooms of the house: every package the tree may hold, where it lies, whether it is pure, and
//! which of our own packages it may use. A package that is not in this table may not exist.

use std::collections::BTreeSet;

/// Which of our own packages a room may name. What it names brings what that may use.
pub(crate) enum MayUse {
    These(&'static [&'static str]),
    All,
}

pub(crate) struct Room {
    pub(crate) dir: &'static str,
    pub(crate) package: &'static str,
    pub(crate) pure: bool,
    pub(crate) may_use: MayUse,
}

const fn pure(dir: &'static str, package: &'static str, may_use: &'static [&'static str]) -> Room {
    Room {
        dir,
        package,
        pure: true,
        may_use: MayUse::These(may_use),
    }
}

const fn shell(dir: &'static str, package: &'static str, may_use: &'static [&'static str]) -> Room {
    Room {
        dir,
        package,
        pure: false,
        may_use: MayUse::These(may_use),
    }
}

const fn onlooker(dir: &'static str, package: &'static str) -> Room {
    Room {
        dir,
        package,
        pure: false,
        may_use: MayUse::All,
    }
}

/// The files of this machine are in there, too: pure rooms may name its traits, and their `clippy.toml` bans the files.
pub(crate) const FILES_PACKAGE: &str = "reweave-files";
/// Tests of any room may use it, and no program may.
pub(crate) const SIMULATED_DISK: &str = "reweave-sim-disk";

/// The whole plan. Rooms come into being with their first content, so some are absent yet.
#[rustfmt::skip]
pub(crate) const ROOMS: &[Room] = &[
    pure("common", "reweave-common", &[]),
    shell("common/files", FILES_PACKAGE, &[]),
    pure("proto", "reweave-proto", &["reweave-common"]),
    shell("proto/link", "reweave-link", &["reweave-proto", FILES_PACKAGE]),
    pure("agent/core", "reweave-agent-core", &["reweave-common"]),
    shell("agent", "reweave-agent", &["reweave-agent-core", "reweave-link"]),
    shell("agent/rdma", "reweave-rdma", &["reweave-common"]),
    shell("agent/nccl", "reweave-nccl", &["reweave-common"]),
    pure("coordinator/planner/repair", "reweave-repair", &["reweave-common"]),
    pure("coordinator/planner/sim", "reweave-sim", &["reweave-repair"]),
    pure("coordinator/planner/design", "reweave-design", &["reweave-sim"]),
    pure("coordinator/check", "reweave-check", &["reweave-common"]),
    pure("coordinator/core", "reweave-core", &["reweave-common", "reweave-repair", "reweave-design", "reweave-check"]),
    pure("coordinator/replica", "reweave-replica", &[FILES_PACKAGE]),
    pure("coordinator/formats", "reweave-formats", &["reweave-common"]),
    shell("coordinator/history", "reweave-history", &["reweave-common", FILES_PACKAGE]),
    shell("coordinator/driver", "reweave-driver", &["reweave-link", "reweave-formats"]),
    shell("coordinator", "reweave-coordinator",
          &["reweave-core", "reweave-replica", "reweave-formats", "reweave-history", "reweave-link"]),
    shell("coordinator/cli", "reweave-cli",
          &["reweave-link", "reweave-design", "reweave-check", "reweave-formats", "reweave-history"]),
    shell("tests/disk", SIMULATED_DISK, &[FILES_PACKAGE]),
    shell("tests/lab", "reweave-lab", &["reweave-common"]),
    shell("tests/sim", "reweave-sim-cluster",
          &["reweave-agent-core", "reweave-core", "reweave-driver", "reweave-replica", SIMULATED_DISK]),
    onlooker("tests", "reweave-tests"),
    onlooker("benches", "reweave-benches"),
];

/// The room of a package, if the plan has one.
pub(crate) fn room_of(package: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.package == package)
}

impl Room {
    /// Every package of ours this room may depend on, directly or through what it names.
    pub(crate) fn reach(&self) -> BTreeSet<&'static str> {
        match self.may_use {
            MayUse::All => ROOMS.iter().map(|room| room.package).collect(),
            MayUse::These(named) => named.iter().flat_map(|name| with_reach(name)).collect(),
        }
    }
}

fn with_reach(package: &'static str) -> BTreeSet<&'static str> {
    let mut reached = room_of(package).map(Room::reach).unwrap_or_default();
    reached.insert(package);
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_reach_is_transitive() {
        let agent = room_of("reweave-agent").expect("the table has the agent");
        let reach: Vec<_> = agent.reach().into_iter().collect();
        assert_eq!(
            reach,
            [
                "reweave-agent-core",
                "reweave-common",
                FILES_PACKAGE,
                "reweave-link",
                "reweave-proto"
            ]
        );
    }

    #[test]
    fn room_table_is_unique_and_closed() {
        let packages: BTreeSet<_> = ROOMS.iter().map(|room| room.package).collect();
        let dirs: BTreeSet<_> = ROOMS.iter().map(|room| room.dir).collect();
        assert_eq!((packages.len(), dirs.len()), (ROOMS.len(), ROOMS.len()));
        for room in ROOMS {
            assert!(
                room.reach().is_subset(&packages),
                "{} names a stranger",
                room.package
            );
        }
    }

    #[test]
    fn pure_rooms_reach_pure_rooms_only() {
        for room in ROOMS.iter().filter(|room| room.pure) {
            for reached in room.reach() {
                assert!(
                    reached == FILES_PACKAGE || room_of(reached).is_some_and(|r| r.pure),
                    "{} -> {reached}",
                    room.package
                );
            }
        }
    }
}
