//! The whole system in a world of its own: the real decisions of coordinator and agents, on a
//! simulated network with simulated lines between them, all by one clock and one seed.
//!
//! A world is what a scenario says, and goes on event by event. After every event the [`laws`] are
//! looked at. Two worlds with one seed that are treated alike live alike, to the last byte.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use reweave_agent_core::probe::Answer;
use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::instruction::{Ack, Install, Instruction};
use reweave_common::moment::Moment;
use reweave_common::operator::{Request, Response};
use reweave_common::sample::Sample;
use reweave_common::scenario::{Job, Scenario};
use reweave_core::{Policy, State};

pub mod agent;
pub mod chance;
pub mod coordinator;
pub mod faults;
pub mod jobs;
pub mod laws;
pub mod network;
pub mod schedule;
pub mod wire;

use agent::{Agent, Died};
use chance::Chance;
use coordinator::{Coordinator, Output};
use faults::Fault;
use jobs::Jobs;
use laws::Laws;
use network::Network;
use schedule::Schedule;
use wire::{Channel, SessionId, Weather, Wire};

/// The coordinator's shell lets time pass for its core so often.
const TICK: Duration = Duration::from_millis(100);
/// Agents report so often.
const PACE: Duration = Duration::from_millis(500);
/// News is told at once, but not one piece at a time.
const NEWS_PAUSE: Duration = Duration::from_millis(20);
/// Rates wander so often.
const WANDER: Duration = Duration::from_millis(100);
/// Whoever stands for a dead process starts anew, or dials again, after so long.
const COMES_BACK: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(1500)];
/// The longest until a peer that says nothing any more is given up.
const IDLE: Duration = Duration::from_secs(5);
/// Nothing takes longer once everything works again.
const LONGEST_CALM: Duration = Duration::from_secs(240);

#[derive(Debug, Clone)]
pub enum Event {
    /// Time passes for the coordinator.
    Tick,
    /// The coordinator starts anew.
    Lead,
    StartAgent { node: NodeId },
    Dial { node: NodeId, life: u64 },
    /// The agent's end of a session is gone.
    Lost { node: NodeId, session: SessionId },
    /// The coordinator notices that a session is gone.
    Left { node: NodeId, session: SessionId },
    Report { node: NodeId, life: u64 },
    News { node: NodeId, life: u64 },
    Probe { node: NodeId, life: u64 },
    Answer { node: NodeId, life: u64, answer: Answer },
    Instruct { node: NodeId, session: SessionId, instruction: Instruction },
    /// An instruction of somebody who led once.
    Ghost { node: NodeId, install: Install },
    Sample { node: NodeId, session: SessionId, sample: Sample },
    Ack { node: NodeId, session: SessionId, ack: Ack },
    /// A flow has sent all it had, or a rank has computed.
    Traffic { turn: u64 },
    Wander,
    Fault(Fault),
}

#[derive(Debug)]
pub struct World {
    pub network: Network,
    pub jobs: Jobs,
    pub coordinator: Coordinator,
    pub agents: BTreeMap<NodeId, Agent>,
    pub wire: Wire,
    pub laws: Laws,
    schedule: Schedule<Event>,
    scenario: Scenario,
    chance: Chance,
    seed: u64,
    /// Tells the last wake of traffic from outdated ones.
    turn: u64,
    /// When each agent next has to be called to probe.
    probes_due: BTreeMap<NodeId, Moment>,
    journal: Vec<(Moment, String)>,
    events: u64,
}

impl World {
    /// With a coordinator and all agents running; no job has begun.
    pub fn new(scenario: Scenario, policy: Policy, seed: u64, weather: Weather) -> Self {
        let mut chance = Chance::of(seed);
        let now = Moment::from_micros(1_000_000);
        let network = Network::new(scenario.fabric.clone(), chance.number(), now);
        let fabric = network.fabric.clone();
        let agent = |(id, node): (NodeId, &reweave_common::fabric::Node)| {
            (id, Agent::new(id, node.role))
        };
        let mut world = Self {
            agents: fabric.nodes().map(agent).collect(),
            coordinator: Coordinator::new(policy, fabric.clone()),
            wire: Wire::new(chance.branch(), weather),
            network,
            jobs: Jobs::default(),
            laws: Laws::default(),
            schedule: Schedule::starting_at(now),
            scenario,
            chance,
            seed,
            turn: 0,
            probes_due: BTreeMap::new(),
            journal: Vec::new(),
            events: 0,
        };
        world.schedule.after(TICK, Event::Tick);
        world.schedule.after(WANDER, Event::Wander);
        for (node, _) in fabric.nodes() {
            let soon = world.chance.time(Duration::ZERO, PACE);
            world.schedule.after(soon, Event::StartAgent { node });
        }
        world
    }

