//! The coordinator's core: inputs in, effects out, and the replicated state between them.
//!
//! The driver hands in every input with its moment, and then executes effects in order until there are none. An
//! [`Effect::Append`] is made durable and handed to [`Core::apply`], and only then do further effects come out. A
//! coordinator that restarts, or becomes leader, resumes from the state of its log. Moments must not go backwards,
//! not even across leaders: see [`State::latest`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use reweave_common::circuit::Readback;
use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::Ack;
use reweave_common::member::Digest;
use reweave_common::moment::Moment;
use reweave_common::operator::{Imbalances, Refused, Request, Response};
use reweave_common::plan::{Generation, Plan};
use reweave_common::resource_set::ResourceSet;
use reweave_common::sample::Sample;
use reweave_common::stall::StallDetector;
use reweave_common::units::Rate;

use crate::api::{self, LeaderView};
use crate::estimate::counter_trends::CounterTrends;
use crate::estimate::interval_timer::IntervalTimer;
use crate::estimate::job_names::JobNames;
use crate::estimate::link_latency::Latencies;
use crate::estimate::link_loss::Losses;
use crate::estimate::probe_paths::ProbePaths;
use crate::ingest::admission::{Admissions, JoinRequest};
use crate::ingest::telemetry::Ingest;
use crate::log::command::{Change, Command, LATEST_MINOR};
use crate::log::effect::{AuditRecord, Effect, Input, OperatorRequest, Outbox};
use crate::log::policy::Policy;
use crate::log::policy_settings::EffectivePolicy;
use crate::log::reason_list;
use crate::log::state::{MAX_REVOKED_MEMBERS, Migration, Rollout, State};
use crate::model::evidence::congested;
use crate::model::idle_flows::{IdleFlows, LargeFlows};
use crate::model::imbalance_history::ImbalanceHistory;
use crate::model::probe_summary::ProbeSummary;
use crate::model::world::{DecisionWorld, Measurements, least_elephant};
use crate::plan::plan_check;
use crate::plan::probe_schedule::ProbeSchedule;
use crate::plan::trace_targets::TraceTargets;
use crate::rollout::autopilot::Autopilot;
use crate::rollout::forwarding_rules::rerouted;
use crate::rollout::job_registry::JobRegistry;
use crate::rollout::maintenance::MaintenanceMonitor;
use crate::rollout::{Controllers, DecisionContext, Judge};

/// Shortest gap between inputs that counts as a stall. Ticks are 100 ms apart.
const MIN_STALL: Duration = Duration::from_secs(1);
/// Circuits that a device holds without an instruction become a log entry at most this often per optical switch: a
/// device whose circuits come and go does not fill the log.
const CIRCUITS_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct Core {
    state: State,
    senses: Estimators,
    drivers: Controllers,
    autopilot: Autopilot,
    watching: TraceTargets,
    arrivals: Admissions,
    standings: ProbeSummary,
    probing: ProbeSchedule,
    upkeep: MaintenanceMonitor,
    registry: JobRegistry,
    evenness: ImbalanceHistory,
    asked: VecDeque<OperatorRequest>,
    judge: Judge,
    /// Requests that wait for the checker.
    unjudged: VecDeque<OperatorRequest>,
    /// By optical switch, when it was last found with other circuits than those in force.
    found_circuits: BTreeMap<OpticalId, IntervalTimer>,
    outbox: Outbox,
    /// The moment of the last input; none until this core leads.
    now: Option<Moment>,
    /// The index in [`TICK_STEPS`] of the next step.
    part: usize,
    /// An input since the last decision may have changed something.
    stirred: bool,
    /// The disk is full, so nothing is decided.
    disk_is_full: bool,
    /// The minor version of the protocol that all coordinators read.
    min_version: u16,
    /// Coordinators that the log's membership removed, once reported.
    removed: Option<BTreeSet<String>>,
}

/// The leader's estimates.
#[derive(Debug, Clone)]
struct Estimators {
    fabric: Arc<Fabric>,
    policy: EffectivePolicy,
    least_elephant: Rate,
    ingest: Ingest,
    trends: CounterTrends,
    latencies: Latencies,
    losses: Losses,
    ways: ProbePaths,
    resting: IdleFlows,
    names: JobNames,
    stall: StallDetector,
    /// The end of this coordinator's latest stall.
    resumed_at: Moment,
    looks: IntervalTimer,
    /// Whether a decision is due in this tick.
    is_looking: bool,
}

