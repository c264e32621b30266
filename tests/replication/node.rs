//! One coordinator of the simulated cluster: its replica, its disk, and what it knows of clients.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_replica::{
    FolderId, MemberId, Message, ReadId, Replica, RequestId, Saved, Standing, Timing,
};

use crate::disk::Disk;
use crate::machine::Machine;

/// Who asked, and for which of its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asker {
    pub(crate) client: usize,
    pub(crate) attempt: u64,
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
    pub(crate) last_read: u64,
    /// What it proposed by itself in this term.
    pub(crate) proposed: u64,
    /// The latest moment it has given to a command.
    pub(crate) said: Moment,
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
        }
    }

    /// With what is on its disk, which a loss of power never damages.
    pub(crate) fn start(&mut self, timing: &Timing) {
        let saved = self.disk.read().expect("the disk only ever lost power");
        let replica = Replica::new(&saved, timing.clone()).expect("it goes on");
        self.life += 1;
        self.running = Some(Running {
            machine: Machine::decode(&saved.state().expect("it can be read")),
            replica,
            waiting: BTreeMap::new(),
            reads: BTreeMap::new(),
            last_read: 0,
            proposed: 0,
            said: Moment::default(),
        });
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