    pub fn now(&self) -> Moment {
        self.schedule.now()
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// What has been decided, while somebody is there who knows.
    pub fn state(&self) -> Option<&State> {
        Some(self.coordinator.core()?.state())
    }

    /// What has happened so far, line by line.
    pub fn journal(&self) -> String {
        let mut text = String::new();
        for (at, line) in &self.journal {
            let _ = writeln!(text, "{:>12} {line}", at.as_micros());
        }
        text
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

    /// Asks the coordinator, who answers at once if it is there.
    pub fn ask(&mut self, request: Request) -> Option<Response> {
        let now = self.now();
        let (asked, outputs) = self.coordinator.ask(now, request);
        let mut answer = None;
        for output in outputs {
            match output {
                Output::Reply { id, response } if id == asked => answer = Some(response),
                other => self.carry_out(other),
            }
        }
        self.look();
        answer
    }

    pub fn afflict(&mut self, delay: Duration, fault: Fault) {
        self.schedule.after(delay, Event::Fault(fault));
    }

    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now() + duration;
        self.run_until_or(end, |_| false);
    }

    /// How long it took. There is a limit to patience.
    pub fn run_until(&mut self, what: &str, is_so: impl FnMut(&mut Self) -> bool) -> Duration {
        let began = self.now();
        if !self.run_until_or(began + LONGEST_CALM, is_so) {
            self.fail(&format!("not {what} in {} s", LONGEST_CALM.as_secs()));
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
        if let Some(event) = self.schedule.next() {
            self.events += 1;
            self.live(event);
            self.look();
        }
    }

    /// Ends the test with all there is to know.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let journal = self.journal();
        let lines: Vec<_> = journal.lines().collect();
        let last = lines[lines.len().saturating_sub(60)..].join("\n");
        let rollout = self.state().and_then(State::rollout);
        panic!(
            "seed {} at {} us: {why}\n{last}\nunder way: {rollout:#?}",
            self.seed,
            self.now().as_micros()
        );
    }

    fn look(&mut self) {
        if let Some(core) = self.coordinator.core() {
            let log = self.coordinator.log();
            self.laws.look_at_log(log, core.state(), &self.network);
        }
        let breaches = self.laws.breaches();
        if !breaches.is_empty() {
            let breaches: Vec<_> = breaches.iter().map(ToString::to_string).collect();
            self.fail(&breaches.join("; "));
        }
    }

    fn live(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Tick => {
                self.schedule.after(TICK, Event::Tick);
                let outputs = self.coordinator.tick(now);
                self.carry_all_out(outputs);
            }
            Event::Lead => self.lead(),
            Event::StartAgent { node } => self.start_agent(node),
            Event::Dial { node, life } => self.dial(node, life),
            Event::Lost { node, session } => self.lose(node, session),
            Event::Left { node, session } => {
                let outputs = self.coordinator.left(now, node, session);
                self.carry_all_out(outputs);
            }
            Event::Report { node, life } => self.report(node, life),
            Event::News { node, life } => self.tell_news(node, life),
            Event::Probe { node, life } => self.probe(node, life),
            Event::Answer { node, life, answer } => self.hear_answer(node, life, &answer),
            Event::Instruct { node, session, instruction } => {
                self.instruct(node, session, instruction);
            }
            Event::Ghost { node, install } => {
                self.note(format!("{} hears an old instruction", self.name(node)));
                self.install(node, install);
            }
            Event::Sample { node, session, sample } => {
                let outputs = self.coordinator.sample(now, (node, session), sample);
                self.carry_all_out(outputs);
            }
            Event::Ack { node, session, ack } => {
                let outputs = self.coordinator.ack(now, (node, session), ack);
                self.carry_all_out(outputs);
            }
            Event::Traffic { turn } if turn == self.turn => self.flow_on(),
            Event::Traffic { .. } => {}
            Event::Wander => {
                self.schedule.after(WANDER, Event::Wander);
                self.network.advance(now);
                self.network.wander(&mut self.chance);
                self.traffic_changed();
            }
            Event::Fault(fault) => self.strike(fault),
        }
    }

    // The coordinator.

    fn lead(&mut self) {
        if !self.coordinator.is_running() {
            self.note("the coordinator starts anew".to_owned());
            self.coordinator.start();
        }
    }

    /// It comes back after a while; its sessions are lost, which agents notice one by one.
    fn mourn_coordinator(&mut self) {
        self.note("the coordinator dies".to_owned());
        let back = self.a_while();
        self.schedule.after(back, Event::Lead);
        let sessions: Vec<_> = self
            .agents
            .values()
            .filter_map(|agent| Some((agent.node, agent.session()?)))
            .collect();
        for (node, session) in sessions {
            let noticed = self.wire.a_while(Duration::from_millis(1), IDLE);
            self.schedule.after(noticed, Event::Lost { node, session });
        }
    }