impl Estimators {
    fn at(&self, now: Moment) -> Measurements<'_> {
        Measurements {
            fabric: &self.fabric,
            policy: self.policy.get(),
            least_elephant: self.least_elephant,
            ingest: &self.ingest,
            trends: &self.trends,
            latencies: &self.latencies,
            losses: &self.losses,
            ways: &self.ways,
            resting: &self.resting,
            names: &self.names,
            resumed_at: self.resumed_at,
            now,
        }
    }
}

impl Estimators {
    fn handle_sample(&mut self, node: NodeId, now: Moment, sample: Sample) {
        let Some(sample) = self.ingest.admit(node, now, sample) else {
            return;
        };
        self.trends.handle_sample(node, now, &sample);
        self.latencies.handle_sample(node, &sample);
        self.ingest.record(node, now, sample);
    }

    /// Updates the names and the announced traffic of jobs.
    fn expect(&mut self, state: &State) {
        self.names = JobNames::of(state.registered());
        self.resting.handle_jobs(&self.fabric, state.registered());
    }

    fn handle_policy(&mut self, state: &State) {
        self.policy.follow(state.policy());
        self.least_elephant = least_elephant(&self.fabric, self.policy.get());
    }

    /// Drops outdated readings, in parts: for thousands of hosts this takes long.
    fn forget(&mut self, now: Moment) {
        self.is_looking = self.looks.is_due(now, self.policy.get().look_every);
        if self.is_looking {
            self.ingest.handle_time(now, self.policy.get());
            self.trends.handle_time(now);
        }
    }

    fn look_at_latencies(&mut self, now: Moment) {
        self.latencies.handle_time(now, &self.fabric, &self.ways);
    }

    /// Reads the world before it changes what the world is built from.
    fn look_at_ways(&mut self, now: Moment) {
        if !self.is_looking {
            return;
        }
        let is_load_due = self.latencies.is_load_due(now);
        let is_queue_due = self.losses.is_queue_due(now);
        let world = self.at(now).world();
        let traced = world.traced_probes();
        let traced = self
            .ways
            .newly_traced(&self.fabric, traced, |from, flow| world.way(from, flow));
        let nearly_full = is_load_due.then(|| world.nearly_full());
        let congested = is_queue_due.then(|| congested(&world));
        drop(world);
        self.ways.handle_traced(now, &self.fabric, traced);
        if let Some(hops) = nearly_full {
            self.latencies.handle_loads(&self.fabric, &hops);
        }
        if let Some(hops) = congested {
            self.losses.handle_queues(hops);
        }
    }

    fn look_at_losses(&mut self, now: Moment) {
        self.losses.handle_time(now, &self.ingest, &self.ways);
    }

    fn look_who_rests(&mut self, now: Moment) {
        if self.is_looking && self.resting.is_due(now) {
            let large = LargeFlows::seen(&self.at(now).world());
            self.resting.handle_flows(now, &self.ingest, large);
        }
    }
}

/// The steps of a tick. In a cluster of thousands of nodes each step takes milliseconds; requests are answered in
/// between.
#[derive(Debug, Clone, Copy)]
enum TickStep {
    Latencies,
    Losses,
    Expiry,
    ProbePaths,
    IdleFlows,
    TraceTargets,
    ProbeSchedule,
    ProbeSummary,
    Monitors,
}

/// In this order, because later steps use the results of earlier ones.
const TICK_STEPS: [TickStep; 9] = [
    TickStep::Latencies,
    TickStep::Losses,
    TickStep::Expiry,
    TickStep::ProbePaths,
    TickStep::IdleFlows,
    TickStep::TraceTargets,
    TickStep::ProbeSchedule,
    TickStep::ProbeSummary,
    TickStep::Monitors,
];
/// With this number of nodes all steps together take a few milliseconds.
const MAX_SINGLE_TICK_NODES: usize = 512;

