//! The leader's side of a migration: what it does next for tables and circuits of the running network.
//!
//! A round is sent when the checker finds it sound for the network as it is now. Circuits move when all their ports
//! have been seen idle. Packets return when both ends see light. If a step is blocked, the migration is rolled back;
//! the rollback is retried until it succeeds.

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
use super::rollback::{balk, give_up, hold};
use super::rounds::{holdings, planned_rules};
use super::start::{Hindrance, all_connected};
use super::{Controller, DecisionContext, measure};
use crate::log::command::{Change, Departure, Move};
use crate::log::reason::Reason;
use crate::log::state::{InForce, Migration, Moving, Rollout, Stage};
use crate::model::world::{Measurements, World};
use crate::plan::migration::{MigrationStart, RoundWidth};

/// Packets that were under way have come through by then.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Lasers need some time to find each other, and light has to stay.
const LIGHT_TIMEOUT: Duration = Duration::from_secs(10);
/// What was idle then may have begun to send again since.
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

/// As far as it could begin now. One that is still being judged is shown: nothing of it is carried out before.
pub(crate) fn course_of(turn: &DecisionContext<'_>, plan: &Plan) -> Option<operator::Course> {
    if !is_needed(turn.known, turn.state.in_force(), plan) {
        return None;
    }
    let trial = trial(turn, plan).ok()?;
    if matches!(trial.verdict, Some(Err(_))) {
        return None;
    }
    let around = &trial.basis.around;
    let before = (&around.tables, &around.circuits);
    let fabric = turn.known.fabric;
    Some(operator::Course::named(&trial.course, before, fabric))
}

/// What the checker of plans goes by now.
pub(crate) fn base_of(turn: &DecisionContext<'_>, plan: &Plan) -> operator::Base {
    let (known, in_force) = (turn.known, turn.state.in_force());
    let circuits = in_force.circuits_of(known.fabric);
    let pins = in_force.pins.iter().chain(&plan.pins);
    let led_to: BTreeSet<_> = pins.map(|pin| *pin.flow.destination.ip()).collect();
    let mut addresses = turn.world().wiring.addresses();
    addresses.extend(known.ingest.owners());
    addresses.retain(|address, _| led_to.contains(address));
    operator::Base::named(
        (&in_force.pins, &in_force.tables, &circuits),
        &down(turn.world(), &circuits),
        (known.policy.capacity_floor, known.policy.lossless),
        &addresses,
        known.fabric,
    )
}

pub(super) fn departure(
    turn: &mut DecisionContext<'_>,
    plan: &Plan,
) -> Result<Departure, Hindrance> {
    let world = turn.world();
    let trial = laid(turn, plan)?;
    let course = &trial.course;
    all_connected(turn.known, nodes_of(course).collect()).map_err(Hindrance::Unready)?;
    let rules = planned_rules(turn, plan).map_err(Hindrance::Unready)?;
    for round in rounds_of(course) {
        holdings(turn, round, &rules).map_err(Hindrance::Unready)?;
    }
    let undriven = undriven(turn.known, course);
    if !undriven.is_empty() {
        return Err(Hindrance::Unready(undriven));
    }
    let before = measure::before(world, plan).map_err(Hindrance::Unready)?;
    Ok(Departure {
        generation: plan.generation,
        course: course.clone(),
        circuits: trial.basis.around.circuits.clone(),
        before,
    })
}

fn rounds_of(course: &MigrationPlan) -> impl Iterator<Item = &Round> {
    course.legs().filter_map(|(_, leg)| match leg {
        MigrationStep::Round(round) => Some(round),
        MigrationStep::Switch(_) => None,
    })
}

pub(super) fn nodes_of(course: &MigrationPlan) -> impl Iterator<Item = NodeId> {
    rounds_of(course).flat_map(|round| round.keys().copied())
}