    fn carry_all_out(&mut self, outputs: Vec<Output>) {
        outputs.into_iter().for_each(|output| self.carry_out(output));
    }

    fn carry_out(&mut self, output: Output) {
        let now = self.now();
        match output {
            Output::Reply { .. } => {}
            Output::Died => self.mourn_coordinator(),
            Output::Send { to: session, node, instruction } => {
                if let Instruction::Install(install) = &instruction
                    && let Some(at) = self.wire.ghost(now)
                {
                    let install = install.clone();
                    self.schedule.at(at, Event::Ghost { node, install });
                }
                for at in self.wire.arrivals(now, session, Channel::Instructions) {
                    let instruction = instruction.clone();
                    let event = Event::Instruct { node, session, instruction };
                    self.schedule.at(at, event);
                }
            }
        }
    }

    // Agents.

    fn agent(&mut self, node: NodeId) -> &mut Agent {
        self.agents.get_mut(&node).expect("every node has an agent")
    }

    fn start_agent(&mut self, node: NodeId) {
        if self.agent(node).is_running() {
            return;
        }
        self.note(format!("the agent of {} starts", self.name(node)));
        self.network.advance(self.schedule.now());
        let agent = self.agents.get_mut(&node).expect("every node has an agent");
        agent.start(&mut self.chance, &mut self.network, &mut self.laws);
        let life = agent.life();
        let is_running = agent.is_running();
        self.reroute();
        if !is_running {
            return self.mourn_agent(node);
        }
        self.schedule.after(Duration::ZERO, Event::Dial { node, life });
        self.schedule.after(PACE, Event::Report { node, life });
    }

    /// It comes back after a while; the coordinator notices that it is gone.
    fn mourn_agent(&mut self, node: NodeId) {
        self.note(format!("the agent of {} dies", self.name(node)));
        let back = self.a_while();
        self.schedule.after(back, Event::StartAgent { node });
    }

    fn kill_agent(&mut self, node: NodeId) {
        let session = self.agent(node).session();
        self.agent(node).die();
        self.bury_session(node, session);
        self.mourn_agent(node);
    }

    fn bury_session(&mut self, node: NodeId, session: Option<SessionId>) {
        if let Some(session) = session {
            let noticed = self.wire.a_while(Duration::from_millis(1), IDLE);
            self.schedule.after(noticed, Event::Left { node, session });
        }
    }

    fn dial(&mut self, node: NodeId, life: u64) {
        let agent = self.agent(node);
        if agent.life() != life || agent.session().is_some() {
            return;
        }
        if !self.coordinator.is_running() {
            let again = self.a_while();
            self.schedule.after(again, Event::Dial { node, life });
            return;
        }
        let (now, session) = (self.now(), self.wire.new_session());
        self.note(format!("{} has session {}", self.name(node), session.0));
        self.agent(node).handle_connected(session);
        let outputs = self.coordinator.seat(now, node, session);
        self.carry_all_out(outputs);
        // Whoever is new there knows nothing yet.
        self.tell_all(node);
    }

    fn lose(&mut self, node: NodeId, session: SessionId) {
        let now = self.now();
        let agent = self.agent(node);
        if agent.session() != Some(session) {
            return;
        }
        agent.handle_lost(now);
        let life = agent.life();
        self.note(format!("{} loses session {}", self.name(node), session.0));
        self.bury_session(node, Some(session));
        let again = self.a_while();
        self.schedule.after(again, Event::Dial { node, life });
    }

    fn report(&mut self, node: NodeId, life: u64) {
        if self.agent(node).life() == life {
            self.schedule.after(PACE, Event::Report { node, life });
            self.tell_all(node);
        }
    }

    fn tell_all(&mut self, node: NodeId) {
        let now = self.now();
        self.network.advance(now);
        let agent = self.agents.get_mut(&node).expect("every node has an agent");
        let session = agent.session();
        let sample = agent.sample(now, &mut self.network, &mut self.laws);
        self.reroute();
        match sample {
            Ok(sample) => self.send_sample(node, session, sample),
            Err(Died) => {
                self.bury_session(node, session);
                self.mourn_agent(node);
            }
        }
        self.plan_probes(node);
    }

    fn send_sample(&mut self, node: NodeId, session: Option<SessionId>, sample: Option<Sample>) {
        let (Some(session), Some(sample)) = (session, sample) else {
            return;
        };
        for at in self.wire.arrivals(self.schedule.now(), session, Channel::Samples) {
            let sample = sample.clone();
            self.schedule.at(at, Event::Sample { node, session, sample });
        }
    }

