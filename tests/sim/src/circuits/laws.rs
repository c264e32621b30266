//! Invariants that hold after any fault, checked after every change of a kernel, a device or the log.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::circuit::{Circuit, CircuitSet, PortId, Readback, Switchover};
use reweave_common::fabric::Circuits;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::{Install, Token};
use reweave_common::moment::Moment;
use reweave_common::plan::Generation;
use reweave_core::{Aim, Change, Command, Decision, Move, State};
use reweave_driver::moves::contested;

use super::light::{Cabling, Drivers, Lost, Nodes, Port};
use super::wishes::Wishes;
use crate::laws::Acted;

/// A port is idle for this long before anything of it moves.
const MIN_IDLE_TIME: Duration = Duration::from_millis(200);
/// The share of its capacity that every node keeps while circuits move.
pub const MIN_CAPACITY_SHARE: f64 = 0.25;

/// A law that was broken.
#[derive(Debug, Clone, PartialEq)]
pub enum Breach {
    /// Packets for this node loop or are lost.
    Lost {
        to: NodeId,
        how: Lost,
    },
    MovedUnderTraffic {
        port: Port,
    },
    TooNarrow {
        node: NodeId,
        left: usize,
        all: usize,
    },
    /// No log entry requires it.
    NotIntended(Doer, Generation),
    /// During a migration, and no entry confirms it.
    StaysUnconfirmed(NodeId, Generation),
    ActedOnOlder(Doer),
    /// A crash just then would have let it forget what it has promised.
    ActedUnnoted(Doer),
    /// Both of these plans have instructed it, and neither has ended.
    OfTwoPlans(Doer, [Generation; 2]),
    /// An answer that was already handled was taken for another one.
    HeardTwice(Doer, Token),
    /// The node got an instruction that it held already, and something changed.
    NotIdempotent(NodeId),
    /// A plan is over, and this node holds something else than is in force.
    Mixed(Doer),
    /// A person has stopped this plan, and it began something else.
    BegunThoughStopped(Generation),
    /// A person has given it up.
    KeptThoughAborted(Generation),
    NoMatching {
        optical: OpticalId,
        port: PortId,
    },
}

/// A receiver of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doer {
    Node(NodeId),
    Optical(OpticalId),
}

/// Number of checks of each invariant: one that is never checked proves nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Looks {
    pub walks: u64,
    pub acts: u64,
    pub moves: u64,
    pub kept: u64,
    pub taken_back: u64,
    /// Number of plans that started while another was running.
    pub beside: u64,
    /// Number of times that a running plan was paused or aborted.
    pub steered: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Laws {
    pub breaches: Vec<Breach>,
    pub looks: Looks,
    /// Ports that packets pass now, and when they last did.
    used: BTreeSet<Port>,
    last_used: BTreeMap<Port, Moment>,
    /// Ports with traffic under any table of their node, such as that of a NIC with a fixed next hop.
    pub stubborn: BTreeSet<Port>,
    acted: Acted<Doer>,
    heard: BTreeSet<(Doer, Token)>,
    wishes: Wishes,
    /// Running plans, and the receivers that they have instructed.
    open: BTreeMap<Generation, BTreeSet<Doer>>,
    /// Number of log entries that were checked.
    read: usize,
}

/// Everything that checks can see.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    pub now: Moment,
    pub cabling: &'a Cabling,
    pub nodes: &'a Nodes,
    pub drivers: &'a Drivers,
    pub log: &'a [Command],
}

impl Laws {
    /// S1 and S2, and what passes which ports from now on.
    pub fn look_at_ways(&mut self, sight: Sight<'_>) {
        self.looks.walks += 1;
        let Sight {
            cabling,
            nodes,
            drivers,
            ..
        } = sight;
        if let Some((to, how)) = cabling.lost(nodes, drivers) {
            self.breaches.push(Breach::Lost { to, how });
        }
        self.used.extend(&self.stubborn);
        let until_now = self.used.iter().map(|&port| (port, sight.now));
        self.last_used.extend(until_now);
        self.used = cabling.used(nodes, drivers);
        self.used.extend(&self.stubborn);
    }

    /// Whether any packet has passed a port since then.
    pub fn is_used_since(&self, port: Port, then: Moment) -> bool {
        let was_used = self.last_used.get(&port).is_some_and(|&last| last >= then);
        was_used || self.used.contains(&port) || self.stubborn.contains(&port)
    }

    /// S5 and S7, when a node begins to follow an instruction.
    pub fn look_at_act(&mut self, sight: Sight<'_>, node: NodeId, install: &Install) {
        self.looks.acts += 1;
        let noted = &sight.nodes[&node].disk;
        let doer = Doer::Node(node);
        let is_it = |change: &Change| match change {
            Change::StepIntent(intent) => {
                let instructed = intent.targets.get(&node);
                intent.generation == install.generation
                    && instructed.is_some_and(|instructed| instructed.is_same_as(&install.holding))
            }
            _ => false,
        };
        self.look_at_fence(sight, doer, is_it, install.generation, install.token);
        if noted.promised.as_ref().map(|it| it.token) != Some(install.token) {
            self.breaches.push(Breach::ActedUnnoted(doer));
        }
        let is_in_force = noted.in_force.generation == install.generation;
        let is_whole = !sight.cabling.is_damaged(node);
        if is_in_force && is_whole && !sight.nodes[&node].holds_instruction() {
            self.breaches.push(Breach::NotIdempotent(node));
        }
    }

