//! An agent: the real decisions of `agent/core`, between a simulated kernel and a line to the
//! coordinator. It does what the agent's own shell does, step by step, and can die between any two.

use std::time::Duration;

use reweave_agent_core::fence::{Fence, FenceEffect, Record};
use reweave_agent_core::flows::FlowBook;
use reweave_agent_core::links::LinkBook;
use reweave_agent_core::path_confirmation::PathConfirmation;
use reweave_agent_core::probe::{Probe, TraceAnswer};
use reweave_agent_core::reconcile::RuleOp;
use reweave_agent_core::trace::{TraceResult, Tracer};
use reweave_common::fabric::Role;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::NodeId;
use reweave_common::instruction::{Ack, Install, Instruction, Watch};
use reweave_common::moment::Moment;
use reweave_common::sample::{Reading, Sample};

use super::actor::{Life, Step};
use super::chance::Chance;
use super::laws::Laws;
use super::network::{Kernel, Network};
use super::shell::{Holds, Shell, Task};
use super::wire::SessionId;

/// Addresses and routes are read this often.
const FACTS_INTERVAL: Duration = Duration::from_secs(5);
/// Clocks of hosts agree on nothing.
const MAX_CLOCK_OFFSET: Duration = Duration::from_secs(1_000_000);

#[derive(Debug)]
pub struct Agent {
    pub node: NodeId,
    role: Role,
    /// Survives the process.
    disk: Record,
    pub disk_is_full: bool,
    process: Option<Process>,
    /// Counts the steps of following instructions.
    pub life: Life,
}

#[derive(Debug)]
struct Process {
    /// Time of its clock at the start of the simulation.
    clock: Duration,
    shell: Shell<RuleOp>,
    links: LinkBook,
    flows: FlowBook,
    tracer: Tracer,
    facts: Option<(Moment, Vec<Reading>)>,
    news: Vec<Reading>,
    session: Option<SessionId>,
}

/// The process ended in the middle of its work.
#[derive(Debug)]
pub struct Died;

impl Agent {
    pub fn new(node: NodeId, role: Role) -> Self {
        Self {
            node,
            role,
            disk: Record::default(),
            disk_is_full: false,
            process: None,
            life: Life::default(),
        }
    }