    fn tell_news(&mut self, node: NodeId, life: u64) {
        let now = self.now();
        let agent = self.agent(node);
        if agent.life() == life {
            let (session, news) = (agent.session(), agent.poll_news(now));
            self.send_sample(node, session, news);
        }
    }

    fn probe(&mut self, node: NodeId, life: u64) {
        let now = self.now();
        if self.agent(node).life() != life || self.probes_due.get(&node) != Some(&now) {
            return;
        }
        self.probes_due.remove(&node);
        for probe in self.agent(node).probes(now) {
            let answer = self.network.answer(node, &probe);
            let answer = answer.and_then(|(least, answer)| {
                Some((self.wire.probe_time(least)?, answer))
            });
            if let Some((after, answer)) = answer {
                self.schedule.after(after, Event::Answer { node, life, answer });
            }
        }
        self.plan_probes(node);
    }

    fn hear_answer(&mut self, node: NodeId, life: u64, answer: &Answer) {
        let now = self.now();
        if self.agent(node).life() == life {
            self.agent(node).handle_answer(now, answer);
            self.plan_probes(node);
        }
    }

    /// Sees to it that the agent is called when it has to probe.
    fn plan_probes(&mut self, node: NodeId) {
        let now = self.now();
        let agent = self.agent(node);
        let (life, due) = (agent.life(), agent.next_probe());
        if agent.has_news() {
            self.schedule.after(NEWS_PAUSE, Event::News { node, life });
        }
        let Some(due) = due else { return };
        let due = due.max(now + Duration::from_micros(1));
        let planned = self.probes_due.get(&node).filter(|planned| **planned > now);
        if planned.is_none_or(|&planned| due < planned) {
            self.probes_due.insert(node, due);
            self.schedule.at(due, Event::Probe { node, life });
        }
    }

    fn instruct(&mut self, node: NodeId, session: SessionId, instruction: Instruction) {
        let now = self.now();
        if self.agent(node).session() != Some(session) {
            return;
        }
        match instruction {
            Instruction::Watch(watch) => {
                self.agent(node).watch(now, &watch);
                self.plan_probes(node);
            }
            Instruction::Install(install) => self.install(node, install),
        }
    }

    fn install(&mut self, node: NodeId, install: Install) {
        let (generation, rules) = (install.generation, install.rules.len());
        self.network.advance(self.schedule.now());
        let agent = self.agents.get_mut(&node).expect("every node has an agent");
        let session = agent.session();
        let acks = agent.install(install, &mut self.network, &mut self.laws);
        self.reroute();
        let name = self.name(node);
        let outcomes = acks.as_ref().map(|acks| acks.iter().map(|ack| ack.outcome.is_ok()));
        let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        let line = format!("{name} is told generation {generation} with {rules} rules: {outcomes:?}");
        self.note(line);
        match acks {
            Ok(acks) => acks.into_iter().for_each(|ack| self.send_ack(node, session, ack)),
            Err(Died) => {
                self.bury_session(node, session);
                self.mourn_agent(node);
            }
        }
    }

    fn send_ack(&mut self, node: NodeId, session: Option<SessionId>, ack: Ack) {
        let Some(session) = session else { return };
        for at in self.wire.arrivals(self.schedule.now(), session, Channel::Acks) {
            let ack = ack.clone();
            self.schedule.at(at, Event::Ack { node, session, ack });
        }
    }

    // Traffic.

    fn flow_on(&mut self) {
        self.network.advance(self.schedule.now());
        self.traffic_changed();
    }

    /// After a switch may have changed its pins.
    fn reroute(&mut self) {
        if self.network.take_rerouted() {
            self.traffic_changed();
        }
    }

    /// Ranks go on, rates settle, and the next thing to happen is put on the schedule.
    fn traffic_changed(&mut self) {
        let now = self.now();
        self.jobs.advance(now, &mut self.network);
        self.network.settle();
        self.laws.look_at_ways(&self.network);
        self.turn += 1;
        let wakes = [self.network.next_idle(), self.jobs.next_wake()];
        if let Some(next) = wakes.into_iter().flatten().min() {
            let next = next.max(now + Duration::from_micros(1));
            let turn = self.turn;
            self.schedule.at(next, Event::Traffic { turn });
        }
    }

    /// Bytes that have arrived so far.
    pub fn arrived_bytes(&mut self, flow: &FlowKey) -> f64 {
        self.network.advance(self.schedule.now());
        self.network.acked_bytes(flow)
    }

    // Words.

    pub fn name(&self, node: NodeId) -> &str {
        self.network.fabric.name(node)
    }

    pub fn note(&mut self, line: String) {
        self.journal.push((self.schedule.now(), line));
    }

    fn a_while(&mut self) -> Duration {
        let [least, most] = COMES_BACK;
        self.wire.a_while(least, most)
    }
}