impl Core {
    /// The core of a new cluster without other coordinators. The policy is that of the file.
    pub fn new(policy: Policy, fabric: Arc<Fabric>) -> Self {
        Self::resume(policy, fabric, State::founded(LATEST_MINOR))
    }

    /// Continues from the state of the previous leader, without measurements yet.
    pub fn resume(policy: Policy, fabric: Arc<Fabric>, state: State) -> Self {
        let policy = EffectivePolicy::new(policy, state.policy());
        let least_elephant = least_elephant(&fabric, policy.get());
        let mut core = Self {
            state,
            senses: Estimators {
                ingest: Ingest::of(&fabric),
                fabric,
                policy,
                least_elephant,
                trends: CounterTrends::default(),
                latencies: Latencies::default(),
                losses: Losses::default(),
                ways: ProbePaths::default(),
                resting: IdleFlows::default(),
                names: JobNames::default(),
                stall: StallDetector::new(MIN_STALL),
                resumed_at: Moment::default(),
                looks: IntervalTimer::default(),
                is_looking: false,
            },
            drivers: Controllers::default(),
            autopilot: Autopilot::default(),
            watching: TraceTargets::default(),
            arrivals: Admissions::default(),
            standings: ProbeSummary::default(),
            probing: ProbeSchedule::default(),
            upkeep: MaintenanceMonitor::default(),
            registry: JobRegistry::default(),
            evenness: ImbalanceHistory::default(),
            asked: VecDeque::new(),
            judge: Judge::default(),
            unjudged: VecDeque::new(),
            found_circuits: BTreeMap::new(),
            outbox: Outbox::default(),
            now: None,
            part: 0,
            stirred: false,
            disk_is_full: false,
            min_version: 0,
            removed: None,
        };
        core.senses.expect(&core.state);
        core
    }

    /// The state, for a coordinator that no longer leads and continues as a follower.
    pub fn into_state(self) -> State {
        self.state
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        self.senses.policy.get()
    }

    /// Applies an entry of the log, an old one or one just made durable.
    pub fn apply(&mut self, command: Command) {
        self.outbox.handle_applied();
        self.outbox.handle_approved(&command.change);
        let tells_of_jobs = command.change.tells_of_jobs();
        let forward = self.forward_plans();
        let revision = self.state.policy().revision;
        self.state.apply(command);
        self.record_rollbacks(&forward);
        if self.state.policy().revision != revision {
            self.senses.handle_policy(&self.state);
            self.probing.handle_policy();
        }
        if tells_of_jobs {
            self.senses.expect(&self.state);
        }
        self.stirred = true;
    }

    fn forward_plans(&self) -> BTreeSet<Generation> {
        let forward = self.state.rollouts().filter(|it| !it.leads_back());
        forward.map(|it| it.plan.generation).collect()
    }

    /// Records the rollbacks of plans that went forward before. An abort is on record already.
    fn record_rollbacks(&mut self, forward: &BTreeSet<Generation>) {
        let turned = |it: &&Rollout| it.leads_back() && forward.contains(&it.plan.generation);
        for rollout in self.state.rollouts().filter(turned) {
            if rollout.steered.aborted.is_some() {
                continue;
            }
            let migration = rollout.phase.migration().into_iter();
            let reasons = migration.flat_map(Migration::reasons);
            self.outbox.record(AuditRecord::RolledBack {
                generation: rollout.plan.generation,
                reasons: reason_list::texts(reasons, &self.senses.fabric),
            });
        }
    }

    /// The next record for the audit log, besides replies to operators.
    pub fn poll_record(&mut self) -> Option<AuditRecord> {
        self.outbox.poll_record()
    }

    /// The seal of the plan that this request approved, as the plan was then.
    pub fn take_seal(&mut self, id: u64) -> Option<String> {
        self.outbox.take_seal(id)
    }

