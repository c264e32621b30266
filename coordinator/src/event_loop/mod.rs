//! The event loop: hands one event after the other to the core, and executes its effects in order.
//!
//! It runs on a thread of its own, since planning takes time. Its invariant: a command is agreed on, and on disk,
//! before it is applied, and applied before any of its consequences happens. Only a leader has a core; a follower
//! applies the leader's decisions.

mod outboxes;
mod plan_audit;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use reweave_common::circuit::Switchover;
use reweave_common::error::error_chain;
use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::Instruction;
use reweave_common::member::DenyLists;
use reweave_common::operator::{Refused, Request, Response};
use reweave_core::{
    ClusterRole, Command, Effect, Input, LATEST_MINOR, NoEntry, Pass, Policy, REVOCATION_DELAY,
    State, UnreadableLog,
};
use reweave_link::pki::MAX_MEMBER_VALIDITY;
use reweave_proto::hello::PROTOCOL_VERSION;
use reweave_replica::{MemberId, Proposal, ReadId, RequestId, Saved, Standing};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{oneshot, watch};

use crate::audit::Audit;
use crate::clock::Clock;
use crate::counters::{Ending, EventCounters};
use crate::data::of_another_version;
use crate::decisions::Decisions;
use crate::error::CoordinatorError;
use crate::history::History;
use crate::intake::{self, Asker, Event, Origin, Outbox, Queue, SealedResponse, SessionId};
use crate::local_health::LocalHealth;
use crate::recorder::{RecordError, Recorder};
use crate::replication::{Cluster, Outcome, PeerStatus, Replication, ReplicationError, Task};
use crate::traces::Traces;
use outboxes::Outboxes;

/// Entries have the versions of the protocol.
const _: () = assert!(LATEST_MINOR == PROTOCOL_VERSION.minor);
/// The signer of a removed coordinator is revoked when the last that it signed has expired, by clocks an hour apart.
const _: () = assert!(REVOCATION_DELAY.as_secs() >= MAX_MEMBER_VALIDITY.as_secs() + 2 * 60 * 60);

/// What is under way when the end comes may take this long.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct EventLoop {
    id: MemberId,
    replication: Replication,
    cluster: watch::Receiver<Cluster>,
    peer_status: PeerStatus,
    office: ClusterRole,
    /// The clock of the term in which this coordinator leads.
    clock: Clock,
    recorder: Option<Recorder>,
    history: Option<History>,
    local_health: LocalHealth,
    traces: Option<Traces>,
    audit: Audit,
    agents: Outboxes<NodeId, Instruction>,
    drivers: Outboxes<OpticalId, Switchover>,
    /// Operators that wait for an answer.
    waiting: BTreeMap<u64, oneshot::Sender<SealedResponse>>,
    /// Seals, by the number of the request that is to approve a plan.
    seals: BTreeMap<u64, String>,
    /// Joining members that wait.
    knocking: BTreeMap<u64, oneshot::Sender<Result<Pass, NoEntry>>>,
    last_request: u64,
    /// The revoked and removed members, as of the applied log.
    denied: watch::Sender<DenyLists>,
    decisions: Decisions,
    endings: EventCounters<Ending>,
}

/// The parts of an event loop.
pub(crate) struct Parts {
    /// The policy of the file.
    pub(crate) policy: Policy,
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) id: MemberId,
    /// What the snapshot in the log holds.
    pub(crate) state: State,
    pub(crate) replication: Replication,
    pub(crate) cluster: watch::Receiver<Cluster>,
    pub(crate) peer_status: PeerStatus,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) history: Option<History>,
    pub(crate) local_health: LocalHealth,
    pub(crate) traces: Option<Traces>,
    pub(crate) audit: Audit,
}

