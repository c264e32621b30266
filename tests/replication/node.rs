//! One coordinator of the simulated cluster: its replica, its disk, its office with the core while it
//! leads, and what it knows of clients, people and agents.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_core::{Change, Command, LATEST_MINOR, Office, Phase, Policy, Stage, State};
use reweave_replica::decode_exact;
use reweave_replica::{
    FolderId, MemberId, Message, Proposal, ReadId, Replica, RequestId, Saved, Standing, Timing,
};
use reweave_tests::world::wire::SessionId;
use serde::Serialize;

use crate::disk::Disk;
use crate::fabric::fabric;
use crate::machine::{Machine, Payload, digest};
use crate::people::Matter;

/// Who asked, and for which of its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asker {
    pub(crate) client: usize,
    pub(crate) attempt: u64,
}

/// Which of its attempts somebody made here, at what, and how much was promised by then.
#[derive(Debug, Clone)]
pub(crate) struct Plea {
    pub(crate) person: usize,
    pub(crate) attempt: u64,
    pub(crate) matter: Matter,
    pub(crate) promised: u64,
}

/// What there is of a node while it runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) replica: Replica,
    pub(crate) machine: Machine,
    /// Whoever waits for a request to be applied.
    pub(crate) waiting: BTreeMap<RequestId, Asker>,
    /// With what they found.
    pub(crate) reads: BTreeMap<ReadId, (Asker, u64)>,
    /// People who asked, and newcomers who knocked.
    pub(crate) people: BTreeMap<u64, Plea>,
    /// Whatever is asked here has a number of its own.
    pub(crate) last_request: u64,
    /// What each peer reads, and when it was heard last.
    pub(crate) read_by: BTreeMap<u64, (u16, Moment)>,
    /// As the core was told it last.
    pub(crate) min_version: u16,
    /// Agents with a session.
    pub(crate) seats: BTreeMap<NodeId, SessionId>,
    pub(crate) office: Office,
    /// Of what was decided, which most entries leave as it is.
    decided: u64,
    /// When it came to lead: by its own clock, and by that of the world.
    led: [Moment; 2],
}

impl Running {
    /// With what was on its disk.
    fn new(replica: Replica, policy: &Policy, state: &[u8]) -> Self {
        let (machine, state) = decode(state);
        let decided = digest_of(&state);
        Self {
            replica,
            machine,
            waiting: BTreeMap::new(),
            reads: BTreeMap::new(),
            people: BTreeMap::new(),
            last_request: 0,
            read_by: BTreeMap::new(),
            min_version: 0,
            seats: BTreeMap::new(),
            office: Office::new(policy.clone(), fabric(), state),
            decided,
            led: [Moment::default(); 2],
        }
    }

    pub(crate) fn next_request(&mut self) -> u64 {
        self.last_request += 1;
        self.last_request
    }

    /// All that entries have led to.
    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(&self.machine, self.office.state())
    }

    pub(crate) fn restore(&mut self, state: &[u8]) {
        let (machine, state) = decode(state);
        self.machine = machine;
        self.decided = digest_of(&state);
        self.office.handle_restored(state);
    }

    pub(crate) fn decide(&mut self, command: Command) {
        self.office.apply(command);
        self.decided = digest_of(self.office.state());
    }

    /// The same where all bytes of what entries have led to are.
    pub(crate) fn digest(&self) -> [u64; 2] {
        [digest_of(&self.machine), self.decided]
    }

    /// Its clock begins at the time of day or after all that was decided, and goes by itself.
    pub(crate) fn begin_to_lead(&mut self, term: u64, today: Moment, now: Moment) {
        self.led = [today.max(self.office.state().latest()), now];
        self.min_version = 0;
        self.office.handle_elected(term);
    }

    /// What its clock shows while it leads.
    pub(crate) fn clock(&self, now: Moment) -> Moment {
        self.led[0] + now.since(self.led[1])
    }
}

fn digest_of(what: &impl Serialize) -> u64 {
    digest(&postcard::to_stdvec(what).expect("it can be written"))
}

pub(crate) fn encode(machine: &Machine, state: &State) -> Vec<u8> {
    postcard::to_stdvec(&(machine, state)).expect("it can be written")
}