    /// S3 and S5, when a driver begins to move circuits.
    pub fn look_at_moves(&mut self, sight: Sight<'_>, optical: OpticalId, switchover: &Switchover) {
        self.looks.moves += 1;
        let driver = &sight.drivers[&optical];
        let doer = Doer::Optical(optical);
        let is_it = |change: &Change| match change {
            Change::CircuitIntent {
                generation, moves, ..
            } => {
                let desired = moves.get(&optical).map(|it| &it.desired);
                *generation == switchover.generation && desired == Some(&switchover.desired)
            }
            _ => false,
        };
        self.look_at_fence(sight, doer, is_it, switchover.generation, switchover.token);
        if driver.disk.promised.as_ref() != Some(switchover) {
            self.breaches.push(Breach::ActedUnnoted(doer));
        }
        let moves = driver.about_to_move().into_iter();
        let leaving = moves.flat_map(|moves| moves.disconnect.iter().copied());
        let leaving = leaving.flat_map(Circuit::ports);
        let busy = leaving.map(|port| (optical, port)).filter(|port| {
            let last = self.last_used.get(port);
            let was_used = last.is_some_and(|&last| sight.now.since(last) < MIN_IDLE_TIME);
            was_used || self.used.contains(port)
        });
        let under_traffic = busy.map(|port| Breach::MovedUnderTraffic { port });
        self.breaches.extend(under_traffic.collect::<Vec<_>>());
    }

    /// Checks that the log confirms the state of a node, if it is permanent during a migration.
    pub fn look_at_record(&mut self, sight: Sight<'_>, node: NodeId) {
        let noted = &sight.nodes[&node].disk;
        let generation = noted.in_force.generation;
        if noted.fallback.is_none() && !stays(sight.log, generation) {
            self.breaches
                .push(Breach::StaysUnconfirmed(node, generation));
        }
    }

    fn look_at_fence(
        &mut self,
        sight: Sight<'_>,
        doer: Doer,
        is_it: impl Fn(&Change) -> bool,
        generation: Generation,
        token: Token,
    ) {
        let mut decided = sight.log.iter().flat_map(|command| command.change.parts());
        if !decided.any(is_it) {
            self.breaches.push(Breach::NotIntended(doer, generation));
        }
        let later = self.acted.later_than(doer, (generation, token));
        self.breaches
            .extend(later.map(|_| Breach::ActedOnOlder(doer)));
    }

    /// S11, after any move of a device.
    pub fn look_at_device(&mut self, optical: OpticalId, circuits: &CircuitSet) {
        if let Some(port) = contested(circuits) {
            self.breaches.push(Breach::NoMatching { optical, port });
        }
    }

    /// Checks new log entries, which have led to this state.
    pub fn look_at_log(&mut self, sight: Sight<'_>, state: &State) {
        let news = &sight.log[self.read.min(sight.log.len())..];
        for change in news.iter().flat_map(|command| command.change.parts()) {
            self.look_at_entry(sight, change, state);
        }
        self.read = sight.log.len();
    }

    fn look_at_entry(&mut self, sight: Sight<'_>, change: &Change, state: &State) {
        self.look_at_wishes(change);
        match change {
            Change::Departed(departure) => {
                self.looks.beside += u64::from(!self.open.is_empty());
                self.open.entry(departure.generation).or_default();
            }
            Change::StepIntent(intent) => {
                let instructed = intent.targets.keys().copied();
                self.look_at_instructed(intent.plan, instructed.map(Doer::Node));
            }
            Change::Acked { node, ack } => self.look_at_answer(Doer::Node(*node), ack.token),
            Change::CircuitObserved { optical, readback } if answers(readback) => {
                self.look_at_answer(Doer::Optical(*optical), readback.token);
            }
            Change::CircuitIntent { plan, moves, .. } => {
                self.look_at_instructed(*plan, moves.keys().copied().map(Doer::Optical));
                for (&optical, moved) in moves {
                    self.look_at_device(optical, &moved.desired);
                }
                self.look_at_floor(sight, moves);
            }
            Change::Verified {
                generation,
                verdict,
            } if verdict.decision == Decision::Commit => {
                self.looks.kept += 1;
                self.open.remove(generation);
                self.look_at_rest(sight, state);
            }
            Change::RolledBack { generation } => {
                self.looks.taken_back += 1;
                self.open.remove(generation);
                self.look_at_rest(sight, state);
            }
            _ => {}
        }
    }

