//! A migration of the running network, step by step: rounds of tables or pins, and circuits that move between.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::circuit::{Circuit, CircuitSet, NotSwitched, Readback, Switchover};
use reweave_common::fabric::Circuits;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::{Ack, Install, Token};
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Round, Tables};
use reweave_common::plan::Generation;
use serde::{Deserialize, Serialize};

use super::step::Step;
use crate::log::command::{Departure, Move};
use crate::log::migration_steps::{leads_alike, retraced};
use crate::log::reason::Reason;

/// ```text
///                              intent    all followed    all hold it
/// Due -- round, forth ----> Unconfirmed -> Confirming ---+--> Due: the next step, or over
///  |                                                     |
///  +---- round, back -----> Installing ------------------+
///  |     or in a cluster of version 1.0                  |
///  |                                                     |
///  +---- circuits --------> Proven -> Switching -> Switched
///                           ports idle   intent   all moved; light at both ends
/// ```
/// A completed forward migration waits for the verdict. A rollback may start from each stage, unless circuits may be
/// moving; its first step is then Due. A rollback is a migration of its own, from the present state. A completed
/// rollback, or one on its last step with all nodes restored, waits for `RolledBack`. A migration may be held in each
/// stage: that records why it is blocked, and changes nothing.
///
/// A round is sent with `StepIntent` and confirmed with `ConfirmIntent`; the last `Acked` of its nodes completes it.
/// For circuits, the stages change with `DrainProof`, `CircuitIntent`, `CircuitObserved` and `LightCame`. `TurnedBack`
/// starts a rollback, and so does a `StepIntent` that undoes the one round of a plan of pins. `Verified` ends a
/// completed forward migration, and `RolledBack` a completed rollback. `Held` changes no stage.
///
/// In a round of pins, each node keeps its table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Journey")]
pub struct Migration {
    pub heading: Heading,
    #[serde(rename = "course")]
    pub plan: MigrationPlan,
    #[serde(rename = "leg")]
    pub completed_steps: usize,
    pub stage: Stage,
    /// Why it is blocked, while it is being retried.
    pub held: Option<Vec<Reason>>,
    pub tables: Tables,
    /// Nodes that may hold these tables instead.
    pub unsure: Round,
    pub circuits: Circuits,
    /// Instructions to nodes during the migration.
    pub installs: BTreeMap<NodeId, Install>,
    /// During a rollback, the nodes that certainly hold their state from before the plan, even if they refuse later
    /// instructions.
    clean: BTreeSet<NodeId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Heading {
    Forth,
    Back { reasons: Vec<Reason> },
}

/// The progress of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Stage {
    Due,
    /// Nodes apply the step permanently.
    #[serde(rename = "Telling")]
    Installing(Step),
    /// The ports of the circuits are proven idle.
    Proven,
    Switching(Moving),
    /// The circuits are made, and light is awaited at their ends.
    Switched,
    // New in 1.1.
    /// Nodes apply the step, and roll it back unless it is confirmed.
    Unconfirmed(Step),
    /// All nodes have applied the step, and are sent the confirmation.
    Confirming(Step),
}

/// The instructions to drivers of optical switches, and their answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moving {
    pub generation: Generation,
    pub token: Token,
    pub targets: BTreeMap<OpticalId, Target>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "MoveTarget")]
pub struct Target {
    pub moved: Move,
    /// The driver's first answer; later ones are ignored.
    pub answer: Option<Result<CircuitSet, NotSwitched>>,
}

impl Migration {
    pub(super) fn forth(departure: Departure, tables: Tables) -> Self {
        Self {
            heading: Heading::Forth,
            plan: departure.migration_plan,
            completed_steps: 0,
            stage: Stage::Due,
            held: None,
            tables,
            unsure: Round::new(),
            circuits: departure.circuits,
            installs: BTreeMap::new(),
            clean: BTreeSet::new(),
        }
    }

    /// Starts a rollback, unless circuits may be moving, as their state is unknown then. In a running rollback, this
    /// replaces its steps and keeps its reasons.
    pub(super) fn turn_back(&mut self, plan: MigrationPlan, reasons: Vec<Reason>) -> bool {
        if self.is_moving() {
            return false;
        }
        self.clean = self.untouched();
        self.note_unsure();
        if !self.leads_back() {
            self.heading = Heading::Back { reasons };
        }
        self.plan = plan;
        (self.completed_steps, self.stage, self.held) = (0, Stage::Due, None);
        true
    }