fn decode(bytes: &[u8]) -> (Machine, State) {
    if bytes.is_empty() {
        return <(Machine, State)>::default();
    }
    decode_exact(bytes).expect("a coordinator wrote it")
}

/// The minor version of the protocol that a build has to read for this, whatever the product says of it.
pub(crate) fn came_with(change: &Change) -> u16 {
    let is_later = |part: &Change| {
        matches!(
            part,
            Change::Steered { .. }
                | Change::ConfirmIntent { .. }
                | Change::ClusterVersionLowered { .. }
        )
    };
    u16::from(change.parts().iter().any(is_later))
}

/// The same for all that was decided so far.
pub(crate) fn came_with_state(state: &State) -> u16 {
    let is_later = |phase: &Phase| match phase {
        Phase::Unconfirmed(_) => true,
        Phase::Travelling(journey) => matches!(journey.stage, Stage::Unconfirmed(_)),
        _ => false,
    };
    let any_is_later = state.rollouts().any(|it| is_later(&it.phase));
    state.cluster_version().max(u16::from(any_is_later))
}

/// And for what a build starts from.
pub(crate) fn came_with_saved(saved: &Saved) -> u16 {
    let (_, state) = decode(&saved.state().expect("it can be read"));
    let proposals = saved.entries.iter().filter_map(Proposal::of);
    let decided = proposals.filter_map(|it| match decode_exact(&it.payload) {
        Ok(Payload::Decided(command)) => Some(came_with(&command.change)),
        _ => None,
    });
    decided.fold(came_with_state(&state), u16::max)
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) disk: Disk,
    pub(crate) running: Option<Running>,
    /// Counts its starts, so that what was meant for one is not taken for another.
    pub(crate) life: u64,
    /// What others know its disk by.
    pub(crate) folder: FolderId,
    /// Its disk is gone for good.
    pub(crate) is_lost: bool,
    pub(crate) stands_still_until: Moment,
    /// Of its clock, in steps of an hour.
    pub(crate) clock_ahead_h: i64,
    /// At this write it loses power.
    pub(crate) dies_at: Option<u64>,
    pub(crate) sync_takes: [Duration; 2],
    /// The latest minor version that its build reads.
    pub(crate) reads: u16,
}

impl Node {
    pub(crate) fn of(saved: &Saved) -> Self {
        Self {
            disk: Disk::of(saved),
            running: None,
            life: 0,
            folder: FolderId(saved.member.0),
            is_lost: false,
            stands_still_until: Moment::default(),
            clock_ahead_h: 0,
            dies_at: None,
            sync_takes: [Duration::from_micros(100), Duration::from_millis(3)],
            reads: LATEST_MINOR,
        }
    }

    /// With what is on its disk, which a loss of power never damages.
    pub(crate) fn start(&mut self, timing: &Timing, policy: &Policy) {
        let saved = self.disk.read().expect("the disk only ever lost power");
        let (needs, reads) = (came_with_saved(&saved), self.reads);
        assert!(
            needs <= reads,
            "it reads 1.{reads}, and starts from 1.{needs}"
        );
        let replica = Replica::new(&saved, timing.clone()).expect("it goes on");
        self.life += 1;
        let state = saved.state().expect("it can be read");
        self.running = Some(Running::new(replica, policy, &state));
    }

    pub(crate) fn leads(&self) -> Option<u64> {
        match self.running.as_ref()?.replica.standing() {
            Standing::Leads { term } => Some(term),
            Standing::Follows { .. } => None,
        }
    }

    /// By the clock of this machine, which anybody may set.
    pub(crate) fn time_of_day(&self, now: Moment) -> Moment {
        let hours = self.clock_ahead_h.unsigned_abs();
        let jump = Duration::from_secs(3600 * hours);
        if self.clock_ahead_h < 0 {
            Moment::from_micros(now.as_micros().saturating_sub(jump.as_micros() as u64))
        } else {
            now + jump
        }
    }
}

/// Which way a message goes.
pub(crate) fn direction(message: &Message) -> (u64, u64) {
    let MemberId(from) = message.from;
    let MemberId(to) = message.to;
    (from, to)
}
