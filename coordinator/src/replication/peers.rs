//! Messages between coordinators: each keeps a session to every other and sends over that. It receives over the
//! sessions that the others keep.
//!
//! Messages may be lost, and are dropped rather than sent late.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use reweave_common::error::error_chain;
use reweave_common::lock::lock;
use reweave_common::time_span::TimeSpan;
use reweave_link::{Backoff, Channel, Identity, LinkError, Role, Session, connect};
use reweave_proto::since_version::came_with;
use reweave_replica::{Answer, FolderId, Member, MemberId, Message, Welcome};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep};

use super::cluster::Cluster;
use super::engine::{Replication, Task};
use super::peer_messages::{PeerMessage, PeerMessageReceiver, Unheard};

/// Messages to one peer that have not been sent yet. There is never more in them than Raft has under
/// way to one peer.
const OUTBOX_LENGTH: usize = 256;
/// Clocks drift slowly, and are set rarely.
const HELLO_INTERVAL: Duration = Duration::from_secs(10);
/// The shortest interval between two attempts to reach a peer. The longest is twice that.
const RECONNECT_INTERVAL: TimeSpan = TimeSpan::from_millis(100);
/// A peer that ends a session sooner refuses it: the next attempts come less and less often.
const MIN_SESSION_TIME: Duration = Duration::from_secs(1);

/// Queues of messages to other coordinators.
#[derive(Debug, Clone, Default)]
pub(crate) struct Posts(Arc<Mutex<BTreeMap<MemberId, Arc<Post>>>>);

#[derive(Debug)]
struct Post {
    /// While the peer is reached.
    session: Mutex<Option<Arc<Session>>>,
    outbox: mpsc::Sender<PeerMessage>,
    /// A snapshot waits in the outbox, or is being sent.
    sends_snapshot: AtomicBool,
}

impl Posts {
    /// Sends a message. It is lost if there is no connection to its receiver.
    pub(crate) fn send(&self, message: Message) {
        let post = lock(&self.0).get(&message.to).cloned();
        if let Some(post) = post {
            post.send(PeerMessage::Replica(Box::new(message)));
        }
    }
}

impl Post {
    /// Short ones go at once: on a calm cluster most of the time that a decision takes is spent
    /// handing it on.
    fn send(&self, peer_message: PeerMessage) {
        let session = lock(&self.session).clone();
        let Some(session) = session else {
            return;
        };
        // It fits no packet, and to find that out it would be encoded, while Raft waits.
        if peer_message.is_large() {
            return self.enqueue(peer_message);
        }
        if let Ok(false) = session.send_loose(&peer_message) {
            self.enqueue(peer_message);
        }
    }

    /// What finds no place is lost, and so is a snapshot behind another one: Raft sends the next where none came for a while,
    /// and each is as long as the state.
    fn enqueue(&self, peer_message: PeerMessage) {
        let is_large = peer_message.is_large();
        if is_large && self.sends_snapshot.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.outbox.try_send(peer_message).is_err() && is_large {
            self.sends_snapshot.store(false, Ordering::Relaxed);
        }
    }
}

/// Keeps a way open to every other coordinator, for as long as there is a replica.
pub(crate) async fn keep_open(posts: Posts, own: Own, replication: Replication) {
    let mut cluster = own.cluster.clone();
    let mut lines = Lines {
        lines: BTreeMap::new(),
        posts,
        own,
        replication,
    };
    loop {
        lines.follow(&cluster.borrow_and_update().clone());
        if cluster.changed().await.is_err() {
            return;
        }
    }
}

/// This coordinator's identity for the others.
#[derive(Clone)]
pub(crate) struct Own {
    /// Renewed in time.
    pub(crate) identity: watch::Receiver<Identity>,
    pub(crate) folder: FolderId,
    /// The end of validity of this coordinator's signer, if it has one.
    pub(crate) signs_until: Option<SystemTime>,
    /// The cluster as far as this coordinator knows it, and its own state.
    pub(crate) cluster: watch::Receiver<Cluster>,
}

impl Own {
    /// The messages that introduce this coordinator and its state, as far as the peer's version has them.
    fn introduction(&mut self, session: &Session) -> Vec<PeerMessage> {
        let (id, disk_is_full) = {
            let cluster = self.cluster.borrow_and_update();
            (cluster.directory.own(), cluster.disk_is_full)
        };
        let number = (session.version() >= came_with(2)).then_some(PeerMessage::Number { id });
        let here = PeerMessage::here(self.folder, disk_is_full);
        let left_s = self.signs_until.map(|until| {
            let left = until.duration_since(SystemTime::now());
            left.unwrap_or_default().as_secs()
        });
        let signs = (session.version() >= came_with(1)).then_some(PeerMessage::Signs { left_s });
        [number, Some(here), signs].into_iter().flatten().collect()
    }
}