    /// Handles an input. One from a node that the fabric does not have is ignored.
    pub fn handle(&mut self, at: Moment, input: Input) {
        let now = self.now.map_or(at, |now| now.max(at));
        self.now = Some(now);
        // Stalls are checked first at every input: timers that ran during the stall must be restarted before they are
        // read.
        if self.senses.stall.tick(now) {
            self.senses.resumed_at = now;
        }
        match input {
            Input::Tick => self.handle_tick(now),
            Input::Operator {
                id,
                principal,
                request,
            } => {
                self.asked.push_back(OperatorRequest {
                    id,
                    principal,
                    request,
                });
                self.stirred = true;
            }
            Input::Visitor { id, token, request } => self.handle_visitor(now, id, token, request),
            Input::AgentUp { node } => self.handle_agent_up(node),
            Input::AgentDown { node } => {
                self.senses.ingest.handle_disconnected(node);
                self.arrivals.handle_disconnected(node);
            }
            Input::Sample { node, sample } => self.handle_sample(node, now, sample),
            Input::Ack { node, ack } => self.handle_ack(now, node, ack),
            Input::DriverUp { optical } => self.senses.ingest.handle_driver(optical, true),
            Input::DriverDown { optical } => self.senses.ingest.handle_driver(optical, false),
            Input::Readback { optical, readback } => self.handle_readback(now, optical, readback),
            Input::About { node, about } => self.arrivals.handle_about(node, now, about),
            Input::TurnedAway { from, why, times } => {
                self.arrivals.handle_turned_away(now, from, &why, times);
            }
            Input::Knock {
                id,
                token,
                key,
                from,
            } => {
                self.arrivals.handle_knock(JoinRequest {
                    id,
                    token,
                    key,
                    from,
                    is_written: false,
                });
                self.stirred = true;
            }
            Input::Disk { is_full } => {
                self.disk_is_full = is_full;
                self.stirred = true;
            }
            Input::MinVersion { minor } => {
                self.min_version = minor;
                self.stirred = true;
            }
            Input::Removed { coordinators } => {
                // The membership's own log has no such limit.
                let bounded = coordinators.into_iter().take(MAX_REVOKED_MEMBERS);
                self.removed = Some(bounded.collect());
                self.stirred = true;
            }
        }
    }

