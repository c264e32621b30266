//! The simulated cluster of all simulation tests: the product's code of coordinators, agents and drivers on a simulated
//! network, with simulated connections, one clock and one seed.
//!
//! A [`World`] runs a scenario event by event. After every event the [`laws`] are checked. Two worlds with the same
//! seed and the same calls are equal, to the last byte.
//!
//! - [`schedule`], [`chance`], [`seeds`]: clock and event queue, random choices, and many seeds on all cores.
//! - [`network`], [`jobs`], [`agent`], [`wire`]: hosts and switches, their traffic, their agents and the connections to
//!   those.
//! - [`coordinator`], [`replicas`]: a single coordinator, or several replicated ones, on simulated disks.
//! - [`circuits`]: forwarding hosts behind optical switches with their drivers.
//! - [`faults`], [`replicas::trouble`], [`circuits::faults`]: faults.
//!
//! No model of the planner belongs here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reweave_common::fabric::Node;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::operator::{Request, Response};
use reweave_common::scenario::{Job, Scenario};
use reweave_core::{Policy, State};

pub mod actor;
pub mod agent;
pub mod circuits;
pub mod coordinator;
pub mod events;
pub mod faults;
pub mod jobs;
pub mod journal;
pub mod laws;
pub mod leaders;
mod leading;
pub mod network;
pub mod replicas;
pub mod schedule;
pub mod seeds;
mod serving;
pub mod shell;
mod traffic;
pub mod wire;

pub use reweave_sim_disk::chance;

use agent::Agent;
use chance::Chance;
use coordinator::Coordinator;
use events::Event;
use faults::Fault;
use jobs::Jobs;
use journal::Journal;
use laws::Laws;
use leaders::Leaders;
use network::Network;
use schedule::Schedule;
use wire::{Weather, Wire};

/// The coordinator's shell lets time pass for its core this often.
const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// News is sent at once, but not one piece at a time.
const NEWS_INTERVAL: Duration = Duration::from_millis(20);
/// Rates wander this often.
const WANDER_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit for recovery after all faults have ended.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(240);

/// Times that no part of the product decides.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedDelays {
    /// Agents report this often.
    pub reports: Duration,
    /// A dead process restarts, and an agent without a session dials again, after this long.
    pub comes_back: [Duration; 2],
    /// The other end of a session notices after this long that it is gone.
    pub idle: [Duration; 2],
    /// Once everything works again, former leaders are heard for this long.
    pub echoes: Duration,
}

impl SimulatedDelays {
    pub const DEFAULT_DELAYS: Self = Self {
        reports: Duration::from_millis(500),
        comes_back: [Duration::from_millis(50), Duration::from_millis(1500)],
        idle: [Duration::from_millis(1), Duration::from_secs(5)],
        echoes: Duration::from_secs(10),
    };
}

#[derive(Debug)]
pub struct World<L = Coordinator> {
    pub network: Network,
    pub jobs: Jobs,
    pub coordinator: L,
    pub agents: BTreeMap<NodeId, Agent>,
    pub wire: Wire,
    pub laws: Laws,
    schedule: Schedule<Event>,
    scenario: Scenario,
    delays: SimulatedDelays,
    chance: Chance,
    /// Distinguishes the last wake of traffic from outdated ones.
    turn: u64,
    /// When each agent next has to be called to probe.
    probes_due: BTreeMap<NodeId, Moment>,
    journal: Journal,
    events: u64,
}

impl World {
    /// Creates a simulation with a coordinator and all agents; no job has started.
    pub fn new(scenario: Scenario, policy: Policy, seed: u64, weather: Weather) -> Self {
        let coordinator = Coordinator::new(policy, Arc::new(scenario.fabric.clone()));
        let now = Moment::from_micros(1_000_000);
        Self::led_by(
            coordinator,
            now,
            scenario,
            seed,
            weather,
            SimulatedDelays::DEFAULT_DELAYS,
        )
    }

    /// Asks the coordinator, which answers at once if it runs.
    pub fn ask(&mut self, request: Request) -> Option<Response> {
        let now = self.now();
        let (answer, outputs) = self.coordinator.ask(now, request);
        self.carry_all_out(outputs);
        self.look();
        answer
    }
}

