//! Three hosts of the lab, each with a member of both systems.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use reweave_tests::{Labs, Program, STAGE_TIMEOUT, Setting, Stage, StageError, wait_for};

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

impl Trio {
    pub(crate) fn up() -> Result<Self, StageError> {
        let stage = Stage::up(HOSTS, Labs::Hidden)?;
        certificates::make(&stage);
        for place in 0..3 {
            stage.certificate("coordinator", &format!("c{place}"))?;
            stage.write(&format!("c{place}.toml"), &settings(place))?;
        }
        let mut trio = Self {
            running: BTreeMap::new(),
            stage,
        };
        for system in System::ALL {
            (0..3).try_for_each(|place| trio.start(system, place))?;
        }
        Ok(trio)
    }

    pub(crate) fn start(&mut self, system: System, place: Place) -> Result<(), StageError> {
        let program = self
            .stage
            .start(&name(system, place), system.command(&self.stage, place))?;
        self.running.insert((system.name(), place), program);
        Ok(())
    }

    pub(crate) fn kill(&mut self, system: System, place: Place) {
        self.running.remove(&(system.name(), place));
    }

    pub(crate) fn program(&self, system: System, place: Place) -> &Program {
        &self.running[&(system.name(), place)]
    }

    /// Cuts this member off from the others, but not from clients.
    pub(crate) fn cut_off(&self, system: System, place: Place) -> Result<(), StageError> {
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
        self.filter(place, &format!("{input}{output}"))
    }

    pub(crate) fn heal(&self, place: Place) -> Result<(), StageError> {
        self.filter(place, "")
    }

    fn filter(&self, place: Place, chains: &str) -> Result<(), StageError> {
        let table =
            format!("table inet cut {{}}\ndelete table inet cut\ntable inet cut {{\n{chains}}}\n");
        let file = self.stage.write("cut.nft", &table)?;
        let file = file.display().to_string();
        let words = ["nft", "-f", &file];
        self.stage.output(&format!("h{place}"), &words)?;
        Ok(())
    }

    /// Waits until a leader has led the latest term for a while, and returns it.
    pub(crate) fn steady_leader(
        &self,
        system: System,
        for_long: Duration,
    ) -> Result<Place, StageError> {
        let what = format!("{} has one leader, for a while", system.name());
        let (place, _) = wait_for(&what, STAGE_TIMEOUT, || {
            let before = self.leader(system);
            thread::sleep(for_long);
            Ok(before.filter(|before| self.leader(system).as_ref() == Some(before)))
        })?;
        Ok(place)
    }

    /// Returns the last log lines of each member.
    pub(crate) fn last_words(&self, system: System) -> String {
        let last = (0..3).map(|place| {
            let said = self.stage.said(&name(system, place));
            let words = said.lines().last().unwrap_or("nothing").to_owned();
            format!("{} said last: {words}", name(system, place))
        });
        last.collect::<Vec<_>>().join("\n")
    }

    fn leader(&self, system: System) -> Option<(Place, u64)> {
        let lead = (0..3).filter_map(|place| {
            let log = self.stage.said(&name(system, place));
            Some((place, system.term(&log)?))
        });
        lead.max_by_key(|(_, term)| *term)
    }
}

fn name(system: System, place: Place) -> String {
    format!("{}{place}", system.name())
}