    /// Checks that nothing starts after an operator paused a plan, and that an aborted plan is not kept.
    fn look_at_wishes(&mut self, change: &Change) {
        if let Change::Steered { generation, .. } = change {
            self.looks.steered += u64::from(self.open.contains_key(generation));
        }
        self.breaches.extend(self.wishes.look_at(change));
    }

    /// S7: the first answer to an instruction counts, and no other.
    fn look_at_answer(&mut self, doer: Doer, token: Token) {
        if !self.heard.insert((doer, token)) {
            self.breaches.push(Breach::HeardTwice(doer, token));
        }
    }

    /// S6: a receiver of a plan's instruction belongs to it until that has ended.
    fn look_at_instructed(&mut self, plan: Generation, doers: impl Iterator<Item = Doer>) {
        for doer in doers {
            let mut others = self.open.iter().filter(|(other, _)| **other != plan);
            if let Some((&other, _)) = others.find(|(_, iterator)| iterator.contains(&doer)) {
                let both = [other, plan];
                self.breaches.push(Breach::OfTwoPlans(doer, both));
            }
            self.open.entry(plan).or_default().insert(doer);
        }
    }

    /// S4: checks the remaining capacity of each node while these circuits move, relative to its full capacity. After a
    /// break, the capacity may be unknown.
    fn look_at_floor(&mut self, sight: Sight<'_>, moves: &BTreeMap<OpticalId, Move>) {
        let goes = |(optical, port): Port| {
            let moved = moves.get(&optical);
            moved.is_some_and(|moved| {
                let mut leaving = moved
                    .expected
                    .iter()
                    .filter(|&it| !moved.desired.contains(it));
                leaving.any(|circuit| circuit.ports().contains(&port))
            })
        };
        let cabling = sight.cabling;
        let nodes = sight.nodes.keys().copied();
        for node in nodes.filter(|it| !cabling.seems_damaged(*it, sight.now)) {
            let lit = cabling
                .interfaces(node)
                .filter(|it| cabling.far(sight.drivers, node, it).is_some());
            let lit: Vec<_> = lit.map(|it| cabling.port(node, it)).collect();
            let (all, gone) = (lit.len(), lit.into_iter().flatten().filter(|&it| goes(it)));
            let left = all - gone.count();
            let whole = all.max(cabling.lit_at_first(node));
            if left < all && (left as f64) < whole as f64 * MIN_CAPACITY_SHARE {
                let all = whole;
                self.breaches.push(Breach::TooNarrow { node, left, all });
            }
        }
    }

    /// S8: checks that every node and device holds the state in force, except for running plans. Nodes at a broken
    /// cable hold a part of it.
    pub fn look_at_rest(&mut self, sight: Sight<'_>, state: &State) {
        let in_force = state.in_force();
        let claims = || state.rollouts().map(|it| &it.claims);
        let is_reported = |id: &NodeId| claims().any(|it| it.nodes.contains(id));
        let nodes = sight.nodes.iter();
        let whole = nodes.filter(|(id, _)| !is_reported(id) && !sight.cabling.is_damaged(**id));
        for (&id, node) in whole {
            let table = in_force.tables.get(&id);
            let towards = table.map_or(0, |table| table.towards.len());
            let holding = node.holding();
            let is_whole = holding.routes.len() == towards;
            if !is_whole || !holding.is_same_as(&in_force.holding(id)) {
                self.breaches.push(Breach::Mixed(Doer::Node(id)));
            }
        }
        let circuits: Circuits = in_force.circuits_of(&sight.cabling.fabric);
        let drivers = sight.drivers.iter();
        for (&optical, driver) in
            drivers.filter(|(id, _)| !claims().any(|it| it.opticals.contains(id)))
        {
            if driver.device.circuits != circuits[&optical] {
                self.breaches.push(Breach::Mixed(Doer::Optical(optical)));
            }
        }
    }
}

/// Whether a driver has answered an instruction with what its device holds.
fn answers(readback: &Readback) -> bool {
    readback.followed().is_none() && readback.unordered_circuits().is_none()
}

/// Whether what was intended as this generation may stay without more being said.
fn stays(log: &[Command], generation: Generation) -> bool {
    let mut turned_back = BTreeSet::new();
    let (mut forth, mut is_intended) = (None, generation == Generation::default());
    for change in log.iter().flat_map(|command| command.change.parts()) {
        match change {
            Change::TurnedBack { generation, .. } => {
                turned_back.insert(*generation);
            }
            Change::StepIntent(intent) if intent.generation == generation => {
                is_intended = true;
                let is_forth = !matches!(intent.aim, Aim::Undo { .. });
                let goes_on = is_forth && !turned_back.contains(&intent.plan);
                forth = goes_on.then_some(intent.plan);
            }
            Change::StepIntent(intent) if forth == Some(intent.plan) => return false,
            Change::ConfirmIntent { plan } if forth == Some(*plan) => return true,
            _ => {}
        }
    }
    is_intended && forth.is_none()
}
