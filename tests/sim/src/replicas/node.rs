//! One coordinator of the simulated cluster: its replica, its disk, its office with the core while it
//! leads, and what it knows of clients, people and agents.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_core::{
    Change, ClusterRole, Command, LATEST_MINOR, Migration, Policy, Stage, State, UnreadableLog,
};
use reweave_replica::decode_exact;
use reweave_replica::{
    Batch, DurableReplica, FolderId, LogError, MemberId, Message, Proposal, ReadId, Replica,
    RequestId, Saved, Standing, Store, Timing,
};

use super::disk::{LOG_NAME, SimulatedDisk};
use super::fabric::fabric;
use super::machine::{Machine, Payload, digest};
use super::people::Matter;
use crate::wire::SessionId;

/// Client of a request, with the number of its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asker {
    pub client: usize,
    pub attempt: u64,
}

/// Attempt that a client made here, its time, and the promised index at that time.
#[derive(Debug, Clone)]
pub struct Plea {
    pub person: usize,
    pub attempt: u64,
    pub matter: Matter,
    pub promised: u64,
}

/// State of a running node.
#[derive(Debug)]
pub struct Running {
    pub durable: DurableReplica<SimulatedDisk>,
    pub machine: Machine,
    /// The clients that wait for a request to be applied.
    pub waiting: BTreeMap<RequestId, Asker>,
    /// Pending reads with their results.
    pub reads: BTreeMap<ReadId, (Asker, u64)>,
    /// Pending requests of operators and new members.
    pub people: BTreeMap<u64, Plea>,
    /// Every request here has a number of its own.
    pub last_request: u64,
    /// Version of each peer, and the time when it was last heard.
    pub read_by: BTreeMap<u64, (u16, Moment)>,
    /// Members to come: there is a connection to them.
    pub pending_members: BTreeSet<MemberId>,
    pub ticks: u64,
    /// Peers whose disks were full when they were last heard.
    full: BTreeSet<MemberId>,
    /// Last value that the role received.
    pub may_decide: bool,
    /// Agents with a session.
    pub seats: BTreeMap<NodeId, SessionId>,
    pub office: ClusterRole,
    /// Hash of the decisions, which most entries do not change.
    decided: u64,
    /// When it came to lead: by its own clock, and by that of the world.
    led: [Moment; 2],
}

impl Running {
    /// Starts from the content of its disk.
    fn new(durable: DurableReplica<SimulatedDisk>, machine: Machine, office: ClusterRole) -> Self {
        Self {
            durable,
            machine,
            waiting: BTreeMap::new(),
            reads: BTreeMap::new(),
            people: BTreeMap::new(),
            last_request: 0,
            read_by: BTreeMap::new(),
            pending_members: BTreeSet::new(),
            ticks: 0,
            full: BTreeSet::new(),
            may_decide: true,
            seats: BTreeMap::new(),
            decided: digest(&encode_state(office.state())),
            office,
            led: [Moment::default(); 2],
        }
    }

    pub fn replica(&self) -> &Replica {
        self.durable.replica()
    }

    pub fn replica_mut(&mut self) -> &mut Replica {
        self.durable.replica_mut()
    }

