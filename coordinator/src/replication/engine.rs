//! The loop around the replica: tasks and ticks in, and its effects carried out in order.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use reweave_common::error::told;
use reweave_common::operator::{MemberOrder, Refused};
use reweave_replica::{
    Applied, Batch, Change, Effect, FolderId, Kind, MemberId, Message, ReadId, Replica, RequestId,
    Saved, Standing, Status, Timing,
};
use tokio::sync::{oneshot, watch};

use super::acquaintances::Acquaintances;
use super::cluster::{Cluster, Directory};
use super::members::Orders;
use super::peers::Posts;
use super::pulse::{Pulse, Wrist};
use super::store::{LogError, Store};
use super::{Outcome, ReplicationError};
use crate::intake::Intake;

/// What [`Timing`] counts in.
const TICK: Duration = Duration::from_millis(10);
/// So many tasks are taken together, and what follows from them is written at once.
const MOST_TASKS: usize = 256;
/// In ticks, how often the disk is looked at.
const LOOK_AT_DISK_EVERY: u32 = 100;
/// Messages of peers that wait; more are as good as lost.
const MOST_MESSAGES: usize = 4096;

#[derive(Debug)]
pub(crate) enum Task {
    Message(Message),
    Unreachable(MemberId),
    Propose {
        request: RequestId,
        payload: Vec<u8>,
    },
    Read(ReadId),
    Snapshot {
        index: u64,
        state: Vec<u8>,
    },
    /// The file is to begin with a snapshot of this entry or a later one.
    CompactTo {
        index: u64,
    },
    /// An operator wants other members.
    Change {
        order: MemberOrder,
        reply: oneshot::Sender<Result<Status, Refused>>,
    },
    /// A newcomer has shown its folder.
    Settle {
        id: MemberId,
        folder: FolderId,
    },
    Status {
        reply: oneshot::Sender<Status>,
    },
    End,
}

/// How others reach the replica. Nobody waits here: its loop has to go on.
#[derive(Debug, Clone)]
pub(crate) struct Replication {
    tasks: mpsc::Sender<Task>,
    messages: Arc<AtomicUsize>,
    wrist: Wrist,
}

impl Replication {
    pub(crate) fn pulse(&self) -> Pulse {
        self.wrist.pulse()
    }

    /// None when the replica is gone.
    pub(crate) async fn status(&self) -> Option<Status> {
        let (reply, status) = oneshot::channel();
        self.put(Task::Status { reply });
        status.await.ok()
    }

    /// A replica that is gone needs nothing any more.
    pub(crate) fn put(&self, task: Task) {
        let _ = self.tasks.send(task);
    }

