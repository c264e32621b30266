//! The replicated state: the routes in force, running plans, and the results of earlier ones.
//!
//! [`State::apply`] is total: a command that does not fit changes nothing. The same commands lead to the same state,
//! on every machine and after every restart.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reweave_common::circuit::Readback;
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::{Ack, Install, InstallRefusal, Token};
use reweave_common::migration_plan::Tables;
use reweave_common::moment::Moment;
use reweave_common::plan::{Generation, Pin, Plan};
use reweave_common::resource_set::ResourceSet;
use serde::{Deserialize, Serialize};

use crate::log::command::{Aim, Change, Command, Departure, Move, StepIntent};
use crate::log::frozen_job::Frozen;
use crate::log::maintenance::Maintenance;
use crate::log::reason::Reason;
use crate::log::registered::Registered;
use crate::log::verdict::{Decision, Verdict};

mod cluster_version;
mod concurrent_plans;
mod found_circuits;
mod membership;
mod migration;
mod plan_control;
mod rank_orders;
mod rollout;
mod step;
mod tail;

pub(crate) use membership::{AdmissionStatus, MAX_REVOKED_MEMBERS, MAX_TOKENS, MAX_VISITORS};
pub use membership::{Invitation, Membership, NoEntry, Pass};
pub use migration::{Heading, Migration, Moving, Stage};
pub(crate) use plan_control::Steered;
pub use rollout::{Ended, Outcome, Phase, Rollout, Signed};
pub use step::{Step, StepAnswer, Target};
pub(crate) use tail::TAIL_SINCE_MINOR;
pub use tail::{LoggedPolicy, LoggedSetting, PolicyChange, StateTail};

/// The number of ended plans in the state; the log has all of them.
const MAX_HISTORY_PLANS: usize = 256;
/// The limit of table entries in ended plans, which every snapshot contains. On large fabrics, fewer plans are kept.
const MAX_HISTORY_ENTRIES: usize = 1 << 19;
/// The largest generation and token: up to it, numbers in JSON are exact everywhere (RFC 8259, section 6).
const MAX_NUMBER: u64 = (1 << 53) - 1;
/// The largest number that is accepted from an agent. Each log entry uses few numbers, so the rest lasts longer than
/// any cluster.
const MAX_CLAIM: u64 = MAX_NUMBER / 2;
/// An agent may be ahead of a log that lost its end or was recreated, by at most this. A larger number is false:
/// following it would use up all numbers.
const MAX_AHEAD: u64 = 1 << 20;

/// The minor version since which steps are confirmed.
const CONFIRM_SINCE_MINOR: u16 = 1;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    applied: u64,
    /// The offset of tokens from log indexes: a switch may hold tokens of lost entries.
    ahead: u64,
    /// The latest time of any command.
    latest: Moment,
    newest: Generation,
    in_force: InForce,
    /// Running plans in the order of their generations. Their claims are disjoint from those of approved plans.
    rollouts: Vec<Rollout>,
    ended: u64,
    history: VecDeque<Ended>,
    membership: Membership,
    maintenance: Vec<Maintenance>,
    frozen: Vec<Frozen>,
    registered: BTreeMap<String, Registered>,
    /// The minor version of the protocol whose entries all coordinators read.
    cluster_version: u16,
    /// Who lowered the version. It is not raised automatically: coordinators are being downgraded to the previous
    /// release, and until the first one is, all of them read the later version.
    lowered: Option<Signed>,
    /// All that is newer than version 1.1, whose bytes end here: `encode` writes it behind them.
    #[serde(skip)]
    tail: StateTail,
}

/// The routes that were committed, or restored by a rollback.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InForce {
    pub generation: Generation,
    pub pins: Vec<Pin>,
    pub tables: Tables,
    /// The circuits of optical switches that a plan has changed, or that changed on the device.
    pub circuits: Circuits,
    /// The last instruction to each switch.
    pub installs: BTreeMap<NodeId, Install>,
}

impl InForce {
    /// The desired state of a node, by its last instruction.
    pub fn holding(&self, node: NodeId) -> ForwardingState {
        let install = self.installs.get(&node);
        install.map_or_else(ForwardingState::default, |install| install.holding.clone())
    }