    /// Advances time as the event loop of the product does.
    pub fn tick(&mut self) -> Result<(), LogError> {
        self.durable.handle_tick(|| self.full.clone());
        match self.durable.poll_compaction() {
            Err(error) if !matches!(error, LogError::NoRoom { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    /// Peers say it with all they say.
    pub fn hear_room(&mut self, peer: u64, is_full: bool) {
        if is_full {
            self.full.insert(MemberId(peer));
        } else {
            self.full.remove(&MemberId(peer));
        }
    }

    pub fn next_request(&mut self) -> u64 {
        self.last_request += 1;
        self.last_request
    }

    /// Encodes the state after all applied entries.
    pub fn encode(&self) -> Vec<u8> {
        encode(&self.machine, self.office.state())
    }

    pub fn restore(&mut self, state: &[u8]) -> Result<(), UnreadableLog> {
        let (machine, state) = decode(state);
        self.office.handle_restored(&state)?;
        self.machine = machine;
        self.decided = digest(&encode_state(self.office.state()));
        Ok(())
    }

    /// Applies a decision. Returns the version to which it lowers the cluster, if it does.
    pub fn decide(&mut self, command: Command) -> Result<Option<u16>, UnreadableLog> {
        let lowered = self.office.apply(command)?;
        self.decided = digest(&encode_state(self.office.state()));
        Ok(lowered)
    }

    /// The same where all bytes of what entries have led to are.
    pub fn digest(&self) -> [u64; 2] {
        let machine = postcard::to_stdvec(&self.machine);
        [digest(&machine.expect("it can be written")), self.decided]
    }

    /// Starts to lead. Its clock starts at the time of day, or after all decisions if that is later, and then runs by
    /// itself.
    pub fn begin_to_lead(&mut self, term: u64, today: Moment, now: Moment) {
        let begins = today.max(self.office.state().latest());
        self.led = [begins, now];
        let agents = self.seats.keys().copied();
        for input in self.office.handle_elected(term, agents, []) {
            self.office.handle(begins, input);
        }
    }

    /// Returns the time of its clock while it leads.
    pub fn clock(&self, now: Moment) -> Moment {
        self.led[0] + now.since(self.led[1])
    }
}

fn encode_state(state: &State) -> Vec<u8> {
    state.encode().expect("it can be written")
}

/// The state of the core is in there as the product writes it.
pub fn encode(machine: &Machine, state: &State) -> Vec<u8> {
    postcard::to_stdvec(&(machine, encode_state(state))).expect("it can be written")
}

fn decode(bytes: &[u8]) -> (Machine, Vec<u8>) {
    if bytes.is_empty() {
        return <(Machine, Vec<u8>)>::default();
    }
    decode_exact(bytes).expect("a coordinator wrote it")
}

/// The commands in a log, as the product writes them.
fn decided(saved: &Saved) -> impl Iterator<Item = (u64, Vec<u8>)> {
    saved.entries.iter().filter_map(|entry| {
        let proposal = Proposal::of(entry)?;
        match decode_exact(&proposal.payload) {
            Ok(Payload::Decided(command)) => Some((entry.index, command)),
            _ => None,
        }
    })
}

/// The minor version of the protocol that a build has to read for this, independent of what the product says of it.
pub fn came_with(change: &Change) -> u16 {
    let of_part = |part: &Change| match part {
        Change::PolicySet { .. } => 2,
        Change::Steered { .. }
        | Change::ConfirmIntent { .. }
        | Change::ClusterVersionLowered { .. }
        | Change::CoordinatorsRemoved { .. } => 1,
        _ => 0,
    };
    change.parts().iter().map(of_part).max().unwrap_or_default()
}

/// The same for all that was decided so far.
pub fn came_with_state(state: &State) -> u16 {
    let is_later =
        |it: &Migration| matches!(it.stage, Stage::Unconfirmed(_) | Stage::Confirming(_));
    let any_is_later = state
        .rollouts()
        .any(|it| it.phase.migration().is_some_and(is_later));
    let of_policy = if state.policy().settings.is_empty() {
        0
    } else {
        2
    };
    let of_parts = of_policy.max(u16::from(any_is_later));
    state.cluster_version().max(of_parts)
}

/// Returns the version with which a saved state can be started.
pub fn came_with_saved(saved: &Saved) -> u16 {
    let (_, state) = decode(&saved.state().expect("it can be read"));
    let state = State::decode(&state, LATEST_MINOR).expect("a coordinator wrote it");
    let needs = decided(saved).map(|(index, command)| {
        let command = Command::decode(index, &command).expect("a coordinator wrote it");
        leads_to(&command.change)
    });
    needs.fold(came_with_state(&state), u16::max)
}

/// Whether `reweave-coordinator check` of such a build says that it would start on this.
pub fn is_readable(saved: &Saved, reads: u16) -> bool {
    let (_, state) = decode(&saved.state().expect("it can be read"));
    State::decode_before(decided(saved), &state, reads).is_ok()
}

/// The cluster version that it raises is to be read, too.
fn leads_to(change: &Change) -> u16 {
    let raised = change.parts().iter().filter_map(|part| match part {
        Change::ClusterVersion { minor } => Some(*minor),
        _ => None,
    });
    raised.fold(came_with(change), u16::max)
}

#[derive(Debug)]
pub struct Node {
    pub disk: SimulatedDisk,
    /// Content of an empty disk.
    beginning: Saved,
    pub running: Option<Running>,
    /// Write in progress.
    pub writing: Option<Batch>,
    /// Number of its starts, so that messages for one are not taken for another.
    pub life: u64,
    /// Identity of its disk for the others.
    pub folder: FolderId,
    /// Its disk is lost for good.
    pub is_lost: bool,
    /// The content of its disk was refused at a start.
    pub is_refused: bool,
    pub stands_still_until: Moment,
    /// Deviation of its clock, in hours.
    pub clock_ahead_h: i64,
    pub sync_takes: [Duration; 2],
    /// The latest minor version that its build reads.
    pub reads: u16,
    /// A release was started that is too old for its disk.
    pub is_too_early: bool,
}

impl Node {
    pub fn of(saved: &Saved, disk: SimulatedDisk) -> Self {
        Self {
            disk,
            beginning: saved.clone(),
            running: None,
            writing: None,
            life: 0,
            folder: FolderId(saved.member.0),
            is_lost: false,
            is_refused: false,
            stands_still_until: Moment::default(),
            clock_ahead_h: 0,
            sync_takes: [Duration::from_micros(100), Duration::from_millis(3)],
            reads: LATEST_MINOR,
            is_too_early: false,
        }
    }

    /// Starts from the content of its disk. A power loss causes no damage, and all damage is detected. A release that
    /// cannot read the content does not start.
    pub fn start(&mut self, timing: &Timing, policy: &Policy) -> Result<(), LogError> {
        let is_damaged = self.disk.is_damaged();
        let beginning = Some(self.beginning.clone());
        let opened = Store::open(self.disk.clone(), Path::new(LOG_NAME), beginning)?;
        assert!(!is_damaged, "started on damage: {opened:?}");
        self.disk.believe();
        let (needs, reads) = (came_with_saved(&opened.saved), self.reads);
        let (machine, state) = decode(&opened.saved.state().expect("it can be read"));
        let state = State::decode_before(decided(&opened.saved), &state, reads);
        assert!(
            state.is_ok() == (needs <= reads) && (state.is_ok() || self.is_too_early),
            "it reads 1.{reads}, and starts from 1.{needs}: {:?}",
            state.map(drop)
        );
        let Ok(state) = state else { return Ok(()) };
        let durable = DurableReplica::new(&opened.saved, timing.clone(), opened.store);
        let mut durable = durable.expect("it goes on");
        durable.look_at_disk(&BTreeSet::new());
        self.life += 1;
        let office = ClusterRole::new(policy.clone(), fabric(), state, reads);
        self.running = Some(Running::new(durable, machine, office));
        Ok(())
    }

    /// Returns the content that a start would find, if it would accept it.
    pub fn saved(&self) -> Option<Saved> {
        let found = Store::look(&self.disk, Path::new(LOG_NAME));
        found.ok().flatten()
    }

    /// Completes the write in progress.
    pub fn sync(&mut self) -> Result<(), LogError> {
        if let (Some(running), Some(batch)) = (&mut self.running, self.writing.take()) {
            running.durable.persist(batch)?;
        }
        Ok(())
    }

    /// Loses power: a part of the write in progress is completed. Returns the agents whose sessions are lost.
    pub fn lose_power(&mut self) -> BTreeMap<NodeId, SessionId> {
        let is_whole = self.writing.as_ref().is_some_and(|batch| batch.is_whole);
        // A file that is replaced takes more operations than one that is appended to.
        self.disk.die_within(if is_whole { 8 } else { 3 });
        let _ = self.sync();
        self.disk.lose_power();
        let seats = self.running.take().map(|running| running.seats);
        seats.unwrap_or_default()
    }

    /// Whether its disk has no room for decisions, as far as it says.
    pub fn is_full(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.durable.disk_is_full())
    }

    pub fn leads(&self) -> Option<u64> {
        match self.running.as_ref()?.replica().standing() {
            Standing::Leads { term } => Some(term),
            Standing::Follows { .. } => None,
        }
    }

    /// Returns the time of day by the clock of this machine, which may be set at any time.
    pub fn time_of_day(&self, now: Moment) -> Moment {
        let hours = self.clock_ahead_h.unsigned_abs();
        let jump = Duration::from_secs(3600 * hours);
        if self.clock_ahead_h < 0 {
            Moment::from_micros(now.as_micros().saturating_sub(jump.as_micros() as u64))
        } else {
            now + jump
        }
    }
}

/// Whether the log only wanted room.
pub fn wants_room(error: &LogError) -> bool {
    let source = error.source();
    let source = source.and_then(|it| it.downcast_ref::<io::Error>());
    source.is_some_and(|it| it.kind() == io::ErrorKind::StorageFull)
}

/// Returns sender and receiver of a message.
pub fn direction(message: &Message) -> (u64, u64) {
    let MemberId(from) = message.from;
    let MemberId(to) = message.to;
    (from, to)
}
