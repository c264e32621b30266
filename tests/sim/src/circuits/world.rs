//! The simulation of a cluster: one clock, one seed, slow and lossy connections. All invariants are checked after every
//! event. Two simulations with one seed are equal.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::circuit::{CircuitSet, OpticalName};
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::Instruction;
use reweave_common::migration_plan::Tables;
use reweave_common::moment::Moment;
use reweave_common::operator::{Request, Response, Steering};
use reweave_common::plan::Plan;
use reweave_core::{Author, Change, Migration, Outcome, Reason, Stage, State};

use super::cluster::{Cluster, Did};
use super::faults::Fault;
use super::laws::Looks;
use crate::actor::{Order, Report};
use crate::chance::Chance;
use crate::coordinator::{Guest, Output};
use crate::journal::Journal;
use crate::leaders::Leaders;
use crate::schedule::Schedule;
use crate::wire::{SessionId, Weather, Wire};
use crate::{SimulatedDelays, TICK_INTERVAL};

pub(super) const DELAYS: SimulatedDelays = SimulatedDelays::DEFAULT_DELAYS;
/// Duration of a step of an agent or a driver.
const STEP_TIMES: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(8)];
/// A plan ends so soon once everything works again.
pub const PLAN_TIMEOUT: Duration = Duration::from_mins(1);
/// Time between changes of flapping light.
const FLICKER_INTERVAL: Duration = Duration::from_millis(200);
/// Until every agent has been heard often enough for a plan.
const WARM_UP_TIME: Duration = Duration::from_secs(4);

#[derive(Debug, Clone)]
pub enum Event {
    Tick,
    /// The coordinator restarts.
    Lead,
    Start(Guest),
    Dial(Guest, u64),
    /// This end of a session is gone; the coordinator's end is.
    Lost(Guest, SessionId),
    Left(Guest, SessionId),
    Report(NodeId, u64),
    Work(Guest, u64),
    /// Without a session it is from a former leader.
    Instructed(Option<SessionId>, Order),
    Heard(SessionId, Report),
    Fault(Fault),
    /// Flapping light changes its state.
    Flicker,
    /// A person looks whether something has to be put right by hand.
    PutRight,
    /// The operator who paused a plan resumes it as soon as a coordinator leads.
    LetGoOn,
}

#[derive(Debug)]
pub struct World {
    pub cluster: Cluster,
    pub wire: Wire,
    pub schedule: Schedule<Event>,
    pub sessions: BTreeMap<Guest, SessionId>,
    /// Programs with a step in progress, and the number of their restart.
    working: BTreeMap<Guest, u64>,
    pub hangs_until: BTreeMap<Guest, Moment>,
    journal: Journal,
    /// Number of log entries in the journal.
    noted: usize,
    /// Number of requests for fast sampling.
    pub asked_closely: u64,
    pub events: u64,
    /// Time without a coordinator after one has died.
    pub absence: Option<Duration>,
}

impl World {
    pub fn new(fabric: Fabric, seed: u64) -> Self {
        let cluster = Cluster::new(fabric);
        let mut world = Self {
            wire: Wire::new(Chance::of(seed), Weather::FAIR_WEATHER),
            schedule: Schedule::starting_at(Moment::from_micros(1_000_000)),
            sessions: BTreeMap::new(),
            working: BTreeMap::new(),
            hangs_until: BTreeMap::new(),
            journal: Journal::new(seed),
            noted: 0,
            asked_closely: 0,
            events: 0,
            absence: None,
            cluster,
        };
        world.schedule.after(TICK_INTERVAL, Event::Tick);
        world.schedule.after(FLICKER_INTERVAL, Event::Flicker);
        world.schedule.after(WARM_UP_TIME, Event::PutRight);
        for guest in world.cluster.guests() {
            world.schedule.after(Duration::ZERO, Event::Start(guest));
        }
        world.run_for(WARM_UP_TIME);
        world
    }

    pub fn now(&self) -> Moment {
        self.schedule.now()
    }

    pub fn state(&self) -> Option<&State> {
        self.cluster.state()
    }

    pub fn looks(&self) -> Looks {
        self.cluster.laws.looks
    }

    /// Whether a plan is running, or may be.
    pub fn is_busy(&self) -> bool {
        let under_way = |state: &State| state.rollouts().any(|it| it.approved.is_some());
        self.state().is_none_or(under_way)
    }

    /// Whether an operator has to put something right.
    pub fn is_held(&self) -> bool {
        self.migrations().any(Migration::is_held)
    }