/// One line to each peer.
struct Lines {
    lines: BTreeMap<MemberId, Line>,
    posts: Posts,
    own: Own,
    replication: Replication,
}

struct Line {
    member: Member,
    task: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Lines {
    /// Opens sessions to new coordinators, and closes those to removed ones.
    fn follow(&mut self, cluster: &Cluster) {
        let peers: BTreeMap<_, _> = cluster.directory.peers().collect();
        self.lines
            .retain(|id, line| peers.get(id).is_some_and(|&member| line.leads_to(member)));
        lock(&self.posts.0).retain(|id, _| self.lines.contains_key(id));
        for (id, member) in peers {
            if !self.lines.contains_key(&id) {
                let line = self.line(id, member.clone());
                self.lines.insert(id, line);
            }
        }
    }

    fn line(&self, id: MemberId, member: Member) -> Line {
        let (outbox, peer_messages) = mpsc::channel(OUTBOX_LENGTH);
        let post = Arc::new(Post {
            session: Mutex::default(),
            outbox,
            sends_snapshot: AtomicBool::new(false),
        });
        lock(&self.posts.0).insert(id, Arc::clone(&post));
        let keeper = Keeper {
            id,
            member: member.clone(),
            post,
            own: self.own.clone(),
            replication: self.replication.clone(),
        };
        Line {
            member,
            task: tokio::spawn(keeper.keep(peer_messages)),
        }
    }
}

impl Line {
    fn leads_to(&self, member: &Member) -> bool {
        self.member.name == member.name && self.member.address == member.address
    }
}

/// Keeps one line up.
struct Keeper {
    id: MemberId,
    member: Member,
    post: Arc<Post>,
    own: Own,
    replication: Replication,
}

impl Keeper {
    async fn keep(self, mut peer_messages: mpsc::Receiver<PeerMessage>) {
        let mut reachable = true;
        let mut backoff = Backoff::default();
        loop {
            let began = Instant::now();
            let ended = match self.reach().await {
                Ok(session) => {
                    tracing::info!("coordinator {} is connected", self.member.name);
                    reachable = true;
                    let ended = self.speak(session, &mut peer_messages).await;
                    while peer_messages.try_recv().is_ok() {}
                    self.post.sends_snapshot.store(false, Ordering::Relaxed);
                    ended
                }
                Err(error) => error,
            };
            if let LinkError::Removed { .. } = ended {
                self.replication.put(Task::Removed { by: self.id });
            } else if reachable {
                tracing::warn!("coordinator {}: {}", self.member.name, error_chain(&ended));
            }
            reachable = false;
            self.replication.put(Task::Unreachable(self.id));
            let pause = RECONNECT_INTERVAL.scaled(1.0 + rand::random::<f64>()).get();
            if is_refusal(&ended) && began.elapsed() < MIN_SESSION_TIME {
                sleep(pause.max(backoff.next_delay(rand::random()))).await;
            } else {
                backoff.reset();
                sleep(pause).await;
            }
        }
    }

    /// Says who is here, and lets others speak, until that fails.
    async fn speak(
        &self,
        session: Session,
        peer_messages: &mut mpsc::Receiver<PeerMessage>,
    ) -> LinkError {
        let session = Arc::new(session);
        let mut own = self.own.clone();
        let introduction = own.introduction(&session);
        if let Err(error) = send_all(&session, introduction).await {
            return error;
        }
        *lock(&self.post.session) = Some(Arc::clone(&session));
        let ended = tokio::select! {
            ended = self.hand_on(&session, own, peer_messages) => ended,
            ended = self.hear_answers(&session) => ended,
            // The session also ends while the peer accepts no messages.
            error = session.revoked() => error,
            error = session.expired() => error,
        };
        *lock(&self.post.session) = None;
        ended
    }

    /// The members that the other coordinator has applied: it answers introductions with them. One that was added may lead,
    /// and the entry that added it may be missing here. An answer is not repeated, and the replica takes it only from a
    /// member that it has applied: the last one is put again whenever the cluster is another one here. Now and then, too, since
    /// a full queue drops it.
    async fn hear_answers(&self, session: &Session) -> LinkError {
        let mut answers = PeerMessageReceiver::new(session, Channel::Commands);
        let mut cluster = self.own.cluster.clone();
        let mut again = interval(HELLO_INTERVAL);
        let mut reported_members = None;
        loop {
            tokio::select! {
                answer = answers.receive() => match answer {
                    Ok(PeerMessage::Answer(Answer::Member { members, .. })) => {
                        reported_members = Some(members);
                    }
                    Ok(PeerMessage::Answer(Answer::Founding { folder })) => {
                        self.settle(folder);
                        continue;
                    }
                    Ok(_) => continue,
                    // Messages to it go on as long as there is a session.
                    Err(Unheard::Lost | Unheard::NoMessage) => return session.closed().await,
                },
                Ok(()) = cluster.changed() => {}
                _ = again.tick() => {}
            }
            if let Some(members) = &reported_members {
                self.replication
                    .put_reported_members(self.id, members.clone());
            }
        }
    }

