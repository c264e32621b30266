//! The leader's part of a migration: the next action for tables and circuits of the running network.
//!
//! A round is sent when the checker finds it sound in the present network. Circuits move once all their ports are
//! proven idle. Packets return once both ends have light. If a step is blocked, the migration is rolled back, and the
//! rollback is retried until it succeeds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_check::{Network, Unsound, check_step};
use reweave_common::circuit::{Circuit, CircuitSet, NotSwitched, Switchover};
use reweave_common::fabric::{Circuits, Fabric, Fibre};
use reweave_common::ids::{LinkId, NodeId, OpticalId};
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Round, Tables};
use reweave_common::moment::Moment;
use reweave_common::operator;
use reweave_common::plan::{Pin, Plan};
use reweave_common::resource_set::ResourceSet;

use super::effective_state::EffectiveState;
use super::idle_proof::{IdleProof, IdleTracker, Port};
use super::link_up_check::LinkUpCheck;
use super::migration_check::{laid, trial};
use super::rollback::{give_up, hold, turn_back_or_hold};
use super::rounds::{holdings, planned_rules};
use super::start::{Hindrance, all_connected};
use super::{Controller, DecisionContext, measure};
use crate::log::command::{Change, Departure, Move};
use crate::log::reason::Reason;
use crate::log::state::{InForce, Migration, Moving, Rollout, Stage};
use crate::model::world::{Measurements, World};
use crate::plan::migration::{MigrationStart, RoundWidth};

/// Packets in flight have arrived within this time.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Lasers need some time to align, and their light has to be stable.
const LIGHT_TIMEOUT: Duration = Duration::from_secs(10);
/// A port may start to send again after this time.
const IDLE_PROOF_TTL: Duration = Duration::from_secs(1);

/// Whether a plan changes more than pins.
pub(crate) fn is_needed(known: Measurements<'_>, in_force: &InForce, plan: &Plan) -> bool {
    let circuits = in_force.circuits_of(known.fabric);
    let moves = plan
        .circuits
        .iter()
        .any(|(optical, set)| circuits.get(optical) != Some(set));
    moves || plan.tables != in_force.tables
}

/// The migration that could start now, for operators. Nothing is shown for a plan that was found unsound.
pub(crate) fn named_migration(
    turn: &DecisionContext<'_>,
    plan: &Plan,
) -> Option<operator::NamedMigration> {
    if !is_needed(turn.known, turn.state.in_force(), plan) {
        return None;
    }
    let trial = trial(turn, plan).ok()?;
    if matches!(trial.verdict, Some(Err(_))) {
        return None;
    }
    let before = &trial.basis.around;
    Some(operator::NamedMigration::named(
        &trial.migration_plan,
        &before.tables,
        &before.circuits,
        turn.known.fabric,
    ))
}

/// What the checker's verdict rests on.
pub(crate) fn base_of(turn: &DecisionContext<'_>, plan: &Plan) -> operator::Base {
    let (known, in_force) = (turn.known, turn.state.in_force());
    let circuits = in_force.circuits_of(known.fabric);
    let pins = in_force.pins.iter().chain(&plan.pins);
    let led_to: BTreeSet<_> = pins.map(|pin| *pin.flow.destination.ip()).collect();
    let mut addresses = turn.world().wiring.addresses();
    addresses.extend(known.ingest.owners());
    addresses.retain(|address, _| led_to.contains(address));
    let inputs = operator::BaseInputs {
        pins: &in_force.pins,
        tables: &in_force.tables,
        circuits: &circuits,
        down: &down(turn.world(), &circuits),
        capacity_floor: known.policy.capacity_floor,
        lossless: known.policy.lossless,
        addresses: &addresses,
    };
    operator::Base::named(inputs, known.fabric)
}

pub(super) fn departure(
    turn: &mut DecisionContext<'_>,
    plan: &Plan,
) -> Result<Departure, Hindrance> {
    let world = turn.world();
    let trial = laid(turn, plan)?;
    let migration_plan = &trial.migration_plan;
    all_connected(turn.known, nodes_of(migration_plan).collect()).map_err(Hindrance::Unready)?;
    let rules = planned_rules(turn, plan).map_err(Hindrance::Unready)?;
    for round in rounds_of(migration_plan) {
        holdings(turn, round, &rules).map_err(Hindrance::Unready)?;
    }
    let undriven = undriven(turn.known, migration_plan);
    if !undriven.is_empty() {
        return Err(Hindrance::Unready(undriven));
    }
    let before = measure::before(world, plan).map_err(Hindrance::Unready)?;
    Ok(Departure {
        generation: plan.generation,
        migration_plan: migration_plan.clone(),
        circuits: trial.basis.around.circuits.clone(),
        before,
    })
}

