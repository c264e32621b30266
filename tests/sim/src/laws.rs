//! Invariants that hold after any fault, checked after every event and every change of a kernel.

use std::collections::BTreeMap;
use std::fmt;

use reweave_agent_core::fence::Record;
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::instruction::{Install, Token};
use reweave_common::plan::Generation;
use reweave_common::sample::PinRule;
use reweave_common::snapshot::Hop;
use reweave_core::{Aim, Change, Command, Ended, Outcome, State};

use super::network::Network;
use super::network::addresses::rule_of_pin;
use super::network::forwarding::{Kernels, Lost};

/// A flow may lose this much to a change without being called worse: rates wander by more.
const RATE_TOLERANCE: f64 = 0.05;

/// A law that was broken.
#[derive(Debug, Clone, PartialEq)]
pub enum Breach {
    Loop {
        flow: FlowKey,
    },
    BlackHole {
        flow: FlowKey,
        at: NodeId,
    },
    /// Packets for a NIC come to its host over the link of another.
    OtherNic {
        flow: FlowKey,
        link: LinkId,
    },
    ActedOnOlder {
        switch: NodeId,
        instructed: (Generation, Token),
        acted: (Generation, Token),
    },
    /// A crash just then would have let the switch forget what it has promised.
    ActedUnnoted {
        switch: NodeId,
        generation: Generation,
    },
    GenerationGivenTwice {
        generation: Generation,
    },
    /// A change is over, and a switch holds other rules than are in force.
    Mixed {
        switch: NodeId,
        generation: Generation,
    },
    /// A change was rolled back, and a switch does not hold what it held before.
    NotRestored {
        switch: NodeId,
    },
    /// A kept change left a flow with a lower rate than without the change; if trades are allowed, lower than the
    /// slowest affected flow would have.
    Worse {
        flow: FlowKey,
        before: f64,
        after: f64,
    },
}

#[derive(Debug, Default)]
pub struct Laws {
    breaches: Vec<Breach>,
    acted: Acted<NodeId>,
    /// Number of log entries that were checked.
    read: usize,
    newest: Generation,
    begun: Option<Begun>,
    /// Whether a change may slow a flow down if a slower one gains by it. Where flows that are wider
    /// than their links meet, the fairest change is one like this.
    pub may_trade: bool,
    /// Number of checks of each invariant: one that is never checked proves nothing.
    pub looks: Looks,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    pub ways: u64,
    pub acts: u64,
    pub kept: u64,
    pub taken_back: u64,
}

/// The latest generation and token that each agent or driver has acted on.
#[derive(Debug, Clone)]
pub struct Acted<D>(BTreeMap<D, (Generation, Token)>);

impl<D> Default for Acted<D> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<D: Ord> Acted<D> {
    /// Returns the instruction that it acted on before, if that is later than the present one.
    pub fn later_than(
        &mut self,
        doer: D,
        acts: (Generation, Token),
    ) -> Option<(Generation, Token)> {
        let latest = self.0.entry(doer).or_insert(acts);
        let before = *latest;
        *latest = (before.0.max(acts.0), before.1.max(acts.1));
        (acts.0 < before.0 || acts.1 < before.1).then_some(before)
    }
}

/// State just before the first instruction of a plan.
#[derive(Debug)]
struct Begun {
    generation: Generation,
    kernels: Kernels,
    turnovers: u64,
}

impl Laws {
    /// The laws broken since the last call.
    pub fn breaches(&mut self) -> Vec<Breach> {
        std::mem::take(&mut self.breaches)
    }

    /// Packets of every flow arrive, and over the link of the NIC that they are for.
    pub fn look_at_ways(&mut self, network: &Network) {
        for flow in network.flows() {
            self.looks.ways += 1;
            let flow = *flow;
            self.breaches.extend(match network.way(&flow) {
                Ok(way) if network.ends_at_nic(&flow, way) => None,
                Ok(way) => way
                    .last()
                    .map(|&Hop { link, .. }| Breach::OtherNic { flow, link }),
                Err(Lost::InALoop) => Some(Breach::Loop { flow }),
                Err(Lost::At(at)) => Some(Breach::BlackHole { flow, at }),
            });
        }
    }

    /// `install` is about to be carried out; `noted` is what would survive a crash now.
    pub fn acts(&mut self, switch: NodeId, install: &Install, noted: &Record) {
        self.looks.acts += 1;
        let promised = noted.promised.as_ref();
        if promised.map(|noted| (noted.generation, noted.token))
            != Some((install.generation, install.token))
        {
            let generation = install.generation;
            self.breaches
                .push(Breach::ActedUnnoted { switch, generation });
        }
        let acted = (install.generation, install.token);
        if let Some(instructed) = self.acted.later_than(switch, acted) {
            self.breaches.push(Breach::ActedOnOlder {
                switch,
                instructed,
                acted,
            });
        }
    }

    /// Checks new log entries, which have led to this state.
    pub fn look_at_log(&mut self, log: &[Command], state: &State, network: &Network) {
        let news = log[self.read..].iter();
        for change in news.flat_map(|command| command.change.parts()) {
            self.look_at_entry(change, state, network);
        }
        self.read = log.len();
    }

