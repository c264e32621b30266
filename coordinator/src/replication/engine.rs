//! The loop around the replica: tasks and ticks in, and its effects executed in order. [`DurableReplica`] handles a
//! disk that fails or is full.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use reweave_common::error::error_chain;
use reweave_common::operator::{MemberOrder, Refused};
use reweave_link::durable_files::replace;
use reweave_replica::{
    Applied, Batch, Change, DurableReplica, Effect, FolderId, LogError, MemberId, Members, Message,
    Persisted, ProposalRefused, ReadId, RequestId, Saved, Standing, Status, Timing,
};
use tokio::sync::{oneshot, watch};

use super::cluster::{Cluster, Directory};
use super::disk::LocalDisk;
use super::members::Orders;
use super::peer_status::PeerStatus;
use super::peers::Posts;
use super::raft_metrics::{RaftCounts, RaftMetrics};
use super::store::Store;
use super::{Outcome, REMOVED_FILE, ReplicationError};
use crate::intake::Intake;

/// What [`Timing`] counts in.
const TICK_INTERVAL: Duration = Duration::from_millis(10);
/// This many tasks are taken together, and what follows from them is written at once.
const MAX_TASKS_PER_BATCH: usize = 256;
/// How far the log had come is synced this often: with each entry it would cost a second write to disk per decision.
const REACHED_SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Messages of peers that wait; more are as good as lost.
const MAX_QUEUED_MESSAGES: usize = 4096;

#[derive(Debug)]
pub(crate) enum Task {
    Message(Message),
    /// The number is not known here. The variant carries what the certificate says and the folder that the peer
    /// showed.
    Unadmitted {
        message: Message,
        name: String,
        folder: FolderId,
    },
    /// The members that this one has applied, as it says over a session of its own.
    Vouched {
        by: MemberId,
        members: Members,
    },
    Unreachable(MemberId),
    /// That member says that this coordinator was removed.
    Removed {
        by: MemberId,
    },
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
    /// A joining coordinator has shown its folder.
    Settle {
        id: MemberId,
        folder: FolderId,
    },
    Status {
        reply: oneshot::Sender<Status>,
    },
    End,
}

/// The handle to the replica. It never waits, since the replica's loop has to go on.
#[derive(Debug, Clone)]
pub(crate) struct Replication {
    tasks: mpsc::Sender<Task>,
    messages: Arc<AtomicUsize>,
    raft_metrics: RaftMetrics,
}

impl Replication {
    pub(crate) fn raft_counts(&self) -> RaftCounts {
        self.raft_metrics.counts()
    }

    /// None when the replica is gone.
    pub(crate) async fn status(&self) -> Option<Status> {
        let (reply, status) = oneshot::channel();
        self.put(Task::Status { reply });
        status.await.ok()
    }

    /// A replica that is gone needs nothing any longer.
    pub(crate) fn put(&self, task: Task) {
        let _ = self.tasks.send(task);
    }

    pub(crate) fn put_message(&self, message: Message) {
        self.put_counted(Task::Message(message));
    }

    pub(crate) fn put_unadmitted(&self, message: Message, name: String, folder: FolderId) {
        self.put_counted(Task::Unadmitted {
            message,
            name,
            folder,
        });
    }

    pub(crate) fn put_reported_members(&self, by: MemberId, members: Members) {
        self.put_counted(Task::Vouched { by, members });
    }

    fn put_counted(&self, task: Task) {
        if self.messages.fetch_add(1, Ordering::Relaxed) < MAX_QUEUED_MESSAGES {
            self.put(task);
        } else {
            self.messages.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The engine's outputs.
pub(crate) struct Outlets {
    pub(crate) intake: Intake,
    pub(crate) posts: Posts,
    pub(crate) cluster: watch::Sender<Cluster>,
    pub(crate) peer_status: PeerStatus,
}

pub(crate) struct Engine {
    durable: DurableReplica<LocalDisk>,
    reached_synced: Instant,
    directory: Directory,
    tasks: mpsc::Receiver<Task>,
    messages: Arc<AtomicUsize>,
    raft_metrics: RaftMetrics,
    outlets: Outlets,
    /// What operators want and wait for.
    orders: Orders,
    /// The last published state of the disk.
    disk_is_full: bool,
    /// The last write is repeated until the disk has room for it.
    waits_for_room: bool,
    /// All parts learn the standing. The leader's event loop learns it first, so that it is ready when a client
    /// connects.
    standing: Standing,
    /// The last status sent to the event loop.
    may_decide: bool,
}

impl Engine {
    /// What is known at once goes to `outlets` too: a coordinator that is the only one leads from here on.
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
        let durable = DurableReplica::new(saved, timing, store).map_err(ReplicationError::Start)?;
        let (sender, tasks) = mpsc::channel();
        let messages = Arc::new(AtomicUsize::new(0));
        let replication = Replication {
            tasks: sender,
            messages: Arc::clone(&messages),
            raft_metrics: RaftMetrics::default(),
        };
        // A single coordinator is elected before the first tick.
        let before = saved.vote.term.max(saved.snapshot.term);
        replication.raft_metrics.note_term(before);
        let mut engine = Self {
            standing: Standing::Follows { leader: None },
            durable,
            reached_synced: Instant::now(),
            directory,
            tasks,
            messages,
            raft_metrics: replication.raft_metrics.clone(),
            outlets,
            orders: Orders::default(),
            disk_is_full: false,
            waits_for_room: false,
            may_decide: true,
        };
        let full = engine.outlets.peer_status.full();
        engine.durable.look_at_disk(&full);
        engine.follow_disk();
        engine.publish();
        engine.carry_out()?;
        Ok((engine, replication))
    }

    /// Runs until [`Task::End`], or until it is unsafe to go on. The event loop learns of the latter.
    pub(crate) fn run(mut self) {
        let intake = self.outlets.intake.clone();
        let mut last_words = LastWords(Some((intake, ReplicationError::Died)));
        let outcome = self.serve();
        last_words.0 = None;
        if let Err(error) = outcome {
            self.send_outcome(Outcome::Failed(error));
        }
    }

    fn serve(&mut self) -> Result<(), ReplicationError> {
        let mut next_tick = Instant::now() + TICK_INTERVAL;
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
                self.tick();
                self.finish_compaction()?;
                // After a stall, missed ticks are not made up for.
                next_tick = (next_tick + TICK_INTERVAL).max(now);
            }
            let carried_out = self.carry_out();
            if let Some(warning) = self.durable.store_mut().take_warning() {
                tracing::warn!("{}", error_chain(&warning));
            }
            carried_out?;
        }
    }