    /// Starts or repeats the rollback of a migration of one round with this step.
    pub(super) fn undo(&mut self, step: Step, reasons: Vec<Reason>) -> bool {
        if !self.is_round_of(&step) {
            return false;
        }
        if !self.leads_back() {
            self.turn_back(self.plan.clone(), reasons);
        }
        self.begin_round(step, false) || self.is_over()
    }

    /// Whether the migration has exactly one round, for the nodes of this step.
    fn is_round_of(&self, step: &Step) -> bool {
        let mut steps = self.plan.steps().map(|(_, step)| step);
        let is_whole = match steps.next() {
            Some(MigrationStep::Round(round)) => round.keys().eq(step.targets.keys()),
            Some(MigrationStep::Switch(_)) => false,
            None => step.targets.is_empty(),
        };
        is_whole && steps.next().is_none()
    }

    /// The steps back over all begun steps, to the start of the migration at these tables and circuits. None during a
    /// rollback, which no longer knows the steps.
    pub(crate) fn retraced(&self, tables: &Tables, circuits: &Circuits) -> Option<MigrationPlan> {
        (!self.leads_back()).then(|| retraced(&self.plan, self.begun(), tables, circuits))
    }

    /// The number of begun steps.
    pub(crate) fn begun(&self) -> usize {
        let is_begun = !matches!(self.stage, Stage::Due | Stage::Proven);
        self.completed_steps + usize::from(is_begun)
    }

    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    pub fn leads_back(&self) -> bool {
        self.heading != Heading::Forth
    }

