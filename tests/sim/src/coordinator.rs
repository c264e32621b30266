//! The coordinator: the real core, a log that survives it, and seats for agents. It drives the core
//! as the coordinator's own loop does, and can die at any entry of its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use reweave_common::circuit::Switchover;
use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::Instruction;
use reweave_common::member::{Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{Request, Response};
use reweave_core::{Change, Command, Core, Effect, Input, Policy, Recorded, Recording, State};

use super::actor::Report;
use super::leaders::Leaders;
use super::wire::SessionId;

#[derive(Debug, Clone)]
pub struct Coordinator {
    policy: Policy,
    fabric: Arc<Fabric>,
    /// Survives the process.
    log: Vec<Command>,
    process: Option<Process>,
    deaths: Vec<Death>,
    /// Number of deaths.
    pub died: usize,
    last_request: u64,
    recording: Option<Recording>,
    effects: Vec<Effect>,
}

#[derive(Debug, Clone)]
struct Process {
    core: Core,
    seats: BTreeMap<Guest, SessionId>,
}

/// A program that may have a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guest {
    Agent(NodeId),
    /// Driver of this optical switch.
    Driver(OpticalId),
}

impl Guest {
    fn comes(self) -> Input {
        match self {
            Self::Agent(node) => Input::AgentUp { node },
            Self::Driver(optical) => Input::DriverUp { optical },
        }
    }

    fn goes(self) -> Input {
        match self {
            Self::Agent(node) => Input::AgentDown { node },
            Self::Driver(optical) => Input::DriverDown { optical },
        }
    }
}

/// Death at the entry of this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    pub entry: usize,
    /// Whether the entry is on disk by then. It is never applied.
    pub is_durable: bool,
}

/// Output that the simulation executes.
#[derive(Debug)]
pub enum Output {
    Send {
        to: SessionId,
        node: NodeId,
        instruction: Instruction,
    },
    /// To the driver of this optical switch.
    Switch {
        to: SessionId,
        optical: OpticalId,
        switchover: Switchover,
    },
    Reply {
        id: u64,
        response: Response,
    },
    Died,
    /// No coordinator leads there any longer, which this agent will notice.
    Ended {
        node: NodeId,
        session: SessionId,
    },
}

impl Coordinator {
    pub fn new(policy: Policy, fabric: Arc<Fabric>) -> Self {
        let mut new = Self {
            policy,
            fabric,
            log: Vec::new(),
            process: None,
            deaths: Vec::new(),
            died: 0,
            last_request: 0,
            recording: None,
            effects: Vec::new(),
        };
        new.start();
        new
    }

    /// Starts from the log on disk.
    pub fn start(&mut self) {
        let mut core = Core::new(self.policy.clone(), Arc::clone(&self.fabric));
        self.log
            .iter()
            .cloned()
            .for_each(|command| core.apply(command));
        let seats = BTreeMap::new();
        self.process = Some(Process { core, seats });
    }

