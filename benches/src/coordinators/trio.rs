//! Three hosts of the lab, with a member of each system on every one.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use reweave_common::error::told;
use reweave_tests::{Labs, PATIENCE, Program, Setting, Stage, StageError, wait_for};

use crate::certificates;
use crate::system::{Place, System, address, settings};

const HOSTS: Setting<'static> = Setting {
    scenario: "name = 'bench'\nmanagement = true\nfabric = 'two-leaves.toml'\n",
    fabric: "kind = 'ideal'\nhosts = 3\nnic_gbps = 0.1\n",
};

pub(crate) struct Trio {
    running: BTreeMap<(&'static str, Place), Program>,
    pub(crate) stage: Stage,
}

pub(crate) fn must<T>(outcome: Result<T, StageError>) -> T {
    outcome.unwrap_or_else(|error| panic!("{}", told(&error)))
}

impl Trio {
    pub(crate) fn up() -> Self {
        let stage = must(Stage::up(HOSTS, Labs::Hidden));
        certificates::make(&stage);
        for place in 0..3 {
            must(stage.certificate("coordinator", &format!("c{place}")));
            must(stage.write(&format!("c{place}.toml"), &settings(place)));
        }
        let mut trio = Self {
            running: BTreeMap::new(),
            stage,
        };
        for system in System::ALL {
            (0..3).for_each(|place| trio.start(system, place));
        }
        trio
    }

    pub(crate) fn start(&mut self, system: System, place: Place) {
        let name = format!("{}{place}", system.name());
        let program = self.stage.start(&name, system.command(&self.stage, place));
        self.running.insert((system.name(), place), must(program));
    }

    pub(crate) fn kill(&mut self, system: System, place: Place) {
        self.running.remove(&(system.name(), place));
    }

    pub(crate) fn program(&self, system: System, place: Place) -> &Program {
        &self.running[&(system.name(), place)]
    }

    /// Nothing passes between this member and the others, and everything to and from others.
    pub(crate) fn cut_off(&self, system: System, place: Place) {
        let others = (0..3).filter(|&other| other != place).map(address);
        let others = others.collect::<Vec<_>>().join(", ");
        let protocol = system.protocol();
        let chain = |hook: &str, side: &str| {
            format!(
                "chain {hook} {{\ntype filter hook {hook} priority 0\nip {side} {{ {others} }} meta \
                 l4proto {protocol} drop\n}}\n"
            )
        };
        let (input, output) = (chain("input", "saddr"), chain("output", "daddr"));
        self.filter(place, &format!("{input}{output}"));
    }

    pub(crate) fn heal(&self, place: Place) {
        self.filter(place, "");
    }

    fn filter(&self, place: Place, chains: &str) {
        let table =
            format!("table inet cut {{}}\ndelete table inet cut\ntable inet cut {{\n{chains}}}\n");
        let file = must(self.stage.write("cut.nft", &table));
        let file = file.display().to_string();
        must(
            self.stage
                .output(&format!("h{place}"), &["nft", "-f", &file]),
        );
    }

    /// Whoever leads in the latest term, once that has been so for a while.
    pub(crate) fn steady_leader(&self, system: System, for_long: Duration) -> Place {
        must(wait_for("one leader, for a while", PATIENCE, || {
            let before = self.leader(system);
            thread::sleep(for_long);
            Ok(before.filter(|before| self.leader(system).as_ref() == Some(before)))
        }))
        .0
    }

    fn leader(&self, system: System) -> Option<(Place, u64)> {
        let lead = (0..3).filter_map(|place| {
            let log = self.stage.said(&format!("{}{place}", system.name()));
            Some((place, system.term(&log)?))
        });
        lead.max_by_key(|(_, term)| *term)
    }
}