    /// The next effect. None until the last [`Effect::Append`] has been applied.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.advance();
        self.outbox.poll()
    }

    /// The flow imbalance, each time that it was computed.
    pub fn poll_evenness(&mut self) -> Option<(Moment, Imbalances)> {
        self.evenness.poll_fresh()
    }

    /// The resources that a plan needs exclusively, by present knowledge.
    pub fn claims(&self, plan: &Plan) -> ResourceSet {
        let known = self.senses.at(self.now.unwrap_or_default());
        plan_check::claims(&known.world(), &self.state, plan)
    }

    /// Checks migrations one step at a time, as if they were large.
    #[cfg(test)]
    pub(crate) fn judge_leg_by_leg(&mut self) {
        self.judge = Judge::at_once(0);
    }

    #[cfg(test)]
    pub(crate) fn known_at(&self, now: Moment) -> Measurements<'_> {
        self.senses.at(now)
    }

    /// Runs all steps of a tick, or the next one if there are many nodes: the others are due at once, after urgent
    /// inputs.
    fn handle_tick(&mut self, now: Moment) {
        self.judge_next();
        let is_one_enough = self.senses.fabric.nodes().len() > MAX_SINGLE_TICK_NODES;
        loop {
            self.tick(TICK_STEPS[self.part], now);
            self.part = (self.part + 1) % TICK_STEPS.len();
            if is_one_enough || !self.is_amid_tick() {
                break;
            }
        }
        self.stirred |= !self.is_amid_tick();
    }

    fn tick(&mut self, step: TickStep, now: Moment) {
        match step {
            TickStep::Latencies => self.senses.look_at_latencies(now),
            TickStep::Losses => self.senses.look_at_losses(now),
            TickStep::Expiry => self.senses.forget(now),
            TickStep::ProbePaths => self.senses.look_at_ways(now),
            TickStep::IdleFlows => self.senses.look_who_rests(now),
            TickStep::TraceTargets => {
                self.watching.advance(self.senses.at(now), &mut self.outbox);
            }
            TickStep::ProbeSchedule => {
                self.probing.advance(self.senses.at(now), &mut self.outbox);
            }
            TickStep::ProbeSummary => self.standings.handle_time(self.senses.at(now)),
            TickStep::Monitors => self.look_after(now),
        }
    }

    /// Whether the current tick needs another [`Input::Tick`] to continue.
    pub fn is_amid_tick(&self) -> bool {
        self.part > 0
    }

    /// Whether a migration is being checked, one step per tick. Telemetry should be handled in between.
    pub fn is_judging(&self) -> bool {
        self.judge.is_under_way()
    }

    /// Runs only before the first step of a tick: telemetry waits until the last one.
    fn judge_next(&mut self) {
        if self.part == 0 && self.judge.check_next(&self.senses.fabric) {
            self.ask_again();
        }
    }

    /// Answers requests that waited for the checker before all others.
    fn ask_again(&mut self) {
        while let Some(asked) = self.unjudged.pop_back() {
            self.asked.push_front(asked);
        }
        self.stirred = true;
    }

    fn look_after(&mut self, now: Moment) {
        let world = DecisionWorld::new(self.senses.at(now));
        self.upkeep.handle_time(&world, &self.state);
        self.evenness.handle_time(&world, self.state.in_force());
    }

    /// A token may ask whatever its member may, except for more tokens.
    fn handle_visitor(&mut self, now: Moment, id: u64, token: Digest, request: Request) {
        let visitor = self.state.membership().visitor(token, now);
        let refused = match (visitor, &request) {
            (None, _) => Refused::NoVisitor,
            (Some(_), Request::Visit { .. }) => api::no_visit(),
            (Some(principal), _) => {
                let principal = principal.clone();
                return self.handle(
                    now,
                    Input::Operator {
                        id,
                        principal,
                        request,
                    },
                );
            }
        };
        self.outbox.reply(id, Response::Refused(refused));
    }

    /// A sample that reports a link down leads to an early decision: routes over it lose packets until then.
    fn handle_sample(&mut self, node: NodeId, now: Moment, sample: Sample) {
        if self.senses.ingest.falls(node, &sample) {
            self.autopilot.hurry();
            self.stirred = true;
        }
        self.senses.handle_sample(node, now, sample);
    }

    /// Sends a reconnected switch its last instruction, if other nodes rely on that. A running step and a rollback are
    /// checked before anything is sent, as always.
    fn handle_agent_up(&mut self, node: NodeId) {
        if node.index() >= self.senses.fabric.nodes().len() {
            return;
        }
        self.senses.ingest.handle_connected(node);
        self.watching.handle_connected(node);
        self.probing.handle_connected(node);
        self.stirred = true;
        if self.state.rollouts().any(|it| it.phase.is_unsure_of(node)) {
            self.drivers.handle_connected(node);
        } else if let Some(install) = self.state.last_install(node) {
            self.outbox.install(node, install);
        }
    }

    /// Records a switch's ack. Only its first ack of the running step becomes a log entry. If the disk is full, the
    /// switch is asked again.
    fn handle_ack(&mut self, now: Moment, node: NodeId, ack: Ack) {
        let awaits = |it: &&Rollout| it.phase.step().is_some_and(|step| step.awaits(node, &ack));
        let rollout = self.state.rollouts().find(awaits);
        if let Some(rollout) = rollout.filter(|_| !self.disk_is_full) {
            let flows = rerouted(&self.state.in_force().pins, &rollout.plan.pins);
            let settled = now + self.senses.policy.get().settle;
            self.senses.ingest.handle_rerouted(node, flows, settled);
            self.outbox.join(now, Change::Acked { node, ack });
        }
    }

    /// Records circuits that differ from those in force, although no plan moves circuits of the switch.
    fn handle_circuits(&mut self, now: Moment, optical: OpticalId, readback: Readback) {
        let found = readback.unordered_circuits();
        let is_change = found.is_some_and(|found| {
            self.state
                .is_changed_by(&self.senses.fabric, optical, found)
        });
        if !is_change || self.disk_is_full {
            return;
        }
        let timer = self.found_circuits.entry(optical).or_default();
        if timer.is_due(now, CIRCUITS_INTERVAL) {
            self.autopilot.hurry();
            let change = Change::CircuitObserved { optical, readback };
            self.outbox.append(now, change);
        }
    }

    /// Records a driver's answer. Only the first one becomes a log entry, and only if it says which circuits the
    /// device holds or which instruction it followed.
    fn handle_readback(&mut self, now: Moment, optical: OpticalId, readback: Readback) {
        if readback.unordered_circuits().is_some() {
            return self.handle_circuits(now, optical, readback);
        }
        let moving = self.state.rollouts().find_map(|rollout| {
            let moving = rollout.phase.migration()?.moving()?;
            let awaits = moving.awaits(optical, &readback);
            awaits.then_some((rollout.plan.generation, moving))
        });
        let Some((plan, moving)) = moving else {
            return;
        };
        let is_known = moving.tells(optical, &readback);
        if !is_known {
            let why = readback.outcome.clone().err();
            self.drivers.handle_unclear(plan, why);
        }
        // The next instruction must have a higher number than the driver has followed.
        if is_known || readback.followed().is_some() {
            let change = Change::CircuitObserved { optical, readback };
            self.outbox.append(now, change);
        }
    }

    /// Makes the next decision, once all earlier ones are applied.
    fn advance(&mut self) {
        let Some(now) = self
            .now
            .filter(|_| self.stirred && self.outbox.is_settled())
        else {
            return;
        };
        self.judge.forget_ended(&self.state);
        // Another request may have completed the check.
        if !self.judge.is_under_way() {
            self.ask_again();
        }
        self.stirred = false;
        let known = self.senses.at(now);
        let world = DecisionWorld::new(known);
        let mut turn = DecisionContext {
            known,
            decision_world: &world,
            state: &self.state,
            judge: &mut self.judge,
            out: &mut self.outbox,
        };
        if !self.disk_is_full {
            let is_lowered = self.state.lowered().is_some();
            if self.min_version > self.state.cluster_version() && !is_lowered {
                let minor = self.min_version;
                turn.decide(Change::ClusterVersion { minor });
            }
            if turn.out.is_settled() {
                api::handle_removals(&mut turn, self.removed.as_ref());
            }
            if turn.out.is_settled() {
                self.drivers.advance(&mut turn);
            }
            if turn.out.is_settled() {
                self.autopilot.advance(&mut turn, &self.arrivals);
            }
            if turn.out.is_settled() {
                self.registry.advance(&mut turn);
            }
        }
        let membership = self.state.membership();
        self.arrivals
            .advance(now, membership, turn.out, self.disk_is_full);
        while let Some(asked) = next(&mut self.asked, turn.out) {
            look_first(&asked, &mut turn, &mut self.standings, &mut self.watching);
            self.registry.handle_asked(now, &asked);
            let seen = LeaderView {
                waits: self.autopilot.waits(),
                arrivals: &self.arrivals,
                standings: &self.standings,
                upkeep: &self.upkeep,
                registry: &self.registry,
                evenness: &self.evenness,
                probing: &self.probing,
                cool_down: self.autopilot.rest_of_cool_down(known, &self.state),
                disk_is_full: self.disk_is_full,
                min_version: self.min_version,
                policy: &self.senses.policy,
            };
            let unjudged = api::answer(&mut turn, asked, seen);
            self.unjudged.extend(unjudged);
        }
        api::seal_approvals(&mut turn);
    }
}

/// Runs work that only a request needs.
fn look_first(
    asked: &OperatorRequest,
    turn: &mut DecisionContext<'_>,
    standings: &mut ProbeSummary,
    watching: &mut TraceTargets,
) {
    match &asked.request {
        Request::Status => standings.look(turn.known),
        Request::Trace {
            between,
            refresh: true,
        } if asked.request.may_be_asked_by(asked.principal.role) => {
            let flows = api::meant(turn.world(), between);
            watching.trace(turn.known, flows.unwrap_or_default(), turn.out);
        }
        _ => {}
    }
}

/// The next request to answer. Requests wait until all decisions are applied, except for changes of members, which
/// share entries.
fn next(asked: &mut VecDeque<OperatorRequest>, out: &Outbox) -> Option<OperatorRequest> {
    asked.pop_front_if(|asked| {
        out.is_settled() || (out.is_shared() && is_of_members(&asked.request))
    })
}

fn is_of_members(request: &Request) -> bool {
    matches!(request, Request::Invite { .. } | Request::Revoke { .. })
}