    /// Whether the reported reason is a device with a wrong state.
    pub fn is_held_for_a_device(&self) -> bool {
        let mut reasons = self
            .migrations()
            .filter_map(|it| it.held.as_ref())
            .flatten();
        reasons.any(|reason| matches!(reason, Reason::NotSwitched { .. }))
    }

    fn migrations(&self) -> impl Iterator<Item = &Migration> {
        let rollouts = self.state().into_iter().flat_map(State::rollouts);
        rollouts.filter_map(|rollout| rollout.phase.migration())
    }

    /// Returns the outcome of the plan that ended last.
    pub fn outcome(&self) -> Option<Outcome> {
        let ended = self.state()?.history().next_back();
        ended.map(|ended| ended.outcome.clone())
    }

    /// An operator wants these circuits, and approves any plan that makes them.
    pub fn rewire(&mut self, circuits: &Circuits) {
        let circuits = named(&self.cluster.cabling.fabric, circuits);
        if let Some(Response::Plan {
            plan: Some(plan), ..
        }) = self.ask(Request::Rewire { circuits })
        {
            let generation = plan.generation;
            self.ask(Request::Apply { generation });
        }
    }

    /// An operator has approved a plan for any tables and circuits.
    pub fn propose(&mut self, tables: Tables, circuits: Circuits) {
        let Some(state) = self
            .state()
            .filter(|state| state.rollouts().next().is_none())
        else {
            return;
        };
        let (parent, generation) = (state.in_force().generation, state.next_generation());
        let plan = Box::new(Plan {
            tables,
            circuits,
            ..Plan::empty(generation, parent)
        });
        let claims = self
            .cluster
            .coordinator
            .core()
            .map(|core| core.claims(&plan));
        let (now, by) = (self.now(), Author::Operator("ada".to_owned()));
        let proposed = Change::PlanProposed {
            plan,
            claims: Box::new(claims.unwrap_or_default()),
            by: by.clone(),
        };
        for change in [
            proposed,
            Change::PlanApproved {
                generation,
                by,
                anyway: false,
            },
        ] {
            let output = self.cluster.coordinator.decide(now, change);
            self.carry_all_out(output.into_iter().collect());
        }
        self.look();
    }

    /// A person changes circuits on the device, and its driver reads it.
    pub fn change_by_hand(&mut self, optical: OpticalId, circuits: CircuitSet) {
        let driver = self.cluster.driver(optical);
        driver.device.circuits = circuits;
        let report = driver.report();
        self.cluster.look_at_ways(self.schedule.now());
        self.note(format!("a person changes circuits of {optical}"));
        if let Some(readback) = report {
            self.say(&Report::Readback(optical, readback));
        }
        self.look();
    }

    pub fn ask(&mut self, request: Request) -> Option<Response> {
        let now = self.now();
        let (answer, outputs) = self.cluster.coordinator.ask(now, request);
        self.carry_all_out(outputs);
        self.look();
        answer
    }

    pub fn run_for(&mut self, span: Duration) {
        let end = self.now() + span;
        while self.now() < end {
            self.step();
        }
    }

    /// Whether it came to be so in time.
    pub fn run_until(&mut self, span: Duration, is_so: impl Fn(&Self) -> bool) -> bool {
        let end = self.now() + span;
        while self.now() < end && !is_so(self) {
            self.step();
        }
        is_so(self)
    }

    fn step(&mut self) {
        if let Some(event) = self.schedule.go_on() {
            self.events += 1;
            self.live(event);
            self.look();
        }
    }

    fn look(&mut self) {
        let log = self.cluster.coordinator.log();
        for command in &log[self.noted.min(log.len())..] {
            let line: String = format!("{:?}", command.change).chars().take(100).collect();
            self.journal.note(self.schedule.now(), line);
        }
        self.noted = log.len();
        self.cluster.look_at_log(self.schedule.now());
        let breaches = std::mem::take(&mut self.cluster.laws.breaches);
        if !breaches.is_empty() {
            self.fail(&format!("{breaches:?}"));
        }
    }