    fn tick(&mut self) {
        self.durable.handle_tick(|| self.outlets.peer_status.full());
        self.raft_metrics.note_term(self.durable.replica().term());
        self.follow_disk();
        // Ticks come late where there is much to do.
        if self.reached_synced.elapsed() >= REACHED_SYNC_INTERVAL {
            self.durable.store_mut().sync_reached();
            self.reached_synced = Instant::now();
        }
    }

    /// Publishes a change of the disk's state.
    fn follow_disk(&mut self) {
        let is_full = self.durable.disk_is_full();
        if is_full != self.disk_is_full {
            self.disk_is_full = is_full;
            self.publish();
            let folder = self.durable.store().folder().display();
            if is_full {
                tracing::error!("the disk is full: no decisions until {folder} has free space");
            } else {
                tracing::info!("{folder} has free space again");
            }
        }
        let may_decide = self.durable.may_decide();
        if may_decide != self.may_decide {
            self.may_decide = may_decide;
            let is_full = !may_decide;
            self.send_outcome(Outcome::Disk { is_full });
        }
    }

    /// Everything that waits, up to a bound; whether it was to end.
    fn take_all(&mut self, first: Task) -> Result<bool, ReplicationError> {
        let mut next = Some(first);
        for _ in 0..MAX_TASKS_PER_BATCH {
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
                self.durable.handle_message(message)?;
            }
            Task::Unadmitted {
                message,
                name,
                folder,
            } => {
                self.messages.fetch_sub(1, Ordering::Relaxed);
                let replica = self.durable.replica();
                if replica.expects(message.from, &name, folder) {
                    self.durable.handle_message(message)?;
                }
            }
            Task::Vouched { by, members } => {
                self.messages.fetch_sub(1, Ordering::Relaxed);
                self.durable
                    .replica_mut()
                    .handle_reported_members(by, members);
            }
            Task::Unreachable(peer) => self.durable.replica_mut().handle_unreachable(peer),
            Task::Removed { by } => self.believe_removal(by)?,
            Task::Propose { request, payload } => self.propose(request, payload),
            Task::Read(read) => {
                if self.durable.replica_mut().read(read).is_err() {
                    self.send_outcome(Outcome::ReadLost(read));
                }
            }
            Task::Snapshot { index, state } => {
                let made = self.durable.replica_mut().handle_snapshot(index, state);
                if let Err(error) = made {
                    tracing::error!("log compaction failed: {}", error_chain(&error));
                }
            }
            Task::CompactTo { index } => self.durable.replica_mut().compact_to(index),
            Task::Change { reply, .. } if !self.may_decide => {
                let _ = reply.send(Err(Refused::DiskFull));
            }
            Task::Change { order, reply } => {
                self.orders.take(self.durable.replica_mut(), &order, reply);
            }
            // It asks again until it is done.
            Task::Settle { id, folder } => {
                let settle = Change::Settle { id, folder };
                let _ = self.durable.replica_mut().change(&settle);
            }
            // A caller that no longer waits needs no answer.
            Task::Status { reply } => drop(reply.send(self.durable.replica().status())),
            Task::End => {}
        }
        Ok(())
    }

    /// The entry that removes this coordinator never comes here: the others send it nothing any more. A member has it from
    /// its own applied entries, so one is enough.
    fn believe_removal(&self, by: MemberId) -> Result<(), ReplicationError> {
        if self.durable.replica().members().of.contains_key(&by) {
            return Err(self.taken_out());
        }
        Ok(())
    }

    /// The next start learns of it from the folder.
    fn taken_out(&self) -> ReplicationError {
        let id = self.durable.replica().id();
        let path = self.durable.store().folder().join(REMOVED_FILE);
        if let Err(error) = replace(&path, format!("{id}\n").as_bytes()) {
            tracing::warn!("cannot write {}: {error}", path.display());
        }
        ReplicationError::TakenOut { id }
    }

    /// A core would wait for ever for what was refused, and decide nothing else. The next leader decides again.
    fn propose(&mut self, request: RequestId, payload: Vec<u8>) {
        match self.durable.replica_mut().propose(request, payload) {
            // A replica that leads no more says so by itself.
            Ok(()) | Err(ProposalRefused::NotLeading(_)) => {}
            Err(error @ ProposalRefused::Oversized { .. }) => {
                tracing::error!("stepping down as leader: {}", error_chain(&error));
                self.durable.replica_mut().stop_leading();
            }
        }
    }

    fn persist(&mut self, batch: Batch) -> Result<(), ReplicationError> {
        let (began, is_whole) = (Instant::now(), batch.is_whole);
        match self.durable.persist(batch)? {
            Persisted::Written => {
                if mem::take(&mut self.waits_for_room) {
                    tracing::info!("writes go on: the disk has free space");
                }
                self.raft_metrics.note_write(began.elapsed());
                if is_whole {
                    self.raft_metrics.note_snapshot();
                }
            }
            Persisted::Waiting(error) => {
                if !mem::replace(&mut self.waits_for_room, true) {
                    tracing::error!("writes wait for free space: {}", error_chain(&error));
                }
            }
        }
        Ok(())
    }

    fn compact(&mut self, whole: Batch) {
        if let Err(error) = self.durable.compact(whole) {
            tracing::warn!("log compaction failed: {}", error_chain(&error));
        }
    }

    fn finish_compaction(&mut self) -> Result<(), ReplicationError> {
        match self.durable.poll_compaction() {
            Ok(false) => {}
            Ok(true) => self.raft_metrics.note_snapshot(),
            Err(error @ LogError::NoRoom { .. }) => {
                tracing::warn!("log compaction failed: {}", error_chain(&error));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn carry_out(&mut self) -> Result<(), ReplicationError> {
        while let Some(effect) = self.durable.poll_effect() {
            self.carry_out_one(effect)?;
        }
        Ok(())
    }

    fn carry_out_one(&mut self, effect: Effect) -> Result<(), ReplicationError> {
        match effect {
            Effect::Send(message) => self.outlets.posts.send(message),
            Effect::Persist(batch) => self.persist(batch)?,
            Effect::Compact(whole) => self.compact(whole),
            Effect::Apply(Applied { index, payload, .. }) => {
                self.send_outcome(Outcome::Applied { index, payload });
            }
            // The event loop proposes nothing twice.
            Effect::Repeated(_) => {}
            Effect::Restore { state, .. } => self.send_outcome(Outcome::Restored { state }),
            Effect::TakeSnapshot { index } => self.send_outcome(Outcome::TakeSnapshot { index }),
            Effect::ReadReady(read) => self.send_outcome(Outcome::ReadReady(read)),
            Effect::ReadLost(read) => self.send_outcome(Outcome::ReadLost(read)),
            Effect::Stands(standing) => self.stand(standing),
            Effect::Membership(members) => {
                self.publish();
                self.orders.settle(self.durable.replica());
                let id = self.durable.replica().id();
                if !members.of.is_empty() && !members.of.contains_key(&id) {
                    return Err(self.taken_out());
                }
            }
            Effect::PendingMembers(pending_members) => {
                self.directory.set_pending_members(pending_members);
                self.publish();
            }
            Effect::Unreadable { index } => return Err(ReplicationError::Unreadable { index }),
        }
        Ok(())
    }

    /// A member that is no longer admitted, and asks where to go, finds out before the event loop ends its session.
    fn stand(&mut self, standing: Standing) {
        let leads = matches!(standing, Standing::Leads { .. });
        if leads {
            self.send_outcome(Outcome::Stands(standing));
        }
        self.standing = standing;
        self.publish();
        self.orders.stand(standing);
        if !leads {
            self.send_outcome(Outcome::Stands(standing));
        }
    }

    fn publish(&mut self) {
        self.directory.learn(self.durable.replica().members());
        self.outlets.cluster.send_replace(Cluster {
            standing: self.standing,
            disk_is_full: self.disk_is_full,
            directory: self.directory.clone(),
        });
    }

    /// An event loop that has ended needs no notification.
    fn send_outcome(&self, outcome: Outcome) {
        let _ = self.outlets.intake.put_outcome(outcome);
    }

    /// Makes every further write to the log fail.
    #[cfg(test)]
    pub(crate) fn break_down(&mut self) {
        let store = self.durable.store_mut();
        let readable = std::fs::File::open(store.folder().join("log")).unwrap();
        *store.file_mut() = readable;
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