fn rounds_of(migration_plan: &MigrationPlan) -> impl Iterator<Item = &Round> {
    migration_plan.steps().filter_map(|(_, step)| match step {
        MigrationStep::Round(round) => Some(round),
        MigrationStep::Switch(_) => None,
    })
}

pub(super) fn nodes_of(migration_plan: &MigrationPlan) -> impl Iterator<Item = NodeId> {
    rounds_of(migration_plan).flat_map(|round| round.keys().copied())
}

/// Optical switches of the migration whose drivers are not connected.
fn undriven(known: Measurements<'_>, migration_plan: &MigrationPlan) -> Vec<Reason> {
    let opticals = migration_plan
        .waves
        .iter()
        .flat_map(|wave| wave.circuits.keys());
    let missing = opticals.filter(|optical| !known.ingest.is_driven(**optical));
    missing
        .map(|&optical| Reason::NoDriver { optical })
        .collect()
}

pub(super) fn reasons(unsound: Vec<Unsound>) -> Vec<Reason> {
    unsound.into_iter().map(Reason::Unsound).collect()
}

pub(super) fn network<'a>(
    turn: &'a DecisionContext<'_>,
    around: &'a EffectiveState,
    down: &'a BTreeSet<LinkId>,
    pins: &'a [Pin],
) -> Network<'a> {
    let in_force = turn.state.in_force();
    Network {
        fabric: turn.known.fabric,
        addresses: turn.known.ingest.owners(),
        nics: turn.world().wiring.nics(),
        down,
        generation: in_force.generation,
        pins,
        tables: &around.tables,
        unsure: &around.unsure,
        circuits: &around.circuits,
        floor: turn.known.policy.capacity_floor,
        is_lossless: turn.known.policy.lossless,
        ..Network::untouched(turn.known.fabric)
    }
}

/// The state of the network after this plan alone.
pub(super) fn wanted(
    around: &EffectiveState,
    claims: &ResourceSet,
    tables: &Tables,
    circuits: &Circuits,
) -> (Tables, Circuits) {
    let mut wanted = (around.tables.clone(), around.circuits.clone());
    wanted.0.retain(|node, _| !claims.nodes.contains(node));
    let own = tables
        .iter()
        .filter(|(node, _)| claims.nodes.contains(node));
    wanted
        .0
        .extend(own.map(|(&node, table)| (node, table.clone())));
    let own = circuits.iter();
    let own = own.filter(|(optical, _)| claims.opticals.contains(optical));
    wanted
        .1
        .extend(own.map(|(&optical, set)| (optical, set.clone())));
    wanted
}

/// A node of the migration that the plan does not claim.
pub(super) fn beyond(migration_plan: &MigrationPlan, claims: &ResourceSet) -> Option<NodeId> {
    nodes_of(migration_plan).find(|node| !claims.nodes.contains(node))
}

/// Links that one end reports as down, by cable or by circuit.
pub(super) fn down(world: &World<'_>, circuits: &Circuits) -> BTreeSet<LinkId> {
    let fabric = world.fabric();
    let lit = fabric.lit(circuits).into_iter();
    let lightless = lit.filter(|&link| {
        let ends = fabric
            .link(link)
            .ports()
            .map(|port| fabric.fibre_of(port.node, link));
        ends.into_iter()
            .flatten()
            .any(|fibre| sees_light(world.known, fibre) == Some(false))
    });
    lightless.chain(world.down()).collect()
}

/// None without a recent report.
fn sees_light(known: Measurements<'_>, fibre: &Fibre) -> Option<bool> {
    let observed = known.ingest.observations().node(fibre.node)?;
    let counters = observed.counters.get(&fibre.interface)?;
    let is_fresh = counters.is_fresh(known.now, known.policy.most_age());
    is_fresh.then_some(counters.value.up)
}