    /// The reasons of the rollback, and why the migration is blocked.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = &Reason> {
        let turned_back = match &self.heading {
            Heading::Forth => &[],
            Heading::Back { reasons } => reasons.as_slice(),
        };
        let held = self.held.iter().flatten();
        let news = held.filter(move |it| !turned_back.contains(it));
        turned_back.iter().chain(news)
    }

    /// Whether a driver's answer is outstanding, so that circuits may be moving.
    pub(crate) fn is_moving(&self) -> bool {
        self.unclear().next().is_some()
    }

    /// Optical switches whose circuits are unknown.
    pub(crate) fn unclear(&self) -> impl Iterator<Item = OpticalId> {
        let targets = self.moving().into_iter().flat_map(|moving| &moving.targets);
        let unclear = targets.filter(|(_, target)| !target.is_known());
        unclear.map(|(&optical, _)| optical)
    }

    /// The instructions to drivers, until all have answered with success.
    pub(crate) fn moving(&self) -> Option<&Moving> {
        match &self.stage {
            Stage::Switching(moving) => Some(moving),
            _ => None,
        }
    }

    /// New circuits of this step whose light is not confirmed yet; the plan began with `first` circuits. None during a
    /// rollback, which begins elsewhere.
    pub(crate) fn unconfirmed_circuits(&self, first: &Circuits) -> Circuits {
        if self.leads_back() || self.stage != Stage::Switched {
            return Circuits::new();
        }
        let mut before = first.clone();
        for (_, step) in self.plan.steps().take(self.completed_steps) {
            if let MigrationStep::Switch(circuits) = step {
                before.extend(circuits.clone());
            }
        }
        let unconfirmed = self.circuits.iter().map(|(&optical, set)| {
            let old = before.get(&optical);
            let is_new = |circuit: &Circuit| !old.is_some_and(|old| old.contains(*circuit));
            (optical, set.iter().filter(is_new).collect())
        });
        unconfirmed.collect()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.current_step().is_none()
    }

    pub(crate) fn current_step(&self) -> Option<MigrationStep<'_>> {
        self.plan
            .steps()
            .nth(self.completed_steps)
            .map(|(_, step)| step)
    }

    pub(crate) fn step(&self) -> Option<&Step> {
        match &self.stage {
            Stage::Installing(step) | Stage::Unconfirmed(step) | Stage::Confirming(step) => {
                Some(step)
            }
            _ => None,
        }
    }

    /// Whether this is the last step.
    pub(crate) fn is_last(&self) -> bool {
        self.plan.steps().nth(self.completed_steps + 1).is_none()
    }

    /// Whether every node certainly holds its state from before the plan.
    pub(crate) fn is_restored(&self) -> bool {
        let is_last_step = self.is_last() && self.step().is_some();
        self.leads_back() && (self.is_over() || is_last_step && self.unrestored().next().is_none())
    }

    /// Nodes of the rollback's step that may still hold the plan's state.
    pub(crate) fn unrestored(&self) -> impl Iterator<Item = NodeId> {
        let step = self.step().filter(|_| self.leads_back());
        let nodes = step.into_iter().flat_map(|step| step.targets.keys());
        nodes.copied().filter(|node| !self.has_followed(*node))
    }

    /// Whether a node has acknowledged its part of the step, or certainly holds it already.
    pub(crate) fn has_followed(&self, node: NodeId) -> bool {
        self.step().is_some_and(|step| {
            let is_clean = self.is_last() && self.clean.contains(&node);
            step.is_done(node) || is_clean && step.is_unchanged(node)
        })
    }

    /// Nodes that refused the first instruction of the plan. A refused confirmation proves nothing about the state
    /// that a node holds.
    fn untouched(&self) -> BTreeSet<NodeId> {
        let (Stage::Unconfirmed(step) | Stage::Installing(step), Heading::Forth) =
            (&self.stage, &self.heading)
        else {
            return BTreeSet::new();
        };
        let is_untouched =
            |node: &NodeId| step.is_unchanged(*node) && !self.installs.contains_key(node);
        let nodes = step.targets.keys().copied();
        nodes.filter(is_untouched).collect()
    }

    pub(crate) fn is_unconfirmed(&self) -> bool {
        matches!(self.stage, Stage::Unconfirmed(_))
    }

    /// Tables that nodes may hold besides their certain ones: those of instructed nodes that have not acknowledged the
    /// round permanently.
    pub(crate) fn unsure_now(&self) -> Round {
        let mut unsure = self.unsure.clone();
        if let (Some(step), Some(MigrationStep::Round(round))) = (self.step(), self.current_step())
        {
            let is_sure = |node| step.is_done(node) && !self.is_unconfirmed();
            let may_hold = round.iter().filter(|(node, _)| !is_sure(**node));
            // A node that is instructed to return to its first table may still hold its other one.
            let is_known = |node: &NodeId| {
                unsure.contains_key(node) && leads_alike(self.tables.get(node), round.get(node))
            };
            let news: Vec<_> = may_hold.filter(|(node, _)| !is_known(node)).collect();
            unsure.extend(news.into_iter().map(|(&node, table)| (node, table.clone())));
        }
        unsure
    }

    fn note_unsure(&mut self) {
        self.unsure = self.unsure_now();
        if let Some(step) = self.step() {
            let installs: Vec<_> = step.installs().collect();
            self.installs.extend(installs);
        }
    }

    /// Records a sent round. Returns whether one was due or is repeated.
    pub(super) fn begin_round(&mut self, step: Step, is_confirmed_later: bool) -> bool {
        let is_due = self.stage == Stage::Due || self.step().is_some();
        let is_round = matches!(self.current_step(), Some(MigrationStep::Round(_)));
        if is_due && is_round {
            self.note_sent();
            self.stage = if is_confirmed_later && !self.leads_back() {
                Stage::Unconfirmed(step)
            } else {
                Stage::Installing(step)
            };
            self.settle_round();
        }
        is_due && is_round
    }

    /// Keeps the acks of a round that is sent again. On the last step of a rollback, these nodes are restored.
    fn note_sent(&mut self) {
        let Some(step) = self.step().cloned() else {
            return;
        };
        if self.leads_back() && self.is_last() {
            let done = step.targets.keys().copied();
            self.clean.extend(done.filter(|node| step.is_done(*node)));
        }
        self.installs.extend(step.installs());
    }

    /// Starts the confirmation, once all nodes of the round have acknowledged it.
    pub(super) fn confirm(&mut self, token: Token) {
        if let Stage::Unconfirmed(step) = &self.stage
            && step.all_done()
        {
            self.stage = Stage::Confirming(step.clone().again(token));
            self.settle_round();
        }
    }

    pub(super) fn acknowledge(&mut self, node: NodeId, ack: &Ack) -> bool {
        let step = match &mut self.stage {
            Stage::Installing(step) | Stage::Confirming(step) => step,
            Stage::Unconfirmed(step) => return step.acknowledge(node, ack),
            _ => return false,
        };
        let heard = step.acknowledge(node, ack);
        let is_done = step.is_done(node);
        if let (true, Some(MigrationStep::Round(round))) = (heard && is_done, self.current_step()) {
            let held = self.tables.get(&node);
            let table = round.get(&node).cloned();
            let new = table.filter(|table| !leads_alike(held, Some(table)));
            self.tables.extend(new.map(|table| (node, table)));
            self.unsure.remove(&node);
        }
        self.settle_round();
        heard
    }

    fn settle_round(&mut self) {
        if let Stage::Installing(step) | Stage::Confirming(step) = &self.stage
            && step.all_done()
        {
            self.installs.extend(step.installs());
            self.clean.retain(|node| !step.targets.contains_key(node));
            self.go_on();
        }
    }

    /// The last acknowledged instruction of each node, once all nodes are restored.
    pub(super) fn followed_installs(&self) -> BTreeMap<NodeId, Install> {
        let mut installs = self.installs.clone();
        if let Some(step) = self.step() {
            installs.retain(|node, _| !step.targets.contains_key(node));
            installs.extend(step.confirmed_installs());
        }
        installs
    }

    fn go_on(&mut self) {
        self.completed_steps += 1;
        (self.stage, self.held) = (Stage::Due, None);
    }

    pub(super) fn prove(&mut self) {
        if self.stage == Stage::Due && matches!(self.current_step(), Some(MigrationStep::Switch(_)))
        {
            self.stage = Stage::Proven;
        }
    }

    /// Records the instructions to drivers. Returns whether they were due or are repeated.
    pub(super) fn switch(
        &mut self,
        generation: Generation,
        token: Token,
        moves: BTreeMap<OpticalId, Move>,
    ) -> bool {
        let is_due = matches!(self.stage, Stage::Proven | Stage::Switching(_));
        if is_due {
            let target = |(optical, moved)| {
                let answer = None;
                (optical, Target { moved, answer })
            };
            self.stage = Stage::Switching(Moving {
                generation,
                token,
                targets: moves.into_iter().map(target).collect(),
            });
        }
        is_due
    }

    pub(super) fn awaits(&self, optical: OpticalId, readback: &Readback) -> bool {
        let moving = self.moving();
        moving.is_some_and(|moving| moving.awaits(optical, readback))
    }

    pub(super) fn observe(&mut self, optical: OpticalId, readback: Readback) {
        let Stage::Switching(moving) = &mut self.stage else {
            return;
        };
        if !moving.awaits(optical, &readback) {
            return;
        }
        if let Some(target) = moving.targets.get_mut(&optical) {
            target.answer = Some(readback.outcome);
            let held = target.held().cloned();
            self.circuits.extend(held.map(|held| (optical, held)));
        }
        if moving.targets.values().all(Target::is_done) {
            self.stage = Stage::Switched;
        }
    }

    /// Records circuits of a switch that the migration does not move.
    pub(super) fn find_circuits(&mut self, optical: OpticalId, found: &CircuitSet) {
        if let Some(circuits) = self.circuits.get_mut(&optical) {
            circuits.clone_from(found);
        }
    }

    pub(super) fn light_came(&mut self) {
        if self.stage == Stage::Switched {
            self.go_on();
        }
    }
}