    /// Ends the test with all there is to know.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let migrations = self.migrations();
        let under_way: Vec<_> = migrations
            .map(|it| (&it.heading, it.completed_steps, &it.stage))
            .collect();
        self.journal.fail(self.now(), why, &under_way);
    }

    pub fn note(&mut self, line: String) {
        self.journal.note(self.schedule.now(), line);
    }

    /// Returns all events, line by line.
    pub fn journal(&self) -> String {
        self.journal.text()
    }

    fn live(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Tick => {
                self.schedule.after(TICK_INTERVAL, Event::Tick);
                let outputs = self.cluster.coordinator.tick(now);
                self.carry_all_out(outputs);
            }
            Event::Lead => {
                if !self.cluster.coordinator.is_running() {
                    self.note("the coordinator restarts".to_owned());
                    self.cluster.coordinator.start();
                }
            }
            Event::Start(guest) => self.start(guest),
            Event::Dial(guest, life) => self.dial(guest, life),
            Event::Lost(guest, session) => self.lose(guest, session),
            Event::Left(guest, session) => {
                let outputs = self.cluster.coordinator.left(now, guest, session);
                self.carry_all_out(outputs);
            }
            Event::Report(node, life) => self.report(node, life),
            Event::Work(guest, life) => self.work(guest, life),
            Event::Instructed(session, order) => self.tell(session, order),
            Event::Heard(session, report) => {
                let outputs = self.cluster.coordinator.report(now, session, report);
                self.carry_all_out(outputs);
            }
            Event::Fault(fault) => self.strike(fault),
            Event::Flicker => self.flicker(),
            Event::PutRight => self.put_right(),
            Event::LetGoOn => self.let_go_on(),
        }
    }

    fn start(&mut self, guest: Guest) {
        if self.cluster.is_running(guest) {
            return;
        }
        self.note(format!("{guest:?} starts"));
        self.cluster.start(guest);
        let life = self.cluster.life(guest).number;
        self.schedule
            .after(Duration::ZERO, Event::Dial(guest, life));
        if let Guest::Agent(node) = guest {
            let soon = self.a_while([Duration::ZERO, DELAYS.reports]);
            self.schedule.after(soon, Event::Report(node, life));
        }
        self.stir(guest);
    }

    /// Schedules the restart of a program; the coordinator notices its absence.
    pub fn mourn(&mut self, guest: Guest) {
        self.note(format!("{guest:?} dies"));
        let back = self.a_while(DELAYS.comes_back);
        self.schedule.after(back, Event::Start(guest));
        if let Some(session) = self.sessions.remove(&guest) {
            let noticed = self.a_while(DELAYS.idle);
            self.schedule.after(noticed, Event::Left(guest, session));
        }
    }

    /// Schedules the restart of the coordinator; its sessions are lost, which others notice one by one.
    pub fn mourn_coordinator(&mut self) {
        self.note("the coordinator dies".to_owned());
        let soon = self.a_while(DELAYS.comes_back);
        let back = self.absence.unwrap_or(soon);
        self.schedule.after(back, Event::Lead);
        for (guest, session) in self.sessions.clone() {
            let noticed = self.a_while(DELAYS.idle);
            self.schedule.after(noticed, Event::Lost(guest, session));
        }
    }

    fn dial(&mut self, guest: Guest, life: u64) {
        if self.cluster.life(guest).number != life || self.sessions.contains_key(&guest) {
            return;
        }
        if !self.cluster.coordinator.is_running() {
            let again = self.a_while(DELAYS.comes_back);
            return self.schedule.after(again, Event::Dial(guest, life));
        }
        let (now, session) = (self.now(), self.wire.new_session());
        self.sessions.insert(guest, session);
        let outputs = self.cluster.coordinator.seat(now, guest, session);
        self.carry_all_out(outputs);
    }

    pub fn lose(&mut self, guest: Guest, session: SessionId) {
        if self.sessions.get(&guest) != Some(&session) {
            return;
        }
        self.sessions.remove(&guest);
        let life = self.cluster.life(guest).number;
        let [noticed, again] = [DELAYS.idle, DELAYS.comes_back].map(|span| self.a_while(span));
        self.schedule.after(noticed, Event::Left(guest, session));
        self.schedule.after(again, Event::Dial(guest, life));
    }

    fn report(&mut self, node: NodeId, life: u64) {
        let guest = Guest::Agent(node);
        if self.cluster.life(guest).number != life {
            return;
        }
        self.schedule
            .after(DELAYS.reports, Event::Report(node, life));
        if self.hangs(guest).is_some() {
            return;
        }
        let sample = self.cluster.sample(self.schedule.now(), node);
        self.say(&Report::Sample(node, sample));
        self.stir(guest);
    }

    /// Sees to it that it takes its next step.
    fn stir(&mut self, guest: Guest) {
        let life = self.cluster.life(guest).number;
        if self.working.insert(guest, life) != Some(life) {
            let soon = self.a_while(STEP_TIMES);
            self.schedule.after(soon, Event::Work(guest, life));
        }
    }

    fn work(&mut self, guest: Guest, life: u64) {
        if self.cluster.life(guest).number != life {
            return;
        }
        if let Some(until) = self.hangs(guest) {
            return self.schedule.at(until, Event::Work(guest, life));
        }
        self.working.remove(&guest);
        match self.cluster.work(self.schedule.now(), guest) {
            Did::Rested => return,
            Did::Died => return self.mourn(guest),
            Did::Worked => {}
            Did::Says(report) => {
                self.note(format!("{guest:?} {report}"));
                self.say(&report);
            }
        }
        self.stir(guest);
    }

    fn hangs(&self, guest: Guest) -> Option<Moment> {
        let until = self.hangs_until.get(&guest).copied();
        until.filter(|&until| until > self.now())
    }

    fn say(&mut self, report: &Report) {
        let Some(&session) = self.sessions.get(&report.guest()) else {
            return;
        };
        let now = self.now();
        for at in self.wire.arrivals(now, session, report.channel()) {
            self.schedule.at(at, Event::Heard(session, report.clone()));
        }
    }

    fn tell(&mut self, session: Option<SessionId>, order: Order) {
        let guest = order.guest();
        let is_there = session.is_none() || self.sessions.get(&guest) == session.as_ref();
        if !is_there || !self.cluster.is_running(guest) {
            return;
        }
        self.note(format!("{guest:?} gets {order}"));
        self.cluster.tell(order);
        self.stir(guest);
    }

    fn carry_all_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Died => self.mourn_coordinator(),
            Output::Send {
                to,
                node,
                instruction: it @ (Instruction::Install(_) | Instruction::Unconfirmed(_)),
            } => self.send(to, &Order::Instruct(node, it)),
            Output::Switch {
                to,
                optical,
                switchover,
            } => self.send(to, &Order::Switch(optical, switchover)),
            Output::Send {
                instruction: Instruction::Closely(_),
                ..
            } => self.asked_closely += 1,
            // Probes and traces do not influence decisions here.
            Output::Send { .. } | Output::Reply { .. } | Output::Ended { .. } => {}
        }
    }

    fn send(&mut self, session: SessionId, order: &Order) {
        let now = self.now();
        for (at, session) in self.wire.orders(now, session, true) {
            self.schedule
                .at(at, Event::Instructed(session, order.clone()));
        }
    }

    fn flicker(&mut self) {
        self.schedule.after(FLICKER_INTERVAL, Event::Flicker);
        let drivers = self.cluster.drivers.values_mut();
        let is_other = drivers.fold(false, |any, driver| driver.device.flicker() | any);
        if is_other {
            self.cluster.look_at_ways(self.schedule.now());
        }
    }

    /// Restores a state that is neither the old nor the new, once everything waits for that.
    fn put_right(&mut self) {
        self.schedule.after(Duration::from_secs(1), Event::PutRight);
        let held = self.migrations().filter(|migration| migration.is_held());
        let targets = held.flat_map(|migration| match &migration.stage {
            Stage::Switching(moving) => moving.targets.iter().collect(),
            _ => Vec::new(),
        });
        let moves = targets.map(|(&id, it)| (id, it.moved.clone()));
        for (optical, moved) in moves.collect::<Vec<_>>() {
            let driver = self.cluster.driver(optical);
            let known = [&moved.expected, &moved.desired];
            if driver.is_idle() && !known.contains(&&driver.device.circuits) {
                driver.device.circuits = moved.expected;
                self.note(format!("an operator puts {optical} right"));
            }
        }
    }

    fn let_go_on(&mut self) {
        let Some(state) = self.state() else {
            return self.schedule.after(TICK_INTERVAL, Event::LetGoOn);
        };
        let stopped = state.rollouts().filter(|it| it.is_stopped());
        let stopped: Vec<_> = stopped.map(|it| it.plan.generation).collect();
        let how = Steering::Resume;
        for generation in stopped {
            self.ask(Request::Steer { generation, how });
        }
    }

    fn a_while(&mut self, between: [Duration; 2]) -> Duration {
        self.wire.a_while(between)
    }
}

/// Returns the circuits by the names of their switches.
pub fn named(fabric: &Fabric, circuits: &Circuits) -> BTreeMap<OpticalName, CircuitSet> {
    let name = |(&optical, set): (_, &CircuitSet)| {
        let name = fabric.optical(optical).name.clone();
        (OpticalName(name), set.clone())
    };
    circuits.iter().map(name).collect()
}