    pub fn die(&mut self) {
        self.died += usize::from(self.process.take().is_some());
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// While it runs.
    pub fn core(&self) -> Option<&Core> {
        Some(&self.process.as_ref()?.core)
    }

    pub fn log(&self) -> &[Command] {
        &self.log
    }

    pub fn will_die(&mut self, death: Death) {
        self.deaths.push(death);
    }

    /// Removes a planned death.
    pub fn will_live(&mut self) {
        self.deaths.clear();
    }

    /// Records all inputs and outputs from now on.
    pub fn record(&mut self) {
        self.recording = Some(Recording {
            policy: self.policy.clone(),
            log: self.log.clone(),
            inputs: Vec::new(),
        });
        self.effects.clear();
    }

    /// Returns the inputs and outputs since the start.
    pub fn recorded(&self) -> Option<(&Recording, &[Effect])> {
        Some((self.recording.as_ref()?, &self.effects))
    }

    /// Writes down another decision.
    pub fn decide(&mut self, at: Moment, change: Change) -> Option<Output> {
        self.append(Command { at, change })
    }

    /// The answer, if it runs, and all other outputs.
    pub fn ask(&mut self, now: Moment, request: Request) -> (Option<Response>, Vec<Output>) {
        self.last_request += 1;
        let id = self.last_request;
        let input = Input::Operator {
            id,
            principal: Member::new(Role::Operator, "ada"),
            request,
        };
        let (mut answer, mut others) = (None, Vec::new());
        for output in self.feed(now, input) {
            match output {
                Output::Reply { id: of, response } if of == id => answer = Some(response),
                other => others.push(other),
            }
        }
        (answer, others)
    }

    fn seat_of(&self, guest: Guest) -> Option<SessionId> {
        self.process.as_ref()?.seats.get(&guest).copied()
    }

    fn feed(&mut self, now: Moment, input: Input) -> Vec<Output> {
        let Some(process) = &mut self.process else {
            return Vec::new();
        };
        if let Some(recording) = &mut self.recording {
            let input = input.clone();
            recording.inputs.push(Recorded { at: now, input });
        }
        process.core.handle(now, input);
        let mut outputs = Vec::new();
        while let Some(effect) = self.process.as_mut().and_then(|it| it.core.poll_effect()) {
            if self.recording.is_some() {
                self.effects.push(effect.clone());
            }
            outputs.extend(self.carry_out(effect));
        }
        outputs
    }

    fn carry_out(&mut self, effect: Effect) -> Option<Output> {
        match effect {
            Effect::Append(command) => self.append(command),
            Effect::Send { node, instruction } => {
                let to = self.seat_of(Guest::Agent(node))?;
                Some(Output::Send {
                    to,
                    node,
                    instruction,
                })
            }
            Effect::Reply { id, response } => Some(Output::Reply { id, response }),
            Effect::Switch {
                optical,
                switchover,
            } => {
                let to = self.seat_of(Guest::Driver(optical))?;
                Some(Output::Switch {
                    to,
                    optical,
                    switchover,
                })
            }
            // Members of this simulation have their certificates from the start.
            Effect::Answer { .. } => None,
        }
    }

    fn append(&mut self, command: Command) -> Option<Output> {
        let entry = self.log.len();
        let death = self.deaths.iter().position(|death| death.entry == entry);
        let death = death.map(|index| self.deaths.swap_remove(index));
        if death.is_none_or(|death| death.is_durable) {
            self.log.push(command.clone());
        }
        if death.is_some() {
            self.die();
            return Some(Output::Died);
        }
        self.process.as_mut()?.core.apply(command);
        None
    }
}

/// It acts only when the simulation calls it.
impl Leaders for Coordinator {
    fn next_due(&self) -> Option<Moment> {
        None
    }

    fn go_on(&mut self) -> Vec<Output> {
        Vec::new()
    }

    fn decided(&self) -> (&[Command], Option<&State>) {
        (self.log(), self.core().map(Core::state))
    }

    fn is_there(&self) -> bool {
        self.is_running()
    }

    fn die(&mut self) -> Vec<Output> {
        let dies = self.is_running();
        self.die();
        dies.then_some(Output::Died).into_iter().collect()
    }

    fn come_back(&mut self) {
        self.start();
    }

    fn tick(&mut self, now: Moment) -> Vec<Output> {
        self.feed(now, Input::Tick)
    }

    /// A new session takes the place of the one before.
    fn seat(&mut self, now: Moment, guest: Guest, session: SessionId) -> Vec<Output> {
        let Some(process) = &mut self.process else {
            return Vec::new();
        };
        let before = process.seats.get(&guest).copied();
        if before.is_some_and(|held| held > session) {
            return Vec::new();
        }
        let mut outputs = before.map_or_else(Vec::new, |held| self.left(now, guest, held));
        if let Some(process) = &mut self.process {
            process.seats.insert(guest, session);
        }
        outputs.extend(self.feed(now, guest.comes()));
        outputs
    }

    /// The end of a session, unless another has taken its place.
    fn left(&mut self, now: Moment, guest: Guest, session: SessionId) -> Vec<Output> {
        if self.seat_of(guest) != Some(session) {
            return Vec::new();
        }
        if let Some(process) = &mut self.process {
            process.seats.remove(&guest);
        }
        self.feed(now, guest.goes())
    }

    fn report(&mut self, now: Moment, session: SessionId, report: Report) -> Vec<Output> {
        if self.seat_of(report.guest()) != Some(session) {
            return Vec::new();
        }
        self.feed(now, report.input())
    }
}