impl Moving {
    /// Whether this is the first answer to this instruction.
    pub(crate) fn awaits(&self, optical: OpticalId, readback: &Readback) -> bool {
        let is_ours = readback.token == self.token && readback.generation == self.generation;
        let target = self.targets.get(&optical);
        is_ours && target.is_some_and(|target| target.answer.is_none())
    }

    /// Whether the answer names the old or the desired circuits.
    pub(crate) fn tells(&self, optical: OpticalId, readback: &Readback) -> bool {
        let answer = Some(readback.outcome.clone());
        let target = self.targets.get(&optical).cloned();
        target.is_some_and(|target| Target { answer, ..target }.is_known())
    }

    pub(crate) fn desired(&self) -> Circuits {
        let targets = self.targets.iter();
        targets
            .map(|(&optical, target)| (optical, target.moved.desired.clone()))
            .collect()
    }

    pub(crate) fn switchover(&self, optical: OpticalId, name: &str) -> Option<Switchover> {
        let target = self.targets.get(&optical)?;
        Some(Switchover {
            generation: self.generation,
            token: self.token,
            optical: name.to_owned(),
            expected: target.moved.expected.clone(),
            desired: target.moved.desired.clone(),
        })
    }
}

impl Target {
    pub(crate) fn is_done(&self) -> bool {
        self.held() == Some(&self.moved.desired)
    }

