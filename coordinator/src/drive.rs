//! The drive loop: one event after the other into the core, and what it decides carried out in order.
//!
//! It runs on a thread of its own, since it waits for the disk. The rule it keeps: an entry of the
//! log is on disk before it is applied, and applied before anything that follows from it happens.

use std::collections::BTreeMap;

use reweave_common::ids::NodeId;
use reweave_common::instruction::Instruction;
use reweave_common::member::DenyList;
use reweave_common::operator::Response;
use reweave_core::{Core, Effect, Input, NoEntry, Pass};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::error::{CoordinatorError, told};
use crate::intake::{Event, Origin, SessionId};
use crate::log::Log;
use crate::recorder::{RecordError, Recorder};

pub(crate) struct Drive {
    core: Core,
    log: Log,
    clock: Clock,
    recorder: Option<Recorder>,
    /// Agents that have a session, and what leads to them. Letting go of it ends the session.
    seats: BTreeMap<NodeId, Seat>,
    /// Operators that wait for an answer.
    waiting: BTreeMap<u64, oneshot::Sender<Response>>,
    /// Newcomers that do.
    knocking: BTreeMap<u64, oneshot::Sender<Result<Pass, NoEntry>>>,
    last_request: u64,
    /// Who is shut out, by what has been applied.
    denied: watch::Sender<DenyList>,
}

struct Seat {
    session: SessionId,
    outbox: mpsc::Sender<Instruction>,
}

impl Drive {
    pub(crate) fn new(core: Core, log: Log, clock: Clock, recorder: Option<Recorder>) -> Self {
        let denied = core.state().membership().denied().clone();
        Self {
            denied: watch::Sender::new(denied),
            core,
            log,
            clock,
            recorder,
            seats: BTreeMap::new(),
            waiting: BTreeMap::new(),
            knocking: BTreeMap::new(),
            last_request: 0,
        }
    }

    /// Follows who is shut out.
    pub(crate) fn denied(&self) -> watch::Receiver<DenyList> {
        self.denied.subscribe()
    }

    /// Until [`Event::End`], or until something is wrong that makes it unsafe to go on.
    pub(crate) fn run(mut self, mut events: mpsc::Receiver<Event>) -> Result<(), CoordinatorError> {
        while let Some(event) = events.blocking_recv() {
            if matches!(event, Event::End) {
                break;
            }
            self.live(event)?;
        }
        self.record(Recorder::flush);
        Ok(())
    }

    fn live(&mut self, event: Event) -> Result<(), CoordinatorError> {
        match event {
            Event::Arrived { from, outbox } => self.seat(from, outbox),
            Event::Measured { from, sample } if self.is_seated(from) => {
                let node = from.node;
                self.feed(Input::Sample { node, sample })
            }
            Event::Acknowledged { from, ack } if self.is_seated(from) => {
                let node = from.node;
                self.feed(Input::Ack { node, ack })
            }
            Event::Left { from } if self.is_seated(from) => self.unseat(from.node),
            Event::Described { from, about } if self.is_seated(from) => {
                let node = from.node;
                self.feed(Input::About { node, about })
            }
            Event::Measured { .. }
            | Event::Acknowledged { .. }
            | Event::Described { .. }
            | Event::Left { .. } => Ok(()),
            Event::Asked {
                principal,
                request,
                reply,
            } => {
                let id = self.next_request();
                self.waiting.insert(id, reply);
                self.feed(Input::Operator {
                    id,
                    principal,
                    request,
                })
            }
            Event::Knocked {
                token,
                key,
                from,
                reply,
            } => {
                let id = self.next_request();
                self.knocking.insert(id, reply);
                self.feed(Input::Knock {
                    id,
                    token,
                    key,
                    from,
                })
            }
            Event::TurnedAway { from, why, times } => {
                self.feed(Input::TurnedAway { from, why, times })
            }
            Event::Tick => self.feed(Input::Tick),
            Event::End => Ok(()),
        }
    }

    fn next_request(&mut self) -> u64 {
        self.last_request += 1;
        self.last_request
    }

    /// A new session takes the place of the one before, of which nothing more is heard.
    fn seat(
        &mut self,
        from: Origin,
        outbox: mpsc::Sender<Instruction>,
    ) -> Result<(), CoordinatorError> {
        let Origin { node, session } = from;
        let held = self.seats.get(&node);
        if held.is_some_and(|held| held.session > session) {
            return Ok(());
        }
        if held.is_some() {
            self.unseat(node)?;
        }
        self.seats.insert(node, Seat { session, outbox });
        self.feed(Input::AgentUp { node })
    }

    fn unseat(&mut self, node: NodeId) -> Result<(), CoordinatorError> {
        self.seats.remove(&node);
        self.feed(Input::AgentDown { node })
    }

    fn is_seated(&self, from: Origin) -> bool {
        let seat = self.seats.get(&from.node);
        seat.is_some_and(|seat| seat.session == from.session)
    }

    fn feed(&mut self, input: Input) -> Result<(), CoordinatorError> {
        let now = self.clock.now();
        self.record(|recorder| recorder.input(now, &input));
        self.core.handle(now, input);
        while let Some(effect) = self.core.poll_effect() {
            self.record(|recorder| recorder.effect(&effect));
            self.carry_out(effect)?;
        }
        Ok(())
    }

    /// A recording that cannot be gone on with is no reason to stop leading.
    fn record(&mut self, write: impl FnOnce(&mut Recorder) -> Result<(), RecordError>) {
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = write(recorder)
        {
            tracing::error!("the recording ends here: {}", told(&error));
            self.recorder = None;
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), CoordinatorError> {
        match effect {
            Effect::Append(command) => {
                self.log.append(&command)?;
                self.core.apply(command);
                self.publish_denied();
            }
            Effect::Send { node, instruction } => self.send(node, instruction),
            Effect::Reply { id, response } => {
                // An operator who has left wants no answer.
                let _ = self.waiting.remove(&id).map(|reply| reply.send(response));
            }
            Effect::Answer { id, pass } => {
                let _ = self.knocking.remove(&id).map(|reply| reply.send(pass));
            }
        }
        Ok(())
    }

    fn publish_denied(&self) {
        let denied = self.core.state().membership().denied();
        self.denied.send_if_modified(|published| {
            let changed = published != denied;
            if changed {
                published.clone_from(denied);
            }
            changed
        });
    }

    /// An agent that takes nothing is as good as gone: its session ends, and it comes back or not.
    fn send(&mut self, node: NodeId, instruction: Instruction) {
        let Some(seat) = self.seats.get_mut(&node) else {
            return;
        };
        if let Err(TrySendError::Full(_)) = seat.outbox.try_send(instruction) {
            // Its task sees that nobody leads to it any more, ends, and says that it left.
            let (nowhere, _) = mpsc::channel(1);
            seat.outbox = nowhere;
        }
    }
}