impl Controller {
    pub(super) fn advance_migration(
        &mut self,
        turn: &mut DecisionContext<'_>,
        rollout: &Rollout,
        migration: &Migration,
    ) {
        let plan = &rollout.plan;
        match (&migration.stage, migration.current_step()) {
            (Stage::Due | Stage::Proven, _) if rollout.is_stopped() => {}
            (Stage::Due, Some(MigrationStep::Round(round))) => {
                self.begin_round(turn, plan, migration, round);
            }
            (Stage::Due, Some(MigrationStep::Switch(moved))) => {
                self.prove(turn, plan, migration, moved);
            }
            (Stage::Unconfirmed(step) | Stage::Confirming(step) | Stage::Installing(step), _) => {
                self.tell(turn, rollout, migration, step);
            }
            (Stage::Proven, Some(MigrationStep::Switch(moved))) => {
                self.begin_switch(turn, plan, migration, moved);
            }
            (Stage::Switching(moving), _) => self.switch(turn, plan, migration, moving),
            (Stage::Switched, Some(MigrationStep::Switch(moved))) => {
                self.await_light(turn, plan, migration, moved);
            }
            // A completed migration waits for its verdict.
            _ => {}
        }
    }

    fn prove(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        migration: &Migration,
        moved: &Circuits,
    ) {
        let leaving = leaving(turn.known, migration, moved);
        self.closeness.ask(turn, &leaving);
        let quiet = self.proof(turn.known, leaving);
        let is_late = self.waited(turn) >= DRAIN_TIMEOUT;
        if quiet.is_err() && !is_late {
            return;
        }
        match judge(turn, plan, MigrationStep::Switch(moved)).and(quiet) {
            Ok(proof) => {
                self.proven = proof.at.or(Some(turn.known.now));
                turn.decide(Change::DrainProof {
                    generation: plan.generation,
                    quiet: proof.ports,
                });
            }
            Err(reasons) if is_late => give_up(turn, plan, migration, reasons),
            Err(_) => {}
        }
    }

    fn proof(
        &mut self,
        known: Measurements<'_>,
        leaving: Vec<Port>,
    ) -> Result<IdleProof, Vec<Reason>> {
        let since = self.watched_since();
        let quietness = self
            .quietness
            .get_or_insert_with(|| IdleTracker::new(since));
        quietness.handle_observations(known, leaving);
        quietness.proof(known.now, IDLE_PROOF_TTL)
    }

    /// Checks the step again: the proof may be another leader's, about an earlier state of the network.
    fn begin_switch(
        &self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        migration: &Migration,
        moved: &Circuits,
    ) {
        match judge(turn, plan, MigrationStep::Switch(moved)) {
            Ok(()) => intend_move(turn, plan, migration, moved),
            Err(reasons) if self.waited(turn) >= turn.known.policy.begin_within => {
                give_up(turn, plan, migration, reasons);
            }
            Err(_) => {}
        }
    }

    /// Whether the ports are still idle: a repeated instruction could move circuits that carry packets again.
    fn is_proven(
        &mut self,
        turn: &mut DecisionContext<'_>,
        migration: &Migration,
        moving: &Moving,
    ) -> bool {
        let now = turn.known.now;
        let is_fresh = |at: Moment| now.since(at) < IDLE_PROOF_TTL;
        if !self.proven.is_some_and(is_fresh) {
            let leaving = leaving(turn.known, migration, &moving.desired());
            self.closeness.ask(turn, &leaving);
            if let Ok(proof) = self.proof(turn.known, leaving) {
                self.proven = proof.at.or(Some(now));
            }
        }
        self.proven.is_some_and(is_fresh)
    }