    /// The circuits that the device reports, if they are the old or the new ones.
    fn held(&self) -> Option<&CircuitSet> {
        let reported = match self.answer.as_ref()? {
            Ok(found)
            | Err(NotSwitched::Mismatch { found } | NotSwitched::Device { found, .. }) => found,
            Err(_) => return None,
        };
        let Move { expected, desired } = &self.moved;
        [expected, desired].contains(&reported).then_some(reported)
    }

    pub(crate) fn is_known(&self) -> bool {
        self.held().is_some()
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::forwarding::{ForwardingTable, NextHop};
    use reweave_common::forwarding_state::ForwardingState;
    use reweave_common::ids::LinkId;
    use reweave_common::migration_plan::Wave;

    use super::super::step::Step;
    use super::*;

    fn table(at: NodeId, link: usize) -> ForwardingTable {
        let hop = NextHop {
            link: LinkId::from_index(link),
            weight: 1,
        };
        ForwardingTable {
            at,
            towards: BTreeMap::from([(NodeId::from_index(9), vec![hop])]),
            raises: vec![],
        }
    }

    /// A migration with one round, from these tables.
    fn migrating(heading: Heading, [tables, round]: [&Round; 2]) -> Migration {
        Migration {
            heading,
            plan: MigrationPlan {
                waves: vec![Wave {
                    drain: vec![round.clone()],
                    ..Wave::default()
                }],
            },
            completed_steps: 0,
            stage: Stage::Due,
            held: None,
            tables: tables.clone(),
            unsure: Round::new(),
            circuits: Circuits::new(),
            installs: BTreeMap::new(),
            clean: BTreeSet::new(),
        }
    }

    fn step(node: NodeId) -> Step {
        let targets = BTreeMap::from([(node, ForwardingState::default())]);
        Step::new(Generation(2), Token(7), targets)
    }

    fn done(token: u64) -> Ack {
        Ack {
            generation: Generation(2),
            token: Token(token),
            outcome: Ok(ForwardingState::default()),
        }
    }

    /// A node that acknowledged the round and not the rollback may hold either table.
    #[test]
    fn reverted_node_is_unsure_until_ack() {
        let node = NodeId::from_index(0);
        let [old, new] = [0, 1].map(|link| Round::from([(node, table(node, link))]));
        let mut migration = migrating(Heading::Back { reasons: vec![] }, [&old, &old]);
        migration.unsure = new.clone();
        assert!(migration.begin_round(step(node), true));
        assert_eq!(migration.unsure_now(), new);
        assert!(migration.acknowledge(node, &done(7)));
        assert!(migration.unsure_now().is_empty());
    }

    /// An unconfirmed node rolls back by itself, so it may hold either table.
    #[test]
    fn unconfirmed_node_is_unsure_after_ack() {
        let node = NodeId::from_index(0);
        let [old, new] = [0, 1].map(|link| Round::from([(node, table(node, link))]));
        let mut migration = migrating(Heading::Forth, [&old, &new]);
        assert!(migration.begin_round(step(node), true));
        assert!(migration.acknowledge(node, &done(7)));
        assert_eq!(migration.unsure_now(), new);
        migration.confirm(Token(8));
        assert_eq!(migration.unsure_now(), new);
        assert!(migration.acknowledge(node, &done(8)));
        assert!(migration.unsure_now().is_empty());
    }
}