impl EventLoop {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            id: parts.id,
            replication: parts.replication,
            cluster: parts.cluster,
            peer_status: parts.peer_status,
            denied: watch::Sender::new(parts.state.membership().deny_lists()),
            decisions: Decisions::default(),
            endings: EventCounters::default(),
            clock: Clock::after(parts.state.latest()),
            office: ClusterRole::new(parts.policy, parts.fabric, parts.state, LATEST_MINOR),
            recorder: parts.recorder,
            history: parts.history,
            local_health: parts.local_health,
            traces: parts.traces,
            audit: parts.audit,
            agents: Outboxes::default(),
            drivers: Outboxes::default(),
            waiting: BTreeMap::new(),
            seals: BTreeMap::new(),
            knocking: BTreeMap::new(),
            last_request: 0,
        }
    }

    /// Follows who is revoked or removed.
    pub(crate) fn denied(&self) -> watch::Receiver<DenyLists> {
        self.denied.subscribe()
    }

    /// Follows how much has been applied.
    pub(crate) fn decisions(&self) -> Decisions {
        self.decisions.clone()
    }

    /// How plans end while this coordinator leads: over all of them, each is counted once.
    pub(crate) fn endings(&self) -> EventCounters<Ending> {
        self.endings.clone()
    }

    /// Runs until [`Event::End`], or until it is unsafe to go on.
    pub(crate) fn run(mut self, mut events: Queue) -> Result<(), CoordinatorError> {
        let waiting = intake::waiting().map_err(|source| CoordinatorError::Start {
            what: "the drive",
            source,
        })?;
        while let Some(event) = self.next(&waiting, &mut events) {
            if matches!(event, Event::End) {
                self.finish(&mut events)?;
                break;
            }
            self.handle_event(event)?;
        }
        self.record(Recorder::flush);
        self.replication.put(Task::End);
        Ok(())
    }

    /// A tick has many parts where there are many nodes, and what is urgent comes between two of them. Between two legs that
    /// are judged everything comes: as long as all of them take, no agent may seem silent.
    fn next(&self, waiting: &Runtime, events: &mut Queue) -> Option<Event> {
        if self.office.is_amid_tick() {
            Some(events.try_urgent().unwrap_or(Event::Tick))
        } else if self.office.is_judging() {
            Some(events.try_next().unwrap_or(Event::Tick))
        } else {
            waiting.block_on(events.next())
        }
    }

    /// What was asked is answered still, if that can be done soon.
    fn finish(&mut self, events: &mut Queue) -> Result<(), CoordinatorError> {
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        while self.office.is_busy() && Instant::now() < deadline {
            match events.try_next() {
                Ok(event) => self.handle_event(event)?,
                Err(TryRecvError::Empty) => thread::sleep(Duration::from_millis(1)),
                Err(TryRecvError::Disconnected) => break,
            }
        }
        Ok(())
    }

    fn handle_event(&mut self, event: Event) -> Result<(), CoordinatorError> {
        match event {
            Event::Arrived { from, outbox } => self.seat(from, outbox),
            Event::Measured { from, sample } if self.is_seated(from) => {
                let node = from.node;
                self.handle_input(Input::Sample { node, sample })
            }
            Event::Acknowledged { from, ack } if self.is_seated(from) => {
                let node = from.node;
                self.handle_input(Input::Ack { node, ack })
            }
            Event::Left { from } if self.is_seated(from) => self.unseat(from.node),
            Event::Described { from, about } if self.is_seated(from) => {
                let node = from.node;
                self.handle_input(Input::About { node, about })
            }
            Event::ReadBack {
                optical,
                session,
                readback,
            } if self.drivers.holds(optical, session) => {
                self.handle_input(Input::Readback { optical, readback })
            }
            Event::Measured { .. }
            | Event::Acknowledged { .. }
            | Event::Described { .. }
            | Event::Left { .. }
            | Event::ReadBack { .. } => Ok(()),
            Event::DriverArrived {
                optical,
                session,
                outbox,
            } => self.seat_driver(optical, session, outbox),
            Event::DriverLeft { session } => {
                let mut left = self.drivers.of_session(session).into_iter();
                left.try_for_each(|optical| self.unseat_driver(optical))
            }
            Event::Asked { by, request, reply } => self.ask(by, request, reply),
            Event::Knocked {
                token,
                key,
                from,
                reply,
            } => {
                let id = self.next_request();
                let knock = Input::Knock {
                    id,
                    token,
                    key,
                    from,
                };
                self.knock(id, knock, reply)
            }
            Event::TurnedAway { from, why, times } => {
                self.handle_input(Input::TurnedAway { from, why, times })
            }
            Event::Replicated(outcome) => self.follow(outcome),
            Event::Tick => {
                let leads = self.office.leads();
                let ahead = leads.then(|| self.clock.ahead());
                self.local_health.note_ahead(ahead.unwrap_or_default());
                self.send_min_version()?;
                self.send_removed()?;
                self.handle_input(Input::Tick)
            }
            Event::End => Ok(()),
        }
    }

    fn send_min_version(&mut self) -> Result<(), CoordinatorError> {
        let read = |id| {
            if id == self.id {
                Some(LATEST_MINOR)
            } else {
                self.peer_status.minor(id)
            }
        };
        let find = || self.cluster.borrow().directory.members().min_version(read);
        match self.office.handle_min_version(find) {
            Some(input) => self.handle_input(input),
            None => Ok(()),
        }
    }

    fn send_removed(&mut self) -> Result<(), CoordinatorError> {
        let cluster = self.cluster.borrow();
        let input = self
            .office
            .handle_removed(&cluster.directory.members().removed);
        drop(cluster);
        match input {
            Some(input) => self.handle_input(input),
            None => Ok(()),
        }
    }

    fn follow(&mut self, outcome: Outcome) -> Result<(), CoordinatorError> {
        match outcome {
            Outcome::Applied { index, payload } => self.apply(index, &payload),
            Outcome::Restored { state } => {
                self.office.handle_restored(&state)?;
                self.decisions.note();
                self.publish_denied();
                Ok(())
            }
            Outcome::TakeSnapshot { index } => self.take_snapshot(index),
            Outcome::ReadReady(ReadId(id)) => {
                self.office.handle_certain(id);
                self.answer_all();
                Ok(())
            }
            Outcome::ReadLost(ReadId(id)) => {
                self.office.handle_uncertain(id, self.elsewhere());
                self.answer_all();
                Ok(())
            }
            Outcome::Stands(Standing::Leads { term }) => self.lead(term),
            Outcome::Stands(Standing::Follows { .. }) => {
                self.step_down();
                Ok(())
            }
            Outcome::Disk { is_full } => {
                let input = self.office.handle_disk(is_full);
                self.handle_input(input)
            }
            Outcome::Failed(error) => Err(error.into()),
        }
    }

    fn apply(&mut self, index: u64, payload: &[u8]) -> Result<(), CoordinatorError> {
        let command = Command::decode(index, payload)?;
        if let Some(traces) = &self.traces {
            traces.hear_decided(&command, self.office.leads());
        }
        if self.office.leads() {
            self.count_endings(&command);
            self.record(|recorder| recorder.applied(&command));
            if let Some(history) = &self.history {
                history.hear_decided(&command);
            }
        }
        if let Some(minor) = self.office.apply(command)? {
            tracing::info!("cluster version lowered to 1.{minor}");
            self.replication.put(Task::CompactTo { index });
        }
        self.decisions.note();
        self.publish_denied();
        self.audit_plans();
        self.carry_out_all()
    }

    /// The event loop does not wait until lines are on disk.
    fn audit_plans(&mut self) {
        while let Some(record) = self.office.poll_record() {
            let (who, asked) = plan_audit::line(self.office.policy().mode, record);
            drop(self.audit.put(who, asked, Ok(())));
        }
    }

    /// What the log says of earlier times is not counted again: no coordinator leads while it is read.
    fn count_endings(&self, command: &Command) {
        let endings = command.change.parts().iter().filter_map(Ending::of);
        endings.for_each(|ending| self.endings.note(ending));
    }

    fn take_snapshot(&self, index: u64) -> Result<(), CoordinatorError> {
        let state = self.office.state().encode();
        let state = state.map_err(|source| CoordinatorError::UnwritableCommand { source })?;
        self.replication.put(Task::Snapshot { index, state });
        Ok(())
    }

    fn lead(&mut self, term: u64) -> Result<(), CoordinatorError> {
        let state = self.office.state();
        tracing::info!(
            "leader in term {term}; routes: generation {}",
            state.in_force().generation
        );
        self.clock = Clock::after(state.latest());
        if let Some(recorder) = &mut self.recorder {
            let written = recorder.leads(state);
            self.record(|_| written);
        }
        let (agents, drivers) = (self.agents.keys(), self.drivers.keys());
        let inputs = self.office.handle_elected(term, agents, drivers);
        if let Some(history) = &self.history {
            history.hear_leads(self.clock.now(), self.clock.ahead());
        }
        inputs
            .into_iter()
            .try_for_each(|input| self.handle_input(input))
    }

    /// Agents find the new leader, and operators are redirected to it.
    fn step_down(&mut self) {
        if self.office.leads() {
            tracing::info!("lost leadership");
        }
        self.office.handle_deposed(&self.elsewhere());
        self.answer_all();
        self.seals.clear();
        self.agents.clear();
        self.drivers.clear();
        // A joining member that gets no answer here tries another coordinator.
        self.knocking.clear();
    }

    fn elsewhere(&self) -> Response {
        let leader = self.cluster.borrow().leader();
        Response::Refused(Refused::NotLeading { leader })
    }

    /// A request without a decision asks the other coordinators at once whether another one leads.
    fn ask(
        &mut self,
        by: Asker,
        request: Request,
        reply: oneshot::Sender<SealedResponse>,
    ) -> Result<(), CoordinatorError> {
        let (id, is_sought) = (self.next_request(), !request.decides());
        if !self.office.handle_asker(id, is_sought) {
            // An operator who has left wants no answer.
            let _ = reply.send(self.elsewhere().into());
            return Ok(());
        }
        self.waiting.insert(id, reply);
        if is_sought {
            self.replication.put(Task::Read(ReadId(id)));
        }
        self.handle_input(match by {
            Asker::Member(principal) => Input::Operator {
                id,
                principal,
                request,
            },
            Asker::Visitor(token) => Input::Visitor { id, token, request },
        })
    }

    /// An admission is agreed on before its answer; without a leader there is no answer.
    fn knock(
        &mut self,
        id: u64,
        knock: Input,
        reply: oneshot::Sender<Result<Pass, NoEntry>>,
    ) -> Result<(), CoordinatorError> {
        if !self.office.leads() {
            return Ok(());
        }
        self.knocking.insert(id, reply);
        self.handle_input(knock)
    }

    fn next_request(&mut self) -> u64 {
        self.last_request += 1;
        self.last_request
    }

    fn publish_denied(&self) {
        let membership = self.office.state().membership();
        self.denied.send_if_modified(|published| {
            let is_outdated = membership.outdates(published);
            if is_outdated {
                *published = membership.deny_lists();
            }
            is_outdated
        });
    }

    /// A new session takes the place of the one before, of which nothing more is heard. Without a
    /// core there is no place: the session ends.
    fn seat(&mut self, from: Origin, outbox: Outbox<Instruction>) -> Result<(), CoordinatorError> {
        let Origin { node, session } = from;
        if !self.office.leads() || self.agents.is_late(node, session) {
            return Ok(());
        }
        self.unseat(node)?;
        self.agents.insert(node, session, outbox);
        self.handle_input(Input::AgentUp { node })
    }

    fn unseat(&mut self, node: NodeId) -> Result<(), CoordinatorError> {
        if self.agents.remove(node) {
            self.handle_input(Input::AgentDown { node })
        } else {
            Ok(())
        }
    }

    fn is_seated(&self, from: Origin) -> bool {
        self.agents.holds(from.node, from.session)
    }

    /// Opens a driver's session in the same way as an agent's.
    fn seat_driver(
        &mut self,
        optical: OpticalId,
        session: SessionId,
        outbox: Outbox<Switchover>,
    ) -> Result<(), CoordinatorError> {
        if !self.office.leads() || self.drivers.is_late(optical, session) {
            return Ok(());
        }
        self.unseat_driver(optical)?;
        self.drivers.insert(optical, session, outbox);
        self.handle_input(Input::DriverUp { optical })
    }

    fn unseat_driver(&mut self, optical: OpticalId) -> Result<(), CoordinatorError> {
        if self.drivers.remove(optical) {
            self.handle_input(Input::DriverDown { optical })
        } else {
            Ok(())
        }
    }

    fn handle_input(&mut self, input: Input) -> Result<(), CoordinatorError> {
        if !self.office.leads() {
            return Ok(());
        }
        let now = self.clock.now();
        self.record(|recorder| recorder.input(now, &input));
        if let Some(history) = &self.history {
            history.hear(now, &input);
        }
        self.office.handle(now, input);
        if let Some(history) = &self.history
            && let Some((at, found)) = self.office.poll_evenness()
        {
            history.hear_evenness(at, found);
        }
        self.carry_out_all()
    }

    fn carry_out_all(&mut self) -> Result<(), CoordinatorError> {
        while let Some(effect) = self.office.poll_effect() {
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
            tracing::error!("the recording ends here: {}", error_chain(&error));
            self.recorder = None;
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), CoordinatorError> {
        match effect {
            Effect::Append(command) => self.propose(&command)?,
            Effect::Send { node, instruction } => self.agents.send(node, instruction),
            Effect::Reply { id, response } => {
                let seal = self.office.take_seal(id);
                self.seals.extend(seal.map(|seal| (id, seal)));
                self.answer(id, response);
            }
            Effect::Switch {
                optical,
                switchover,
            } => self.drivers.send(optical, switchover),
            Effect::Answer { id, pass } => {
                let _ = self.knocking.remove(&id).map(|reply| reply.send(pass));
            }
        }
        Ok(())
    }

    /// It comes back as applied, or this coordinator leads no more.
    fn propose(&mut self, command: &Command) -> Result<(), CoordinatorError> {
        let Some(number) = self.office.name_proposal() else {
            return Ok(());
        };
        let payload = command.encode();
        let payload = payload.map_err(|source| CoordinatorError::UnwritableCommand { source })?;
        let client = self.id.0;
        let request = RequestId { client, number };
        self.replication.put(Task::Propose { request, payload });
        Ok(())
    }

    fn answer(&mut self, id: u64, response: Response) {
        if self.office.handle_answer(id, response) {
            self.replication.put(Task::Read(ReadId(id)));
        }
        self.answer_all();
    }

    fn answer_all(&mut self) {
        while let Some((id, response)) = self.office.poll_answer() {
            let seal = self.seals.remove(&id);
            if let Some(reply) = self.waiting.remove(&id) {
                // An operator who has left wants no answer.
                let _ = reply.send(SealedResponse { response, seal });
            }
        }
    }
}

/// The state that the log in this folder goes on from.
pub(crate) fn saved_state(saved: &Saved, folder: &Path) -> Result<State, CoordinatorError> {
    let snapshot = saved.state().map_err(ReplicationError::Start)?;
    let entries = saved.entries.iter().filter_map(|entry| {
        let Proposal { payload, .. } = Proposal::of(entry)?;
        Some((entry.index, payload))
    });
    let state = State::decode_before(entries, &snapshot, LATEST_MINOR);
    state.map_err(|error| match error {
        UnreadableLog::State { source } => of_another_version(folder)(source).into(),
        other => other.into(),
    })
}
