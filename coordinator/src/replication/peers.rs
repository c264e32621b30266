//! Messages between coordinators: each keeps a session of its own to every other, and sends over
//! that; what it hears comes over those that the others keep.
//!
//! Messages may be lost, and are rather lost than late.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::error::told;
use reweave_link::{Identity, LinkError, Role, Session, connect};
use reweave_replica::{FolderId, Member, MemberId, Message};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};

use super::cluster::Cluster;
use super::engine::{Replication, Task};
use super::letters::Letter;

/// Messages for one peer that have not been sent yet.
const OUTBOX: usize = 256;
/// Clocks drift slowly, and are set rarely.
const HERE_EVERY: Duration = Duration::from_secs(10);
/// From one attempt to reach a peer to the next, and up to twice that.
const PAUSE: Duration = Duration::from_millis(100);

/// Delivers what the replica sends, for as long as there is one.
pub(crate) async fn carry_posts(
    mut posts: mpsc::UnboundedReceiver<Message>,
    own: Own,
    replication: Replication,
) {
    let mut cluster = own.cluster.clone();
    let mut lines = Lines {
        lines: BTreeMap::new(),
        own,
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

/// Who this is, for the others.
#[derive(Clone)]
pub(crate) struct Own {
    /// Renewed in time.
    pub(crate) identity: watch::Receiver<Identity>,
    pub(crate) folder: FolderId,
    /// As far as this coordinator knows, and how it is itself.
    pub(crate) cluster: watch::Receiver<Cluster>,
}

impl Own {
    fn here(&mut self) -> Letter {
        let disk_is_full = self.cluster.borrow_and_update().disk_is_full;
        Letter::here(self.folder, disk_is_full)
    }
}

/// One line to each peer.
struct Lines {
    lines: BTreeMap<MemberId, Line>,
    own: Own,
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
            own: self.own.clone(),
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
    own: Own,
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
                    speak(&session, self.own.clone(), &mut messages).await
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
        let ours = self.own.identity.borrow().clone();
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

/// Says who is here, and then what there is to say, until that fails.
async fn speak(
    session: &Session,
    mut own: Own,
    messages: &mut mpsc::Receiver<Message>,
) -> LinkError {
    let mut here = interval(HERE_EVERY);
    loop {
        let letter = tokio::select! {
            biased;
            _ = here.tick() => own.here(),
            Ok(()) = own.cluster.changed() => own.here(),
            message = messages.recv() => match message {
                Some(message) => Letter::Replica(Box::new(message)),
                None => return LinkError::ChannelEnded,
            },
            error = session.closed() => return error,
            error = session.shut_out() => return error,
        };
        if let Err(error) = letter.send(session).await {
            return error;
        }
    }
}