    /// Sends or repeats the drivers' instructions. Without a driver's answer nothing is undone, as the circuits are
    /// unknown.
    fn switch(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        migration: &Migration,
        moving: &Moving,
    ) {
        if !migration.is_moving() {
            let failed = moving
                .targets
                .iter()
                .filter(|(_, target)| !target.is_done());
            let why = failed.filter_map(|(&optical, target)| {
                let why = target.answer.clone()?.err();
                let back = NotSwitched::TimedOut;
                Some(Reason::NotSwitched {
                    optical,
                    why: why.unwrap_or(back),
                })
            });
            let reasons: Vec<_> = why.collect();
            let gives_up = !migration.leads_back() || self.has_tried_enough(turn);
            if gives_up && !migration.is_held() {
                turn_back_or_hold(turn, plan, migration, reasons);
            } else if self.waited(turn) >= self.pause(turn, migration)
                && self.may_move(turn, plan, migration, moving)
            {
                self.failed_sends += 1;
                again(turn, plan, moving);
            }
            return;
        }
        if !migration.is_held() && self.is_stuck(turn) {
            let mut reasons = self.stuck_reasons(turn, migration);
            reasons.extend(judge_move(turn, plan, moving).err().into_iter().flatten());
            return hold(turn, plan, reasons);
        }
        let is_transient = self.unclear.as_ref().is_some_and(is_transient) && !migration.is_held();
        let is_due = is_transient || self.waited(turn) >= self.pause(turn, migration);
        let (is_again, due) = (
            is_due && self.unclear.is_some(),
            self.due_moves(turn, moving),
        );
        if (!is_again && due.is_empty()) || !self.may_move(turn, plan, migration, moving) {
            return;
        }
        if is_again {
            return again(turn, plan, moving);
        }
        for (optical, switchover) in due {
            self.switched.insert(optical, turn.known.now);
            turn.out.switch(optical, switchover);
        }
    }

    /// Whether the circuits may still move: a port may have started to send, and links may have gone down since the
    /// decision.
    fn may_move(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        migration: &Migration,
        moving: &Moving,
    ) -> bool {
        self.is_proven(turn, migration, moving) && judge_move(turn, plan, moving).is_ok()
    }

    /// Whether retries are useless: a device that holds unexpected circuits does not change them on a repeated
    /// request.
    fn is_stuck(&self, turn: &DecisionContext<'_>) -> bool {
        match &self.unclear {
            // Repeats may be impossible for long: a port carries packets, or the step is no longer sound.
            Some(why) if is_transient(why) => {
                self.failed_sends >= turn.known.policy.most_sends.max(1) || self.is_exhausted(turn)
            }
            Some(_) => true,
            None => self.is_exhausted(turn),
        }
    }

    fn stuck_reasons(&self, turn: &DecisionContext<'_>, migration: &Migration) -> Vec<Reason> {
        let why = self.unclear.clone().unwrap_or(NotSwitched::TimedOut);
        let not_switched = |optical| Reason::NotSwitched {
            optical,
            why: why.clone(),
        };
        let is_driven = |optical: &OpticalId| turn.known.ingest.is_driven(*optical);
        let (driven, lost): (Vec<_>, Vec<_>) = migration.unclear().partition(is_driven);
        let lost = lost.into_iter().map(|optical| Reason::NoDriver { optical });
        driven.into_iter().map(not_switched).chain(lost).collect()
    }

    fn due_moves(
        &self,
        turn: &DecisionContext<'_>,
        moving: &Moving,
    ) -> Vec<(OpticalId, Switchover)> {
        let Measurements {
            now,
            policy,
            fabric,
            ..
        } = turn.known;
        let unanswered = moving
            .targets
            .iter()
            .filter(|(_, target)| target.answer.is_none());
        let due = unanswered.filter(|(optical, _)| {
            let last = self.switched.get(optical);
            last.is_none_or(|&last| now.since(last) >= policy.answer_within)
        });
        let reports = due.filter_map(|(&optical, _)| {
            let name = &fabric.optical(optical).name;
            Some((optical, moving.switchover(optical, name)?))
        });
        reports.collect()
    }

    fn await_light(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        migration: &Migration,
        moved: &Circuits,
    ) {
        let ends = ends(turn.known.fabric, moved);
        self.closeness.ask(turn, &ends);
        let (since, lasts) = (self.watched_since(), turn.known.policy.light_lasts);
        let light = self.light.get_or_insert_with(|| LinkUpCheck::new(since));
        light.handle_observations(turn.known, ends);
        let reasons = light.missing(lasts);
        let generation = plan.generation;
        if reasons.is_empty() {
            turn.decide(Change::LightCame { generation });
        } else if self.waited(turn) >= LIGHT_TIMEOUT {
            turn_back_or_hold(turn, plan, migration, reasons);
        }
    }
}