    fn look_at_entry(&mut self, change: &Change, state: &State, network: &Network) {
        match change {
            Change::StepIntent(intent) => {
                let generation = intent.generation;
                if generation <= self.newest {
                    self.breaches
                        .push(Breach::GenerationGivenTwice { generation });
                }
                self.newest = generation;
                if matches!(intent.aim, Aim::Install { .. }) {
                    self.begun = Some(Begun {
                        generation,
                        kernels: network.kernels.clone(),
                        turnovers: network.turnovers(),
                    });
                }
            }
            Change::Verified { .. } | Change::RolledBack { .. } => {
                self.look_at_end(state, network);
            }
            _ => {}
        }
    }

    /// The plan that had begun may be over now.
    fn look_at_end(&mut self, state: &State, network: &Network) {
        let last = state.history().next_back();
        let is_over =
            |begun: &mut Begun| last.is_some_and(|ended| ended.plan.generation == begun.generation);
        let (Some(begun), Some(ended)) = (self.begun.take_if(is_over), last) else {
            return;
        };
        self.look_at_rules(state, network);
        self.judge(&begun, ended, network);
    }

    fn judge(&mut self, begun: &Begun, ended: &Ended, network: &Network) {
        if ended.outcome == Outcome::Committed {
            self.looks.kept += 1;
            self.look_at_rates(begun, network);
            return;
        }
        self.looks.taken_back += 1;
        for (&switch, kernel) in &begun.kernels {
            let now = &network.kernels[&switch];
            if !now.is_robbed() && sorted(kernel.rules()) != sorted(now.rules()) {
                self.breaches.push(Breach::NotRestored { switch });
            }
        }
    }

    /// Checks that no flow is slower than with the old rules. If flows came or went meanwhile, that could not be known.
    fn look_at_rates(&mut self, begun: &Begun, network: &Network) {
        if begun.turnovers != network.turnovers() {
            return;
        }
        let before = network.rates_under(&begun.kernels);
        let after = network.rates_under(&network.kernels);
        let pairs = before
            .into_iter()
            .map(|(flow, before)| (flow, before, after[&flow]));
        let concerned = pairs.filter(|(_, before, after)| differ(*before, *after));
        let concerned: Vec<_> = concerned.collect();
        let slowest = concerned
            .iter()
            .map(|(_, before, _)| *before)
            .fold(f64::INFINITY, f64::min);
        for (flow, before, after) in concerned {
            let least = if self.may_trade { slowest } else { before };
            if after < least * (1.0 - RATE_TOLERANCE) {
                self.breaches.push(Breach::Worse {
                    flow,
                    before,
                    after,
                });
            }
        }
    }

    /// Every switch holds what is in force, and nothing else.
    pub fn look_at_rules(&mut self, state: &State, network: &Network) {
        let in_force = state.in_force();
        let kernels = network.kernels.iter();
        for (&switch, kernel) in kernels.filter(|(_, kernel)| !kernel.is_robbed()) {
            let pins = in_force.pins.iter().filter(|pin| pin.at == switch);
            let expected: Vec<_> = pins.map(|pin| rule_of_pin(&network.fabric, pin)).collect();
            if sorted(kernel.rules()) != sorted(&expected) {
                let generation = in_force.generation;
                self.breaches.push(Breach::Mixed { switch, generation });
            }
        }
    }
}

fn differ(before: f64, after: f64) -> bool {
    (after - before).abs() > before * RATE_TOLERANCE
}

fn sorted(rules: &[PinRule]) -> Vec<&PinRule> {
    let mut sorted: Vec<_> = rules.iter().collect();
    sorted.sort_unstable();
    sorted
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loop { flow } => write!(f, "{flow} goes in a circle"),
            Self::BlackHole { flow, at } => write!(f, "{flow} is lost at node {at}"),
            Self::OtherNic { flow, link } => {
                write!(f, "{flow} arrives over link {link}, not at its NIC")
            }
            Self::ActedOnOlder {
                switch,
                instructed,
                acted,
            } => write!(
                f,
                "switch {switch} acted on generation {} with token {} after {} with {}",
                acted.0, acted.1.0, instructed.0, instructed.1.0
            ),
            Self::ActedUnnoted { switch, generation } => {
                write!(
                    f,
                    "switch {switch} acted on generation {generation} before noting it down"
                )
            }
            Self::GenerationGivenTwice { generation } => {
                write!(f, "generation {generation} is not newer than all before")
            }
            Self::Mixed { switch, generation } => {
                write!(
                    f,
                    "switch {switch} holds other rules than generation {generation}"
                )
            }
            Self::NotRestored { switch } => {
                write!(
                    f,
                    "switch {switch} does not hold what it held before the plan"
                )
            }
            Self::Worse {
                flow,
                before,
                after,
            } => {
                write!(
                    f,
                    "{flow} has {after:.0} b/s and would have {before:.0} without the plan"
                )
            }
        }
    }
}