    pub(crate) fn put_message(&self, message: Message) {
        if self.messages.fetch_add(1, Ordering::Relaxed) < MOST_MESSAGES {
            self.put(Task::Message(message));
        } else {
            self.messages.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What the engine tells others.
pub(crate) struct Outlets {
    pub(crate) intake: Intake,
    pub(crate) posts: Posts,
    pub(crate) cluster: watch::Sender<Cluster>,
    pub(crate) acquaintances: Acquaintances,
}

pub(crate) struct Engine {
    replica: Replica,
    store: Store,
    directory: Directory,
    tasks: mpsc::Receiver<Task>,
    messages: Arc<AtomicUsize>,
    wrist: Wrist,
    outlets: Outlets,
    /// What operators want and wait for.
    orders: Orders,
    ticks: u32,
    disk_is_full: bool,
    /// All there is, as the leader has sent it: the disk had no room for that.
    waiting: Option<Batch>,
    /// A newer snapshot came while the file was made to begin with the one before.
    is_outdated: bool,
    /// As everybody is told, the drive first where it leads: whoever comes then finds it ready.
    standing: Standing,
    /// What the drive was told last.
    may_decide: bool,
}

impl Engine {
    /// What is known at once goes to `outlets` too: whoever is the only one leads from here on.
    pub(crate) fn start(
        saved: &Saved,
        store: Store,
        directory: Directory,
        outlets: Outlets,
    ) -> Result<(Self, Replication), ReplicationError> {
        let timing = Timing {
            seed: rand::random(),
            ..Timing::default()
        };
        let replica = Replica::new(saved, timing).map_err(ReplicationError::Start)?;
        let (sender, tasks) = mpsc::channel();
        let messages = Arc::new(AtomicUsize::new(0));
        let replication = Replication {
            tasks: sender,
            messages: Arc::clone(&messages),
            wrist: Wrist::default(),
        };
        // Whoever is alone is elected before anything ticks.
        let before = saved.vote.term.max(saved.snapshot.term);
        replication.wrist.note_term(before);
        let mut engine = Self {
            standing: Standing::Follows { leader: None },
            replica,
            store,
            directory,
            tasks,
            messages,
            wrist: replication.wrist.clone(),
            outlets,
            orders: Orders::default(),
            ticks: 0,
            disk_is_full: false,
            waiting: None,
            is_outdated: false,
            may_decide: true,
        };
        engine.look_at_disk();
        engine.publish();
        engine.carry_out()?;
        Ok((engine, replication))
    }

    /// Until [`Task::End`], or until something is wrong that makes it unsafe to go on, of which the
    /// drive is told.
    pub(crate) fn run(mut self) {
        let intake = self.outlets.intake.clone();
        let mut last_words = LastWords(Some((intake, ReplicationError::Died)));
        let outcome = self.serve();
        last_words.0 = None;
        if let Err(error) = outcome {
            self.tell(Outcome::Failed(error));
        }
    }

    fn serve(&mut self) -> Result<(), ReplicationError> {
        let mut next_tick = Instant::now() + TICK;
        loop {
            let left = next_tick.saturating_duration_since(Instant::now());
            match self.tasks.recv_timeout(left) {
                Ok(task) => {
                    if self.take_all(task)? {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            let now = Instant::now();
            if now >= next_tick {
                self.tick()?;
                self.finish_compaction()?;
                // Whoever stood still for a while does not make up for it.
                next_tick = (next_tick + TICK).max(now);
            }
            self.carry_out()?;
        }
    }

    /// Raft may neither campaign nor hear anything between a snapshot and its being written.
    fn tick(&mut self) -> Result<(), ReplicationError> {
        if self.waiting.is_none() {
            self.replica.handle_tick();
        }
        self.wrist.note_term(self.replica.term());
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(LOOK_AT_DISK_EVERY) {
            self.look_at_disk();
            self.waiting.take().map_or(Ok(()), |it| self.persist(it))?;
        }
        Ok(())
    }

    /// Whoever has no room leaves it to others to lead.
    fn look_at_disk(&mut self) {
        let is_full = self.store.look_for_room();
        if is_full != self.disk_is_full {
            self.disk_is_full = is_full;
            self.publish();
            let folder = self.store.folder().display();
            match is_full {
                true => tracing::error!(
                    "the disk is full: nothing is decided here until there is room in {folder}"
                ),
                false => tracing::info!("there is room in {folder} again"),
            }
        }
        if is_full {
            self.replica.resign(&self.outlets.acquaintances.full());
        }
        let may_decide = !is_full && self.enough_have_room();
        if may_decide != self.may_decide {
            self.may_decide = may_decide;
            let is_full = !may_decide;
            self.tell(Outcome::Disk { is_full });
        }
    }

    /// Whether as many have room, as far as they have said, as have to write down what is decided.
    fn enough_have_room(&self) -> bool {
        let full = self.outlets.acquaintances.full();
        let voters = &self.replica.members().configuration.voters;
        let without = voters.iter().filter(|id| full.contains(id)).count();
        without <= voters.len().saturating_sub(1) / 2
    }

    /// Everything that waits, up to a bound; whether it was to end.
    fn take_all(&mut self, first: Task) -> Result<bool, ReplicationError> {
        let mut next = Some(first);
        for _ in 0..MOST_TASKS {
            match next {
                Some(Task::End) => return Ok(true),
                Some(task) => self.take(task)?,
                None => break,
            }
            next = self.tasks.try_recv().ok();
        }
        Ok(false)
    }

    fn take(&mut self, task: Task) -> Result<(), ReplicationError> {
        match task {
            Task::Message(message) => {
                self.messages.fetch_sub(1, Ordering::Relaxed);
                // What there is no room for is as good as lost on its way.
                let has_room = !self.disk_is_full || self.finds_room(&message);
                if has_room && self.waiting.is_none() {
                    self.replica.handle_message(message)?;
                }
            }
            Task::Unreachable(peer) => self.replica.handle_unreachable(peer),
            // Whoever does not lead any more is told so by itself.
            Task::Propose { request, payload } => drop(self.replica.propose(request, payload)),
            Task::Read(read) => {
                if self.replica.read(read).is_err() {
                    self.tell(Outcome::ReadLost(read));
                }
            }
            Task::Snapshot { index, state } => self.replica.handle_snapshot(index, state),
            Task::CompactTo { index } => self.replica.compact_to(index),
            Task::Change { reply, .. } if !self.may_decide => {
                let _ = reply.send(Err(Refused::DiskFull));
            }
            Task::Change { order, reply } => self.orders.take(&mut self.replica, &order, reply),
            // It asks again until it is done.
            Task::Settle { id, folder } => {
                let _ = self.replica.change(&Change::Settle { id, folder });
            }
            // Whoever has stopped waiting needs no answer.
            Task::Status { reply } => drop(reply.send(self.replica.status())),
            Task::End => {}
        }
        Ok(())
    }

    /// Elections go on, with a few entries of whoever is elected.
    fn finds_room(&self, message: &Message) -> bool {
        match message.kind {
            Kind::Append => message.entries.is_empty() || self.store.spares_some(),
            // Whoever leads decides things.
            Kind::Snapshot | Kind::TimeoutNow => false,
            _ => true,
        }
    }

    fn persist(&mut self, batch: Batch) -> Result<(), ReplicationError> {
        let (began, is_whole) = (Instant::now(), batch.is_whole);
        if self.replica.is_compacting() {
            // Nothing waits for that: the longer file holds the same.
            match self.store.start_compaction(batch) {
                Ok(has_begun) => self.is_outdated = !has_begun,
                Err(error) => tracing::warn!("the log is not made shorter: {}", told(&error)),
            }
        } else {
            match self.store.persist(&batch) {
                // The log is as it was, and nobody was told that it is another.
                Err(error @ LogError::NoRoom { .. }) => {
                    tracing::error!("what the leader has sent waits: {}", told(&error));
                    self.waiting = Some(batch);
                    return Ok(());
                }
                outcome => outcome?,
            }
            self.wrist.note_write(began.elapsed());
            if is_whole {
                self.wrist.note_snapshot();
            }
        }
        self.replica.handle_durable();
        Ok(())
    }

    fn finish_compaction(&mut self) -> Result<(), ReplicationError> {
        match self.store.poll_compaction() {
            Ok(false) => {}
            Ok(true) => {
                self.wrist.note_snapshot();
                if mem::take(&mut self.is_outdated) {
                    self.replica.write_anew();
                }
            }
            Err(error @ LogError::NoRoom { .. }) => {
                tracing::warn!("the log is not made shorter: {}", told(&error));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn carry_out(&mut self) -> Result<(), ReplicationError> {
        while let Some(effect) = self.replica.poll_effect() {
            self.carry_out_one(effect)?;
        }
        Ok(())
    }

    fn carry_out_one(&mut self, effect: Effect) -> Result<(), ReplicationError> {
        match effect {
            Effect::Send(message) => self.outlets.posts.send(message),
            Effect::Persist(batch) => self.persist(batch)?,
            Effect::Apply(Applied { index, payload, .. }) => {
                self.store.acknowledge(index);
                self.tell(Outcome::Applied { index, payload });
            }
            // The drive proposes nothing twice.
            Effect::Repeated(_) => {}
            Effect::Restore { state, .. } => self.tell(Outcome::Restored { state }),
            Effect::TakeSnapshot { index } => self.tell(Outcome::TakeSnapshot { index }),
            Effect::ReadReady(read) => self.tell(Outcome::ReadReady(read)),
            Effect::ReadLost(read) => self.tell(Outcome::ReadLost(read)),
            Effect::Stands(standing) => self.stand(standing),
            Effect::Membership(members) => {
                self.publish();
                self.orders.settle(&self.replica);
                let id = self.replica.id();
                if !members.of.is_empty() && !members.of.contains_key(&id) {
                    return Err(ReplicationError::TakenOut { id });
                }
            }
            Effect::Unreadable { index } => return Err(ReplicationError::Unreadable { index }),
        }
        Ok(())
    }

    /// Whoever is not let in any more, and asks where to go, finds out before the drive ends its session.
    fn stand(&mut self, standing: Standing) {
        let leads = matches!(standing, Standing::Leads { .. });
        if leads {
            self.tell(Outcome::Stands(standing));
        }
        self.standing = standing;
        self.publish();
        self.orders.stand(standing);
        if !leads {
            self.tell(Outcome::Stands(standing));
        }
    }

    fn publish(&mut self) {
        self.directory.learn(self.replica.members());
        self.outlets.cluster.send_replace(Cluster {
            standing: self.standing,
            disk_is_full: self.disk_is_full,
            directory: self.directory.clone(),
        });
    }

    /// A drive that is gone needs no telling.
    fn tell(&self, outcome: Outcome) {
        let _ = self.outlets.intake.put_outcome(outcome);
    }

    #[cfg(test)]
    pub(crate) fn break_down(&mut self) {
        self.store.break_down();
    }
}

/// Said when the thread ends without having said anything.
struct LastWords(Option<(Intake, ReplicationError)>);

impl Drop for LastWords {
    fn drop(&mut self) {
        if let Some((intake, error)) = self.0.take() {
            let _ = intake.put_outcome(Outcome::Failed(error));
        }
    }
}

#[cfg(test)]
mod tests;