    /// Records the folder of a new member that has no log yet, if this coordinator leads. The new member may not know that:
    /// its settings name the coordinators of some time before.
    fn settle(&self, folder: FolderId) {
        let welcome = {
            let cluster = self.own.cluster.borrow();
            let members = cluster.directory.members();
            members.welcome(&self.member.name, folder)
        };
        if let Welcome::Expected(id) = welcome {
            self.replication.put(Task::Settle { id, folder });
        }
    }

    /// What is too long to go at once, and now and then who is here. What comes after a snapshot waits until that is sent.
    async fn hand_on(
        &self,
        session: &Session,
        mut own: Own,
        peer_messages: &mut mpsc::Receiver<PeerMessage>,
    ) -> LinkError {
        let mut here = interval(HELLO_INTERVAL);
        here.reset();
        let mut is_reported = false;
        loop {
            let next = tokio::select! {
                biased;
                _ = here.tick() => own.introduction(session),
                Ok(()) = own.cluster.changed() => own.introduction(session),
                peer_message = peer_messages.recv() => match peer_message {
                    Some(peer_message) => vec![peer_message],
                    None => return LinkError::ChannelEnded,
                },
                error = session.closed() => return error,
            };
            let has_snapshot = next.iter().any(PeerMessage::is_large);
            match send_all(session, next).await {
                Ok(()) => {}
                // Raft sends it again and again.
                Err(LinkError::Unsendable(error)) => {
                    if !mem::replace(&mut is_reported, true) {
                        let name = &self.member.name;
                        tracing::error!("message to {name} not sent: {}", error_chain(&error));
                    }
                }
                Err(error) => return error,
            }
            if has_snapshot {
                self.post.sends_snapshot.store(false, Ordering::Relaxed);
            }
        }
    }

    async fn reach(&self) -> Result<Session, LinkError> {
        let address = [self.member.address];
        let ours = self.own.identity.borrow().clone();
        let session = connect(&address, &ours, Role::Coordinator).await?;
        if session.peer().name == self.member.name {
            return Ok(session);
        }
        let found = session.peer().name.clone();
        tracing::warn!(
            "{} is coordinator {found}, expected {}",
            self.member.address,
            self.member.name
        );
        session.close("another coordinator was expected").await;
        Err(LinkError::ChannelEnded)
    }
}

/// Whether the peer has ended the session, or is another one than expected.
fn is_refusal(ended: &LinkError) -> bool {
    matches!(
        ended,
        LinkError::ClosedByPeer { .. } | LinkError::Removed { .. } | LinkError::ChannelEnded
    )
}

async fn send_all(session: &Session, peer_messages: Vec<PeerMessage>) -> Result<(), LinkError> {
    for peer_message in peer_messages {
        peer_message.send(session).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use reweave_replica::Kind;

    use super::*;

    fn post(places: usize) -> (Post, mpsc::Receiver<PeerMessage>) {
        let (outbox, peer_messages) = mpsc::channel(places);
        let post = Post {
            session: Mutex::default(),
            outbox,
            sends_snapshot: AtomicBool::new(false),
        };
        (post, peer_messages)
    }

    fn enqueue(post: &Post, kind: Kind) {
        let message = Message::new(kind, [MemberId(1), MemberId(2)], 1);
        post.enqueue(PeerMessage::Replica(Box::new(message)));
    }

    fn waiting(mut peer_messages: mpsc::Receiver<PeerMessage>) -> Vec<Kind> {
        let mut kinds = Vec::new();
        while let Ok(PeerMessage::Replica(message)) = peer_messages.try_recv() {
            kinds.push(message.kind);
        }
        kinds
    }

    /// Checks that one snapshot at most waits for a peer: it is as long as the state, and a slow connection takes
    /// longer than Raft's timeout.
    #[test]
    fn one_snapshot_waits_per_peer() {
        let (post, peer_messages) = post(4);
        for kind in [Kind::Snapshot, Kind::Snapshot, Kind::Append] {
            enqueue(&post, kind);
        }
        assert_eq!(waiting(peer_messages), [Kind::Snapshot, Kind::Append]);
    }

    #[test]
    fn lost_snapshot_leaves_its_place() {
        let (post, mut peer_messages) = post(1);
        enqueue(&post, Kind::Append);
        enqueue(&post, Kind::Snapshot);
        assert!(peer_messages.try_recv().is_ok());
        enqueue(&post, Kind::Snapshot);
        assert_eq!(waiting(peer_messages), [Kind::Snapshot]);
    }
}