    pub fn life(&self) -> u64 {
        self.life.number
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    pub fn is_switch(&self) -> bool {
        self.role == Role::Switch
    }

    pub fn session(&self) -> Option<SessionId> {
        self.process.as_ref()?.session
    }

    /// Starts the agent. Its kernel is set to the state that was in force when an agent last ran here.
    pub fn start(&mut self, chance: &mut Chance, network: &mut Network, laws: &mut Laws) {
        self.life.begin();
        let fence = match self.role {
            Role::Switch => Fence::new(self.disk.clone()),
            _ => Fence::of_host(self.disk.clone()),
        };
        let process = Process {
            clock: chance.time(Duration::ZERO, MAX_CLOCK_OFFSET),
            shell: Shell::new(fence),
            links: LinkBook::default(),
            flows: FlowBook::default(),
            tracer: Tracer::default(),
            facts: None,
            news: Vec::new(),
            session: None,
        };
        let in_force = process.shell.fence().in_force().holding.clone();
        self.process = Some(process);
        if !self.is_switch() {
            return;
        }
        if let Err(Stop::Refused) = self.hold(&in_force, network, laws) {
            let _ = self.hold(&ForwardingState::default(), network, laws);
        }
    }

    /// The kernel keeps what it holds. What it was to die of may still come, in a later life.
    pub fn die(&mut self) {
        self.process = None;
        self.life.begin();
    }

    pub fn handle_connected(&mut self, session: SessionId) {
        if let Some(process) = &mut self.process {
            process.session = Some(session);
        }
    }

    /// No coordinator is left to ask for probes.
    pub fn handle_lost(&mut self, now: Moment) {
        if let Some(process) = &mut self.process {
            process.session = None;
            process.watch(now, &Watch::default());
        }
    }

    pub fn watch(&mut self, now: Moment, watch: &Watch) {
        if let Some(process) = &mut self.process {
            process.watch(now, watch);
        }
    }

    /// Returns all readings at this moment, with pending news.
    pub fn sample(
        &mut self,
        now: Moment,
        network: &mut Network,
        laws: &mut Laws,
    ) -> Result<Option<Sample>, Died> {
        if self.process.is_none() {
            return Ok(None);
        }
        self.expire(now, network, laws)?;
        let pins = self.read_pins(network, laws)?;
        let node = self.node;
        Ok(self.process.as_mut().map(|process| {
            let taken = process.own(now);
            let mut readings: Vec<_> = pins.into_iter().collect();
            readings.extend(process.links.handle_links(taken, network.link_counts(node)));
            readings.extend(process.facts(taken, network, node));
            readings.extend(process.flows.handle_sockets(taken, &network.sockets(node)));
            readings.append(&mut process.news);
            Sample { taken, readings }
        }))
    }

    /// Whether something was found out that should not wait for the next sample.
    pub fn has_news(&self) -> bool {
        let news = self.process.iter().flat_map(|process| &process.news);
        news.into_iter().any(|it| matches!(it, Reading::Path(_)))
    }

    /// Returns urgent news as a sample of its own.
    pub fn poll_news(&mut self, now: Moment) -> Option<Sample> {
        let process = self.process.as_mut()?;
        let is_urgent = process.news.iter().any(|it| matches!(it, Reading::Path(_)));
        is_urgent.then(|| Sample {
            taken: process.own(now),
            readings: std::mem::take(&mut process.news),
        })
    }

    /// The answers to what was asked, unless it dies over it.
    pub fn install(
        &mut self,
        instruction: &Instruction,
        network: &mut Network,
        laws: &mut Laws,
    ) -> Result<Vec<Ack>, Died> {
        let Some(process) = &mut self.process else {
            return Ok(Vec::new());
        };
        process.shell.handle_instruction(instruction.clone());
        self.carry_out(instruction.install(), network, laws)
    }

    /// Takes back what was not confirmed in time.
    fn expire(&mut self, now: Moment, network: &mut Network, laws: &mut Laws) -> Result<(), Died> {
        if let Some(process) = &mut self.process {
            let own = process.own(now);
            process.shell.handle_time(own);
        }
        self.carry_out(None, network, laws).map(drop)
    }

    /// The probes that are due.
    pub fn probes(&mut self, now: Moment) -> Vec<Probe> {
        self.process.as_mut().map_or_else(Vec::new, |process| {
            let now = process.own(now);
            // Agents here do not see packets that pass, and so confirm no path.
            while let Some(asked) = process.tracer.poll_arrival(now) {
                let sight = PathConfirmation::Blind;
                process.tracer.handle_sight(now, &asked.flow, sight);
            }
            let probes = std::iter::from_fn(|| process.tracer.poll_probe(now));
            let probes = probes.collect();
            process.hear_news();
            probes
        })
    }

    /// When [`Self::probes`] has to be called at the latest.
    pub fn next_probe(&self) -> Option<Moment> {
        let process = self.process.as_ref()?;
        Some(process.worlds(process.tracer.next_due()?))
    }

    pub fn handle_answer(&mut self, now: Moment, answer: &TraceAnswer) {
        let Some(process) = &mut self.process else {
            return;
        };
        let now = process.own(now);
        process.tracer.handle_answer(now, answer);
        process.hear_news();
    }

    /// Reads the kernel's state, after drift was repaired.
    fn read_pins(
        &mut self,
        network: &mut Network,
        laws: &mut Laws,
    ) -> Result<Option<Reading>, Died> {
        let Some(in_force) = self.process.as_ref().filter(|_| self.role == Role::Switch) else {
            return Ok(None);
        };
        let in_force = in_force.shell.fence().in_force().clone();
        match self.hold(&in_force.holding, network, laws) {
            Err(Stop::Dead) => Err(Died),
            Err(Stop::Refused) => Ok(None),
            Ok(()) => Ok(Some(Reading::Holds {
                generation: in_force.generation,
                holding: network.kernels[&self.node].held(),
            })),
        }
    }

    /// Does what the fence says until it has nothing more to say.
    fn carry_out(
        &mut self,
        install: Option<&Install>,
        network: &mut Network,
        laws: &mut Laws,
    ) -> Result<Vec<Ack>, Died> {
        let mut acks = Vec::new();
        while let Some(task) = self.process.as_mut().and_then(|it| it.shell.poll_task()) {
            match task {
                Task::Held => {}
                Task::Change(op) => {
                    self.take_step().map_err(|_| Died)?;
                    let changed = self.change(&op, network, laws);
                    self.shell().handle_changed(changed);
                }
                Task::Follow(effect) => {
                    self.take_step().map_err(|_| Died)?;
                    acks.extend(self.follow(effect, install, network, laws));
                }
            }
        }
        Ok(acks)
    }

    /// Follows an instruction. Returns an answer, if there is one.
    fn follow(
        &mut self,
        effect: FenceEffect,
        install: Option<&Install>,
        network: &Network,
        laws: &mut Laws,
    ) -> Option<Ack> {
        let process = self.process.as_mut()?;
        // Hosts pin nothing.
        let nothing = Kernel::default();
        let kernel = network.kernels.get(&self.node).unwrap_or(&nothing);
        let shell = &mut process.shell;
        // No link fails here.
        let is_up = |_: &str| true;
        match shell.follow(effect, kernel, &mut self.disk, self.disk_is_full, is_up) {
            Step::Acts(holding) => {
                let instruction = install.filter(|install| holding.is_same_as(&install.holding));
                if let Some(install) = instruction {
                    laws.acts(self.node, install, &self.disk);
                }
                None
            }
            Step::Says(ack) => Some(ack),
            Step::Rest | Step::Took | Step::Changed => None,
        }
    }

    fn hold(
        &mut self,
        desired: &ForwardingState,
        network: &mut Network,
        laws: &mut Laws,
    ) -> Result<(), Stop> {
        for op in network.kernels[&self.node].ops_to_hold(desired) {
            self.take_step()?;
            self.change(&op, network, laws).map_err(|_| Stop::Refused)?;
        }
        Ok(())
    }

    fn change(&self, op: &RuleOp, network: &mut Network, laws: &mut Laws) -> Result<(), String> {
        network.change(self.node, op)?;
        laws.look_at_ways(network);
        Ok(())
    }

    fn take_step(&mut self) -> Result<(), Stop> {
        if self.life.go_on() {
            return Ok(());
        }
        self.life.left = None;
        self.die();
        Err(Stop::Dead)
    }

    fn shell(&mut self) -> &mut Shell<RuleOp> {
        let process = self.process.as_mut();
        &mut process.expect("only a running agent takes steps").shell
    }
}

enum Stop {
    Refused,
    Dead,
}

impl Process {
    /// Returns the time of its own clock.
    fn own(&self, now: Moment) -> Moment {
        now + self.clock
    }

    fn worlds(&self, own: Moment) -> Moment {
        let clock_us = self.clock.as_micros() as u64;
        Moment::from_micros(own.as_micros().saturating_sub(clock_us))
    }

    fn watch(&mut self, now: Moment, watch: &Watch) {
        let now = self.own(now);
        self.tracer.watch(now, &watch.trace);
    }

    fn facts(&mut self, now: Moment, network: &Network, node: NodeId) -> Vec<Reading> {
        let fresh = |(at, _): &&(Moment, _)| now.since(*at) < FACTS_INTERVAL;
        if self.facts.as_ref().filter(fresh).is_none() {
            let facts = network.interfaces(node).into_iter().map(Reading::Interface);
            self.facts = Some((now, facts.collect()));
        }
        let facts = self.facts.iter();
        facts.flat_map(|(_, facts)| facts.clone()).collect()
    }

    fn hear_news(&mut self) {
        while let Some(found) = self.tracer.poll_found() {
            if let TraceResult::Path(path) = found {
                self.news.push(Reading::Path(path));
            }
        }
    }
}