/// The ports where the light of these circuits arrives.
fn ends(fabric: &Fabric, circuits: &Circuits) -> Vec<Port> {
    let ports = circuits.iter().flat_map(|(&optical, set)| {
        let ports = set.iter().flat_map(Circuit::ports);
        ports.filter_map(move |port| fabric.fibre(optical, port))
    });
    let ends = ports.map(|fibre| (fibre.node, fibre.interface.clone()));
    ends.collect()
}

/// Whether a retry may help: a device may answer the next time, and a driver that holds lost instructions is overtaken
/// by a higher number.
pub(super) fn is_transient(why: &NotSwitched) -> bool {
    use NotSwitched::{DifferentContent, Older, TimedOut, Unclear};
    matches!(
        why,
        TimedOut | Unclear { .. } | Older { .. } | DifferentContent { .. }
    )
}

/// Whether the step is sound in the present network, in every state of concurrent migrations.
pub(super) fn judge(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    step: MigrationStep<'_>,
) -> Result<(), Vec<Reason>> {
    let around = EffectiveState::new(turn.state, turn.known.fabric, plan.generation);
    let down = down(turn.world(), &around.circuits);
    let pins = plan.kept_of(&turn.state.in_force().pins);
    check_step(&network(turn, &around, &down, &pins), step).map_err(reasons)
}

/// Checks the current step. Pins were checked at the start, in all mixtures of before and after.
pub(super) fn judge_now(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    migration: &Migration,
) -> Result<(), Vec<Reason>> {
    let is_of_pins = !is_needed(turn.known, turn.state.in_force(), plan);
    let step = migration.current_step().filter(|_| !is_of_pins);
    step.map_or(Ok(()), |step| judge(turn, plan, step))
}

fn judge_move(turn: &DecisionContext<'_>, plan: &Plan, moving: &Moving) -> Result<(), Vec<Reason>> {
    judge(turn, plan, MigrationStep::Switch(&moving.desired()))
}

pub(super) fn start<'a>(
    turn: &'a DecisionContext<'_>,
    around: &'a EffectiveState,
    down: &'a BTreeSet<LinkId>,
    claims: &'a ResourceSet,
) -> MigrationStart<'a> {
    let pace = if turn.known.policy.lossless {
        RoundWidth::Narrow
    } else {
        RoundWidth::Wide
    };
    MigrationStart {
        fabric: turn.known.fabric,
        down,
        tables: &around.tables,
        unsure: &around.own_unsure,
        circuits: &around.circuits,
        floor: turn.known.policy.capacity_floor,
        instructed: &claims.nodes,
        pace,
    }
}

fn intend_move(
    turn: &mut DecisionContext<'_>,
    plan: &Plan,
    migration: &Migration,
    moved: &Circuits,
) {
    let moves = moved.iter().map(|(&optical, desired)| {
        let expected = migration
            .circuits
            .get(&optical)
            .cloned()
            .unwrap_or_default();
        let desired = desired.clone();
        (optical, Move { expected, desired })
    });
    intend(turn, plan, moves.collect());
}

/// Repeats the instruction under another token: a driver gives the same answer to the same token.
fn again(turn: &mut DecisionContext<'_>, plan: &Plan, moving: &Moving) {
    let moves = moving
        .targets
        .iter()
        .map(|(&optical, it)| (optical, it.moved.clone()));
    intend(turn, plan, moves.collect());
}

fn intend(turn: &mut DecisionContext<'_>, plan: &Plan, moves: BTreeMap<OpticalId, Move>) {
    turn.decide(Change::CircuitIntent {
        plan: plan.generation,
        generation: turn.state.next_generation(),
        moves,
    });
}

/// The ports of circuits that the move removes.
fn leaving(known: Measurements<'_>, migration: &Migration, moved: &Circuits) -> Vec<Port> {
    let gone = moved.iter().flat_map(|(&optical, after)| {
        let before = migration
            .circuits
            .get(&optical)
            .into_iter()
            .flat_map(CircuitSet::iter);
        let gone = before.filter(|&circuit| !after.contains(circuit));
        gone.flat_map(move |circuit| circuit.ports().map(|port| (optical, port)))
    });
    let fibres = gone.filter_map(|(optical, port)| known.fabric.fibre(optical, port));
    let ports = fibres.map(|fibre| (fibre.node, fibre.interface.clone()));
    ports.collect()
}