/// Optical switches in the migration that no driver reaches.
fn undriven(known: Measurements<'_>, course: &MigrationPlan) -> Vec<Reason> {
    let opticals = course.waves.iter().flat_map(|wave| wave.circuits.keys());
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

/// What the network comes to when only this plan goes on.
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

/// A node in the migration that the plan does not speak for.
pub(super) fn beyond(course: &MigrationPlan, claims: &ResourceSet) -> Option<NodeId> {
    nodes_of(course).find(|node| !claims.nodes.contains(node))
}

/// Links of which an end says that they are down, by cable or by circuit.
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
    pub(super) fn travel(
        &mut self,
        turn: &mut DecisionContext<'_>,
        rollout: &Rollout,
        journey: &Migration,
    ) {
        let plan = &rollout.plan;
        match (&journey.stage, journey.leg()) {
            (Stage::Due | Stage::Proven, _) if rollout.is_stopped() => {}
            (Stage::Due, Some(MigrationStep::Round(round))) => {
                self.begin_round(turn, plan, journey, round);
            }
            (Stage::Due, Some(MigrationStep::Switch(moved))) => {
                self.prove(turn, plan, journey, moved);
            }
            (Stage::Unconfirmed(step) | Stage::Confirming(step) | Stage::Telling(step), _) => {
                self.tell(turn, rollout, journey, step);
            }
            (Stage::Proven, Some(MigrationStep::Switch(moved))) => {
                self.set_out(turn, plan, journey, moved);
            }
            (Stage::Switching(moving), _) => self.switch(turn, plan, journey, moving),
            (Stage::Switched, Some(MigrationStep::Switch(moved))) => {
                self.await_light(turn, plan, journey, moved);
            }
            // It has arrived, and what becomes of it the verdict says.
            _ => {}
        }
    }

    fn prove(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        journey: &Migration,
        moved: &Circuits,
    ) {
        let leaving = leaving(turn.known, journey, moved);
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
            Err(reasons) if is_late => give_up(turn, plan, journey, reasons),
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

    /// The proof may be another leader's, of a network that was another.
    fn set_out(
        &self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        journey: &Migration,
        moved: &Circuits,
    ) {
        match judge(turn, plan, MigrationStep::Switch(moved)) {
            Ok(()) => intend_move(turn, plan, journey, moved),
            Err(reasons) if self.waited(turn) >= turn.known.policy.begin_within => {
                give_up(turn, plan, journey, reasons);
            }
            Err(_) => {}
        }
    }

    /// An instruction that is sent once more, or by another leader, may move what carries packets again.
    fn is_proven(
        &mut self,
        turn: &mut DecisionContext<'_>,
        journey: &Migration,
        moving: &Moving,
    ) -> bool {
        let now = turn.known.now;
        let is_fresh = |at: Moment| now.since(at) < IDLE_PROOF_TTL;
        if !self.proven.is_some_and(is_fresh) {
            let leaving = leaving(turn.known, journey, &moving.desired());
            self.closeness.ask(turn, &leaving);
            if let Ok(proof) = self.proof(turn.known, leaving) {
                self.proven = proof.at.or(Some(now));
            }
        }
        self.proven.is_some_and(is_fresh)
    }

    /// Where a driver does not say what came of it, nothing is undone: the circuits are unknown.
    fn switch(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        journey: &Migration,
        moving: &Moving,
    ) {
        if !journey.is_moving() {
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
            let gives_up = !journey.leads_back() || self.has_tried_enough(turn);
            if gives_up && !journey.is_held() {
                balk(turn, plan, journey, reasons);
            } else if self.waited(turn) >= self.pause(turn, journey)
                && self.may_move(turn, plan, journey, moving)
            {
                self.in_vain += 1;
                again(turn, plan, moving);
            }
            return;
        }
        if !journey.is_held() && self.is_at_a_loss(turn) {
            let mut reasons = self.at_a_loss_for(turn, journey);
            reasons.extend(judge_move(turn, plan, moving).err().into_iter().flatten());
            return hold(turn, plan, reasons);
        }
        let may_pass = self.unclear.as_ref().is_some_and(may_pass) && !journey.is_held();
        let is_due = may_pass || self.waited(turn) >= self.pause(turn, journey);
        let (is_again, due) = (
            is_due && self.unclear.is_some(),
            self.due_moves(turn, moving),
        );
        if (!is_again && due.is_empty()) || !self.may_move(turn, plan, journey, moving) {
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

    /// Since it was decided, something may have begun to send, and links may have gone down.
    fn may_move(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        journey: &Migration,
        moving: &Moving,
    ) -> bool {
        self.is_proven(turn, journey, moving) && judge_move(turn, plan, moving).is_ok()
    }

    /// A node that holds what no plan wants does not come to hold anything else by being asked.
    fn is_at_a_loss(&self, turn: &DecisionContext<'_>) -> bool {
        match &self.unclear {
            // It may not be asked again for long: a port carries packets, or the step is sound no more.
            Some(why) if may_pass(why) => {
                self.in_vain >= turn.known.policy.most_sends.max(1) || self.is_exhausted(turn)
            }
            Some(_) => true,
            None => self.is_exhausted(turn),
        }
    }

    fn at_a_loss_for(&self, turn: &DecisionContext<'_>, journey: &Migration) -> Vec<Reason> {
        let why = self.unclear.clone().unwrap_or(NotSwitched::TimedOut);
        let not_switched = |optical| Reason::NotSwitched {
            optical,
            why: why.clone(),
        };
        let is_driven = |optical: &OpticalId| turn.known.ingest.is_driven(*optical);
        let (driven, lost): (Vec<_>, Vec<_>) = journey.unclear().partition(is_driven);
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
        let told = due.filter_map(|(&optical, _)| {
            let name = &fabric.optical(optical).name;
            Some((optical, moving.switchover(optical, name)?))
        });
        told.collect()
    }

    fn await_light(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        journey: &Migration,
        moved: &Circuits,
    ) {
        let ends = ends(turn.known.fabric, moved);
        self.closeness.ask(turn, &ends);
        let (since, lasts) = (self.watched_since(), turn.known.policy.light_lasts);
        let light = self
            .light
            .get_or_insert_with(|| LinkUpCheck::new(since, lasts));
        light.handle_observations(turn.known, ends);
        let reasons = light.missing();
        let generation = plan.generation;
        if reasons.is_empty() {
            turn.decide(Change::LightCame { generation });
        } else if self.waited(turn) >= LIGHT_TIMEOUT {
            balk(turn, plan, journey, reasons);
        }
    }
}

/// Where the light of these circuits arrives.
fn ends(fabric: &Fabric, circuits: &Circuits) -> Vec<Port> {
    let ports = circuits.iter().flat_map(|(&optical, set)| {
        let ports = set.iter().flat_map(Circuit::ports);
        ports.filter_map(move |port| fabric.fibre(optical, port))
    });
    let ends = ports.map(|fibre| (fibre.node, fibre.interface.clone()));
    ends.collect()
}

/// A device that does not answer may the next time, and a driver that has followed what the log has
/// lost is gone beyond.
pub(super) fn may_pass(why: &NotSwitched) -> bool {
    use NotSwitched::{DifferentContent, Older, TimedOut, Unclear};
    matches!(
        why,
        TimedOut | Unclear { .. } | Older { .. } | DifferentContent { .. }
    )
}

/// Whether the step is sound for the network as it is now, wherever others are in their migrations.
pub(super) fn judge(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    leg: MigrationStep<'_>,
) -> Result<(), Vec<Reason>> {
    let around = EffectiveState::new(turn.state, turn.known.fabric, plan.generation);
    let down = down(turn.world(), &around.circuits);
    let pins = plan.kept_of(&turn.state.in_force().pins);
    check_step(&network(turn, &around, &down, &pins), leg).map_err(reasons)
}

/// The step on which it is. Pins were judged at the start, in all mixtures of before and after.
pub(super) fn judge_now(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    journey: &Migration,
) -> Result<(), Vec<Reason>> {
    let is_of_pins = !is_needed(turn.known, turn.state.in_force(), plan);
    let leg = journey.leg().filter(|_| !is_of_pins);
    leg.map_or(Ok(()), |leg| judge(turn, plan, leg))
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
        told: &claims.nodes,
        pace,
    }
}

fn intend_move(turn: &mut DecisionContext<'_>, plan: &Plan, journey: &Migration, moved: &Circuits) {
    let moves = moved.iter().map(|(&optical, desired)| {
        let expected = journey.circuits.get(&optical).cloned().unwrap_or_default();
        let desired = desired.clone();
        (optical, Move { expected, desired })
    });
    intend(turn, plan, moves.collect());
}

/// With another token, since a driver answers the same instruction always the same.
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

/// The ports of circuits that will be gone.
fn leaving(known: Measurements<'_>, journey: &Migration, moved: &Circuits) -> Vec<Port> {
    let gone = moved.iter().flat_map(|(&optical, after)| {
        let before = journey
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
