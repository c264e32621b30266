//! Messages between coordinators: each keeps a session of its own to every other, and sends over
//! that; what it hears comes over those that the others keep.
//!
//! Messages may be lost, and are rather lost than late.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::error::told;
use reweave_link::{Channel, Identity, LinkError, Role, Session, connect};
use reweave_proto::message::PeerPart;
use reweave_replica::{Kind, Member, MemberId, Message};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::cluster::Cluster;
use super::engine::{Replication, Task};

/// Messages for one peer that have not been sent yet.
const OUTBOX: usize = 256;
/// A message is sent in parts, each well below what a frame may hold.
const PART_BYTES: usize = 256 << 10;
/// No snapshot is larger.
const MOST_BYTES: usize = 64 << 20;
/// From one attempt to reach a peer to the next, and up to twice that.
const PAUSE: Duration = Duration::from_millis(100);

/// Delivers what the replica sends, for as long as there is one.
pub(crate) async fn carry_posts(
    mut posts: mpsc::UnboundedReceiver<Message>,
    mut cluster: watch::Receiver<Cluster>,
    identity: watch::Receiver<Identity>,
    replication: Replication,
) {
    let mut lines = Lines {
        lines: BTreeMap::new(),
        identity,
        replication,
    };
    lines.follow(&cluster.borrow_and_update().clone());
    loop {
        tokio::select! {
            changed = cluster.changed() => {
                if changed.is_err() {
                    return;
                }
                lines.follow(&cluster.borrow_and_update().clone());
            }
            post = posts.recv() => match post {
                Some(message) => lines.send(message),
                None => return,
            },
        }
    }
}

/// One line to each peer.
struct Lines {
    lines: BTreeMap<MemberId, Line>,
    /// Renewed in time.
    identity: watch::Receiver<Identity>,
    replication: Replication,
}

struct Line {
    member: Member,
    outbox: mpsc::Sender<Message>,
    task: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Lines {
    /// Whoever is new gets a line, whoever is gone loses it.
    fn follow(&mut self, cluster: &Cluster) {
        let peers: BTreeMap<_, _> = cluster.directory.peers().collect();
        self.lines
            .retain(|id, line| peers.get(id).is_some_and(|&member| line.leads_to(member)));
        for (id, member) in peers {
            if !self.lines.contains_key(&id) {
                let line = self.line(id, member.clone());
                self.lines.insert(id, line);
            }
        }
    }

    fn line(&self, id: MemberId, member: Member) -> Line {
        let (outbox, messages) = mpsc::channel(OUTBOX);
        let keeper = Keeper {
            id,
            member: member.clone(),
            identity: self.identity.clone(),
            replication: self.replication.clone(),
        };
        Line {
            member,
            outbox,
            task: tokio::spawn(keeper.keep(messages)),
        }
    }

    fn send(&self, message: Message) {
        if let Some(line) = self.lines.get(&message.to) {
            // What finds no place is lost.
            let _ = line.outbox.try_send(message);
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
    identity: watch::Receiver<Identity>,
    replication: Replication,
}

impl Keeper {
    async fn keep(self, mut messages: mpsc::Receiver<Message>) {
        let mut reachable = true;
        loop {
            let ended = match self.reach().await {
                Ok(session) => {
                    tracing::info!("coordinator {} is there", self.member.name);
                    reachable = true;
                    while messages.try_recv().is_ok() {}
                    speak(&session, &mut messages).await
                }
                Err(error) => error,
            };
            if reachable {
                tracing::warn!("coordinator {}: {}", self.member.name, told(&ended));
            }
            reachable = false;
            self.replication.put(Task::Unreachable(self.id));
            sleep(PAUSE.mul_f64(1.0 + rand::random::<f64>())).await;
        }
    }

    async fn reach(&self) -> Result<Session, LinkError> {
        let address = [self.member.address];
        let ours = self.identity.borrow().clone();
        let session = connect(&address, &ours, Role::Coordinator).await?;
        if session.peer().name == self.member.name {
            return Ok(session);
        }
        let found = session.peer().name.clone();
        tracing::warn!(
            "at {} is coordinator {found}, and {} was to be there",
            self.member.address,
            self.member.name
        );
        session.close("another coordinator was to be there").await;
        Err(LinkError::ChannelEnded)
    }
}

/// Sends until that fails. What is large goes beside what is urgent.
async fn speak(session: &Session, messages: &mut mpsc::Receiver<Message>) -> LinkError {
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            error = session.closed() => return error,
            error = session.shut_out() => return error,
        };
        let Some(message) = message else {
            return LinkError::ChannelEnded;
        };
        if let Err(error) = send(session, &message).await {
            return error;
        }
    }
}

async fn send(session: &Session, message: &Message) -> Result<(), LinkError> {
    let channel = match message.kind {
        Kind::Snapshot => Channel::Telemetry,
        _ => Channel::Commands,
    };
    // Writing to memory does not fail.
    let bytes = postcard::to_stdvec(message).unwrap_or_default();
    let parts = bytes.chunks(PART_BYTES);
    let count = parts.len();
    for (number, part) in parts.enumerate() {
        let part = PeerPart {
            is_last: number + 1 == count,
            bytes: part.to_vec(),
        };
        session.send(channel, &part).await?;
    }
    Ok(())
}

/// Puts messages together again.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    bytes: Vec<u8>,
}

impl Joiner {
    /// The message that is complete with this part. An error when it is no message.
    pub(crate) fn join(&mut self, part: &PeerPart) -> Result<Option<Message>, BadMessage> {
        if self.bytes.len() + part.bytes.len() > MOST_BYTES {
            return Err(BadMessage);
        }
        self.bytes.extend_from_slice(&part.bytes);
        if !part.is_last {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.bytes);
        postcard::from_bytes(&bytes)
            .map(Some)
            .map_err(|_| BadMessage)
    }
}

#[derive(Debug)]
pub(crate) struct BadMessage;