    /// All circuits. Those that no plan has changed are as in the fabric's file.
    pub fn circuits_of(&self, fabric: &Fabric) -> Circuits {
        let mut circuits = fabric.first_circuits().clone();
        circuits.extend(self.circuits.clone());
        circuits
    }
}

impl State {
    /// The state of a new cluster whose coordinators all read this minor version.
    pub fn founded(cluster_version: u16) -> Self {
        Self {
            cluster_version,
            ..Self::default()
        }
    }

    /// The number of applied commands, which is the index of the next one.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// The latest time of any command: a new leader's clock starts no earlier.
    pub fn latest(&self) -> Moment {
        self.latest
    }

    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// Proposed and running plans, oldest first.
    pub fn rollouts(&self) -> impl DoubleEndedIterator<Item = &Rollout> {
        self.rollouts.iter()
    }

    /// The plan of this generation, unless it has ended.
    pub fn rollout(&self, generation: Generation) -> Option<&Rollout> {
        self.rollouts().find(|it| it.plan.generation == generation)
    }

    /// Ended plans, oldest first.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = &Ended> {
        self.history.iter()
    }

    /// Invited and revoked members.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Devices under maintenance, in order.
    pub fn maintenance(&self) -> &[Maintenance] {
        &self.maintenance
    }

    /// Frozen jobs.
    pub fn frozen(&self) -> &[Frozen] {
        &self.frozen
    }

    /// Registered jobs, by name.
    pub fn registered(&self) -> &BTreeMap<String, Registered> {
        &self.registered
    }

    /// The last instruction to a switch, by a running step or an earlier one.
    pub(crate) fn last_install(&self, node: NodeId) -> Option<Install> {
        let mut install = self.rollouts.iter().map(|it| it.last_install(node));
        let install = install.find(Option::is_some).flatten();
        install.or_else(|| self.in_force.installs.get(&node).cloned())
    }

    /// The number of plans that have ever ended.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// The next free generation.
    pub fn next_generation(&self) -> Generation {
        Generation(self.newest.0.saturating_add(1))
    }

    pub fn apply(&mut self, command: Command) {
        let token = Token(self.applied.saturating_add(self.ahead));
        self.applied += 1;
        let at = command.at;
        self.latest = self.latest.max(at);
        self.take(at, token, command.change);
    }

    fn take(&mut self, at: Moment, token: Token, change: Change) {
        match change {
            Change::PlanProposed { plan, claims, by } => {
                self.propose(*plan, *claims, Signed { at, by });
            }
            Change::PlanRefused {
                generation,
                reasons,
            } => self.drop_plan(at, generation, Outcome::Refused { reasons }),
            Change::PlanWithdrawn {
                generation,
                reasons,
            } => self.drop_plan(at, generation, Outcome::Withdrawn { reasons }),
            Change::PlanApproved {
                generation,
                by,
                anyway,
            } => self.approve(generation, Signed { at, by }, anyway),
            Change::StepIntent(intent) => self.intend(token, intent),
            Change::ConfirmIntent { plan } => self.on_migration(plan, |it| it.confirm(token)),
            Change::Acked { node, ack } => self.acknowledge(node, &ack),
            Change::Verified {
                generation,
                verdict,
            } => self.conclude(at, generation, verdict),
            Change::Departed(departure) => self.depart(departure),
            Change::TurnedBack {
                generation,
                migration_plan,
                reasons,
            } => self.on_migration(generation, |migration| {
                migration.turn_back(migration_plan, reasons);
            }),
            Change::DrainProof { generation, .. } => {
                self.on_migration(generation, Migration::prove);
            }
            Change::CircuitIntent {
                plan,
                generation,
                moves,
            } => self.switch(plan, generation, token, moves),
            Change::CircuitObserved { optical, readback } => self.observe(at, optical, readback),
            Change::LightCame { generation } => {
                self.on_migration(generation, Migration::light_came);
            }
            Change::Held {
                generation,
                reasons,
            } => self.hold(generation, reasons),
            Change::RolledBack { generation } => self.roll_back(at, generation),
            Change::Steered {
                generation,
                how,
                by,
            } => self.steer(generation, how, Signed { at, by }),
            Change::Invited { .. }
            | Change::Admitted { .. }
            | Change::Visited { .. }
            | Change::Revoked { .. }
            | Change::Maintained { .. }
            | Change::Froze { .. }
            | Change::Registered { .. }
            | Change::ClusterVersion { .. }
            | Change::ClusterVersionLowered { .. }
            | Change::CoordinatorsRemoved { .. }
            | Change::PolicySet { .. } => self.obey(at, change),
            Change::Together(parts) => self.take_all(at, token, parts),
        }
    }

    fn take_all(&mut self, at: Moment, token: Token, parts: Vec<Change>) {
        for part in parts {
            self.take(at, token, part);
        }
    }

    /// Applies decisions about members, versions, switches, jobs and the policy.
    fn obey(&mut self, at: Moment, change: Change) {
        match change {
            Change::Invited {
                token,
                member,
                expires,
                by,
            } => {
                let invitation = Invitation::new(member, by, expires);
                self.membership.invite(at, token, invitation);
            }
            Change::Admitted { token, key, from } => {
                self.membership.admit(at, token, key, from);
            }
            Change::Visited {
                token,
                member,
                expires,
            } => self.membership.let_visit(at, token, member, expires),
            Change::Revoked { member, .. } => self.membership.revoke(at, member),
            Change::CoordinatorsRemoved { coordinators } => {
                self.membership.handle_removed(at, &coordinators);
            }
            Change::Maintained {
                place,
                stage,
                by,
                kept,
            } => {
                self.maintenance.retain(|it| it.place != place);
                self.maintenance.extend(stage.map(|stage| Maintenance {
                    place,
                    stage,
                    by,
                    since: at,
                    kept,
                }));
                self.maintenance.sort_by_key(|it| it.place);
            }
            Change::Froze {
                hosts,
                is_frozen,
                by,
            } => {
                self.frozen.retain(|job| !job.hosts.is_subset(&hosts));
                if is_frozen {
                    let since = at;
                    self.frozen.push(Frozen { hosts, by, since });
                }
            }
            Change::Registered {
                job, registration, ..
            } => self.register(job, registration),
            Change::ClusterVersion { minor } => self.raise_version(minor),
            Change::ClusterVersionLowered { minor, by } => {
                self.lower_with_tail(minor, Signed { at, by });
            }
            Change::PolicySet { settings, by } => self.set_policy(settings, Signed { at, by }),
            // All other changes concern plans.
            _ => {}
        }
    }

    /// Registers or ends a job. Its end also lifts its freeze.
    fn register(&mut self, job: String, registration: Option<Registered>) {
        match registration {
            Some(registered) => {
                self.registered.insert(job, registered);
            }
            None => {
                let over = self.registered.remove(&job);
                let hosts: BTreeSet<_> = over.into_iter().flat_map(|job| job.hosts).collect();
                self.frozen.retain(|job| !job.hosts.is_subset(&hosts));
            }
        }
    }

    /// Replaces all proposals that need any of the same resources.
    fn propose(&mut self, plan: Plan, claims: ResourceSet, proposed: Signed) {
        let fits = plan.generation > self.newest && plan.parent == self.in_force.generation;
        let taken = self.taken(plan.generation, &claims);
        if !fits || taken.is_some() || !self.in_force.is_all_that_changes(&plan, &claims) {
            return;
        }
        let reasons = vec![Reason::Superseded {
            by: plan.generation,
        }];
        let superseded = Outcome::Withdrawn { reasons };
        self.drop_offers_sharing(proposed.at, &claims, &superseded);
        self.newest = plan.generation;
        self.rollouts.push(Rollout::new(plan, claims, proposed));
    }

    fn drop_plan(&mut self, at: Moment, generation: Generation, outcome: Outcome) {
        let untouched = |phase: &Phase| matches!(phase, Phase::Proposed | Phase::Approved);
        if self.plan_in(generation, untouched).is_some() {
            self.end(at, generation, outcome);
        }
    }

    /// Approves the plan, unless another approved plan claims any of its resources.
    fn approve(&mut self, generation: Generation, approved: Signed, anyway: bool) {
        let claims = self.rollout(generation).map(|it| it.claims.clone());
        if claims.is_none_or(|claims| self.taken(generation, &claims).is_some()) {
            return;
        }
        if let Some(rollout) = self.plan_in(generation, |phase| *phase == Phase::Proposed) {
            rollout.approved = Some(approved);
            rollout.anyway = anyway;
            rollout.phase = Phase::Approved;
        }
    }

    fn intend(&mut self, token: Token, intent: StepIntent) {
        let StepIntent {
            plan,
            generation,
            aim,
            targets,
        } = intent;
        let is_newer = generation > self.newest;
        let is_confirmed_later = self.cluster_version >= CONFIRM_SINCE_MINOR;
        let in_force = &self.in_force;
        let mut rollouts = self.rollouts.iter_mut();
        let Some(rollout) = rollouts.find(|it| it.plan.generation == plan) else {
            return;
        };
        if !targets
            .keys()
            .all(|node| rollout.claims.nodes.contains(node))
        {
            return;
        }
        let step = Step::new(generation, token, targets);
        let accepted = match aim {
            Aim::Install { before } => rollout.begin(step, before, in_force, is_confirmed_later),
            Aim::Undo { reasons } => is_newer && rollout.undo(step, reasons, in_force),
            Aim::Round => {
                let migration = rollout.phase.migration_mut();
                is_newer && migration.is_some_and(|it| it.begin_round(step, is_confirmed_later))
            }
        };
        if accepted {
            self.newest = self.newest.max(generation);
        }
    }

    fn acknowledge(&mut self, node: NodeId, ack: &Ack) {
        let claimed = match &ack.outcome {
            Err(
                InstallRefusal::Older { held, token }
                | InstallRefusal::DifferentContent { held, token },
            ) => Some((*held, *token)),
            _ => None,
        };
        let mut rollouts = self.rollouts.iter_mut();
        let heard = rollouts.any(|rollout| rollout.acknowledge(node, ack));
        if let Some((held, token)) = claimed.filter(|_| heard) {
            self.go_beyond(held, token);
        }
    }

    /// Raises the next numbers above those that a node holds, which the log may have lost.
    fn go_beyond(&mut self, held: Generation, token: Token) {
        let is_credible =
            |claimed: u64, known: u64| claimed <= MAX_CLAIM.min(known.saturating_add(MAX_AHEAD));
        if is_credible(held.0, self.newest.0) {
            self.newest = self.newest.max(held);
        }
        if is_credible(token.0, self.applied + self.ahead) {
            self.ahead = self.ahead.max((token.0 + 1).saturating_sub(self.applied));
        }
    }

    /// Applies the first verdict. A plan is not kept if its ranks are no longer those of the job.
    fn conclude(&mut self, at: Moment, generation: Generation, mut verdict: Verdict) {
        let rollout = self.rollout(generation);
        let reasons = rollout.map_or_else(Vec::new, |it| self.other_ranks(&it.plan));
        let is_due = |it: &&mut Rollout| {
            let migration = it.phase.migration();
            let is_done = migration.is_some_and(|it| it.is_over() && !it.leads_back());
            is_done && it.verdict.is_none()
        };
        let Some(rollout) = self.rollout_mut(generation).filter(is_due) else {
            return;
        };
        if verdict.decision == Decision::Commit && !reasons.is_empty() {
            verdict.decision = Decision::RollBack { reasons };
        }
        let is_kept = verdict.decision == Decision::Commit;
        rollout.verdict = Some(verdict);
        if is_kept {
            self.commit(at, generation);
        }
    }

    fn commit(&mut self, at: Moment, generation: Generation) {
        self.carry_over(generation);
        let Some(rollout) = self.rollout(generation) else {
            return;
        };
        let Some(migration) = rollout.phase.migration() else {
            return;
        };
        let installs = migration.installs.clone();
        let moved = rollout.claims.opticals.clone();
        let Plan {
            pins,
            tables,
            circuits,
            orders,
            ..
        } = rollout.plan.clone();
        let in_force = &mut self.in_force;
        (in_force.pins, in_force.tables) = (pins, tables);
        in_force.circuits.extend(circuits);
        in_force.generation = generation;
        in_force.installs.extend(installs);
        self.reorder(orders);
        self.tail.ordered.retain(|it, _| !moved.contains(it));
        self.end(at, generation, Outcome::Committed);
    }

    /// Restores everything that the plan claims, under a generation of its own.
    fn roll_back(&mut self, at: Moment, plan: Generation) {
        let migration = self.rollout(plan).and_then(|it| it.phase.migration());
        let Some(migration) = migration.filter(|it| it.is_restored()) else {
            return;
        };
        let Heading::Back { reasons } = migration.heading.clone() else {
            return;
        };
        let installs = migration.followed_installs();
        let generation = self.own_number();
        self.carry_over(plan);
        self.in_force.generation = generation;
        self.in_force.installs.extend(installs);
        let outcome = Outcome::RolledBack {
            generation,
            reasons,
        };
        self.end(at, plan, outcome);
    }

    fn depart(&mut self, departure: Departure) {
        let mut rollouts = self.rollouts.iter_mut();
        let rollout = rollouts.find(|it| it.plan.generation == departure.generation);
        if let Some(rollout) = rollout {
            rollout.depart(departure, &self.in_force.tables);
        }
    }

    fn switch(
        &mut self,
        plan: Generation,
        generation: Generation,
        token: Token,
        moves: BTreeMap<OpticalId, Move>,
    ) {
        let is_newer = generation > self.newest;
        let own = |it: &&mut Rollout| moves.keys().all(|moved| it.claims.opticals.contains(moved));
        let rollout = self.rollout_mut(plan).filter(own);
        let migration = rollout.and_then(|it| it.phase.migration_mut());
        let is_switched = |migration: &mut Migration| migration.switch(generation, token, moves);
        if is_newer && migration.is_some_and(is_switched) {
            self.newest = generation;
        }
    }

    fn observe(&mut self, at: Moment, optical: OpticalId, readback: Readback) {
        if let Some(found) = readback.unordered_circuits() {
            return self.find_circuits(at, optical, found);
        }
        let migrations = self.rollouts.iter_mut();
        let mut migrations = migrations.filter_map(|it| it.phase.migration_mut());
        let Some(migration) = migrations.find(|it| it.awaits(optical, &readback)) else {
            return;
        };
        match readback.followed() {
            Some((held, token)) => self.go_beyond(held, token),
            None => migration.observe(optical, readback),
        }
    }

    fn migration_of(&mut self, generation: Generation) -> Option<&mut Migration> {
        self.rollout_mut(generation)?.phase.migration_mut()
    }

    fn on_migration(&mut self, generation: Generation, act: impl FnOnce(&mut Migration)) {
        if let Some(migration) = self.migration_of(generation) {
            act(migration);
        }
    }

    fn hold(&mut self, generation: Generation, reasons: Vec<Reason>) {
        self.on_migration(generation, |migration| {
            migration.held.get_or_insert(reasons);
        });
    }

    fn rollout_mut(&mut self, generation: Generation) -> Option<&mut Rollout> {
        let mut rollouts = self.rollouts.iter_mut();
        rollouts.find(|it| it.plan.generation == generation)
    }

    /// This plan, if it is in such a phase.
    fn plan_in(
        &mut self,
        generation: Generation,
        phase: impl Fn(&Phase) -> bool,
    ) -> Option<&mut Rollout> {
        self.rollout_mut(generation)
            .filter(|rollout| phase(&rollout.phase))
    }

    fn forget_oldest(&mut self) {
        let mut entries = 0;
        let has_room = |ended: &&Ended| {
            entries += ended.plan.entries();
            entries <= MAX_HISTORY_ENTRIES
        };
        let newest = self.history.iter().rev().take(MAX_HISTORY_PLANS);
        let kept = newest.take_while(has_room).count().max(1);
        let forgotten = self.history.len() - kept;
        self.history.drain(..forgotten);
    }

    /// Ends the plan, and with it the proposals made for what it has changed.
    fn end(&mut self, at: Moment, generation: Generation, outcome: Outcome) {
        let mut rollouts = self.rollouts.iter();
        let found = rollouts.position(|it| it.plan.generation == generation);
        let Some(rollout) = found.map(|index| self.rollouts.remove(index)) else {
            return;
        };
        let claims = rollout.claims.clone();
        let changed_something = outcome.changed_something();
        self.history.push_back(rollout.ended(at, outcome));
        self.forget_oldest();
        self.ended += 1;
        if changed_something {
            self.make_room(at, &claims, generation);
        }
    }
}

#[cfg(test)]
mod tests;