impl<L: Leaders> World<L> {
    /// Creates a simulation led by `leaders`, with all agents; no job has started.
    pub fn led_by(
        coordinator: L,
        now: Moment,
        scenario: Scenario,
        seed: u64,
        weather: Weather,
        delays: SimulatedDelays,
    ) -> Self {
        let mut chance = Chance::of(seed);
        let network = Network::new(scenario.fabric.clone(), chance.number(), now);
        let fabric = network.fabric.clone();
        let agent = |(id, node): (NodeId, &Node)| (id, Agent::new(id, node.role));
        let mut world = Self {
            agents: fabric.nodes().map(agent).collect(),
            coordinator,
            wire: Wire::new(chance.branch(), weather),
            network,
            jobs: Jobs::default(),
            laws: Laws::default(),
            schedule: Schedule::starting_at(now),
            scenario,
            delays,
            chance,
            turn: 0,
            probes_due: BTreeMap::new(),
            journal: Journal::new(seed),
            events: 0,
        };
        world.schedule.after(TICK_INTERVAL, Event::Tick);
        world.schedule.after(WANDER_INTERVAL, Event::Wander);
        for (node, _) in fabric.nodes() {
            let soon = world.chance.time(Duration::ZERO, delays.reports);
            world.schedule.after(soon, Event::StartAgent { node });
        }
        world
    }

    pub fn now(&self) -> Moment {
        self.schedule.now()
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns the state of the decisions, if a coordinator runs.
    pub fn state(&self) -> Option<&State> {
        self.coordinator.decided().1
    }

    /// Returns the events so far, line by line.
    pub fn journal(&self) -> String {
        self.journal.text()
    }

    /// A job of the scenario.
    pub fn start_job(&mut self, name: &str) {
        let jobs = &self.scenario.jobs;
        let job = jobs.iter().find(|job| job.name == name).cloned();
        self.start(&job.unwrap_or_else(|| panic!("the scenario has no job {name}")));
    }

    pub fn start(&mut self, job: &Job) {
        self.note(format!("job {} begins", job.name));
        self.network.advance(self.schedule.now());
        self.jobs.start(self.schedule.now(), job, &mut self.network);
        self.traffic_changed();
    }

    pub fn stop_job(&mut self, name: &str) {
        self.note(format!("job {name} ends"));
        self.network.advance(self.schedule.now());
        self.jobs.stop(name, &mut self.network);
        self.traffic_changed();
    }

    pub fn afflict(&mut self, delay: Duration, fault: Fault) {
        self.schedule.after(delay, Event::Fault(fault));
    }

    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now() + duration;
        self.run_until_or(end, |_| false);
    }

    /// Runs until the condition holds, and returns the time that it took. Panics after a limit.
    pub fn run_until(&mut self, what: &str, is_so: impl FnMut(&mut Self) -> bool) -> Duration {
        let began = self.now();
        if !self.run_until_or(began + RECOVERY_TIMEOUT, is_so) {
            self.fail(&format!("not {what} in {} s", RECOVERY_TIMEOUT.as_secs()));
        }
        self.now().since(began)
    }

    /// Whether it came to be so before `end`.
    fn run_until_or(&mut self, end: Moment, mut is_so: impl FnMut(&mut Self) -> bool) -> bool {
        while self.now() < end {
            if is_so(self) {
                return true;
            }
            self.step();
        }
        is_so(self)
    }

    /// The next event, and then a look at the laws.
    pub fn step(&mut self) {
        self.events += 1;
        let due = self.coordinator.next_due();
        let next = self.schedule.next_due();
        if let Some(due) = due.filter(|due| next.is_none_or(|next| *due <= next)) {
            self.schedule.pass(due);
            let outputs = self.coordinator.go_on();
            self.carry_all_out(outputs);
        } else if let Some(event) = self.schedule.go_on() {
            self.live(event);
        }
        self.look();
    }

    /// Ends the test with all there is to know.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let rollout = self.state().and_then(|state| state.rollouts().next());
        self.journal.fail(self.now(), why, &rollout);
    }

    fn look(&mut self) {
        if let (log, Some(state)) = self.coordinator.decided() {
            self.laws.look_at_log(log, state, &self.network);
        }
        let breaches = self.laws.breaches();
        if !breaches.is_empty() {
            let breaches: Vec<_> = breaches.iter().map(ToString::to_string).collect();
            self.fail(&breaches.join("; "));
        }
    }

    pub fn name(&self, node: NodeId) -> &str {
        self.network.fabric.name(node)
    }

    pub fn note(&mut self, line: String) {
        self.journal.note(self.schedule.now(), line);
    }

    fn a_while(&mut self) -> Duration {
        self.wire.a_while(self.delays.comes_back)
    }
}
