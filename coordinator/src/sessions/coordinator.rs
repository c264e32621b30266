//! The session of another coordinator: its identity, and messages of its replica.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use reweave_common::error::error_chain;
use reweave_common::lock::lock;
use reweave_common::member::Member;
use reweave_link::{Channel, Session, TokenBucket};
use reweave_proto::parts::{MAX_LETTER_BYTES, MAX_SNAPSHOT_LETTER_BYTES};
use reweave_replica::{Answer, FolderId, MemberId, Message};

use super::agent::{skew_us, time_of_day};
use super::{Reason, member};
use crate::replication::{Condition, PeerMessage, PeerMessageReceiver, Unheard, Wish};
use crate::server_context::ServerContext;
use crate::session_limit::{Bounds, Permit};

/// One for its messages, short ones for certificates, and some that it has lost and that have not timed out here. Each may
/// hold parts of a snapshot and of another message.
pub(crate) const COORDINATOR_SESSIONS: Bounds = Bounds {
    max_per_group: None,
    max_per_key: Some(8),
};

/// The reason is shown to operators only, and not to the peer.
const REFUSED_REASON: &str = "it has no session here";
const REMOVED_REASON: &str = "its number belongs to no member";
const EVICTED_REASON: &str = "session evicted: limit reached";

pub(super) async fn hear(session: Session, context: ServerContext) {
    let sessions = &context.coordinator_sessions;
    let (slot, evicted) = sessions.acquire_or_evict(session.peer().clone());
    let peer = Peer {
        slot,
        session: &session,
        context: &context,
        folder: OnceLock::new(),
        last_sent: LastSentAnswer::default(),
        skew_us: AtomicI64::new(0),
        disk_is_full: AtomicBool::new(false),
        signs_until: Mutex::default(),
        renewals: member::renewals(),
    };
    let name = &session.peer().name;
    let heard = tokio::select! {
        heard = peer.hear_on(Channel::Commands) => heard,
        heard = peer.hear_on(Channel::Telemetry) => heard,
        heard = peer.hear_loose() => heard,
        error = session.revoked() => {
            return tracing::warn!("session of coordinator {name} ended: {}", error_chain(&error));
        }
        // The peer reconnects at once with its new certificate.
        error = session.expired() => return context.note_end(&session, &error),
        _ = evicted => {
            tracing::warn!("session of coordinator {name} ended: it opened too many others");
            return session.close(EVICTED_REASON).await;
        }
    };
    if let Err(fault) = heard {
        tracing::warn!("coordinator {name}: {}", fault.words());
        context.note_put_out(&session, fault.reason(), fault.words());
        match fault {
            Fault::Removed => session.close_removed(REMOVED_REASON).await,
            _ => session.close(REFUSED_REASON).await,
        }
    }
}

/// What no coordinator may say.
#[derive(Debug, Clone, Copy)]
enum Fault {
    NoMessage,
    OtherFolder,
    Unasked,
    /// The message is in another coordinator's name.
    NotItself,
    /// It was a member, and learns here that it is none any more.
    Removed,
}

impl Fault {
    fn words(self) -> &'static str {
        match self {
            Self::NoMessage => "it sent an invalid message",
            Self::OtherFolder => "its data folder changed",
            Self::Unasked => "it sent an unexpected answer",
            Self::NotItself => "it uses a number that is not its own",
            Self::Removed => "it was removed from the cluster",
        }
    }

    fn reason(self) -> Reason {
        match self {
            Self::NoMessage => Reason::Unreadable,
            Self::NotItself | Self::Removed => Reason::NoMember,
            Self::OtherFolder | Self::Unasked => Reason::Other,
        }
    }
}

/// The answer last sent to the introductions of one coordinator.
#[derive(Default)]
struct LastSentAnswer(Mutex<Option<Answer>>);

impl LastSentAnswer {
    /// Records the answer and returns it, or None if it equals the last one.
    fn record_if_new(&self, answer: Answer) -> Option<Answer> {
        let mut last = lock(&self.0);
        if last.as_ref() == Some(&answer) {
            return None;
        }
        *last = Some(answer.clone());
        Some(answer)
    }
}

struct Peer<'s> {
    slot: Permit<Member>,
    session: &'s Session,
    context: &'s ServerContext,
    /// The folder that the peer named at first.
    folder: OnceLock<FolderId>,
    last_sent: LastSentAnswer,
    /// The difference by which its clock is ahead of ours.
    skew_us: AtomicI64,
    disk_is_full: AtomicBool,
    signs_until: Mutex<Option<SystemTime>>,
    renewals: TokenBucket,
}

impl Peer<'_> {
    /// An error when it says what it may not.
    async fn hear_on(&self, channel: Channel) -> Result<(), Fault> {
        let mut peer_messages = PeerMessageReceiver::new(self.session, channel);
        loop {
            let limit_bytes = || self.max_message_bytes(channel);
            match peer_messages.receive_within(limit_bytes).await {
                Ok(peer_message) => self.take(peer_message).await?,
                Err(Unheard::Lost) => return Ok(()),
                Err(Unheard::NoMessage) => return Err(Fault::NoMessage),
            }
        }
    }

    /// Snapshots come from members alone: a certificate alone takes no more memory than other messages do.
    fn max_message_bytes(&self, channel: Channel) -> usize {
        let name = &self.session.peer().name;
        let cluster = self.context.cluster.borrow();
        if channel == Channel::Telemetry && cluster.directory.has_name(name) {
            MAX_SNAPSHOT_LETTER_BYTES
        } else {
            MAX_LETTER_BYTES
        }
    }

    async fn hear_loose(&self) -> Result<(), Fault> {
        while let Ok(peer_message) = self.session.receive_loose().await {
            self.take(peer_message).await?;
        }
        Ok(())
    }

    async fn take(&self, peer_message: PeerMessage) -> Result<(), Fault> {
        self.slot.touch();
        match peer_message {
            PeerMessage::Here {
                folder,
                disk_is_full,
                time_of_day_us,
            } => {
                if *self.folder.get_or_init(|| folder) != folder {
                    return Err(Fault::OtherFolder);
                }
                let skew = skew_us(time_of_day_us, time_of_day());
                self.skew_us.store(skew, Ordering::Relaxed);
                self.disk_is_full.store(disk_is_full, Ordering::Relaxed);
                self.answer(folder).await;
                Ok(())
            }
            PeerMessage::Number { id } => self.take_number(id),
            PeerMessage::Replica(message) => self.take_message(*message),
            PeerMessage::Signs { left_s } => {
                let until = |left_s| SystemTime::now().checked_add(Duration::from_secs(left_s));
                *lock(&self.signs_until) = left_s.and_then(until);
                Ok(())
            }
            PeerMessage::Certify(wish) => {
                self.certify(wish).await;
                Ok(())
            }
            PeerMessage::Answer(_) | PeerMessage::Certified(_) => Err(Fault::Unasked),
        }
    }

    /// Answers a coordinator that may have no log or may have missed changes of members. What it was sent is not
    /// repeated.
    async fn answer(&self, folder: FolderId) {
        let name = &self.session.peer().name;
        let answer = {
            let cluster = self.context.cluster.borrow();
            Answer::of(cluster.directory.members(), name, folder)
        };
        if let Answer::Expected = answer {
            self.context.settle(name, folder);
        }
        if let Some(answer) = self.last_sent.record_if_new(answer) {
            // A peer that has left needs no answer.
            let _ = PeerMessage::Answer(answer).send(self.session).await;
        }
    }

    /// Signs a certificate for the peer itself, or for a member that the peer admits while it leads. Such a peer has
    /// decided the admission and only lacks a signer.
    async fn certify(&self, wish: Option<Wish>) {
        self.renewals.take_one().await;
        let signing = &self.context.signing;
        let signed = match &wish {
            _ if self.is_removed() => None,
            None => signing.can_sign().then(String::new),
            Some(wish) if self.may_wish(wish) => signing.certify_here(wish).ok(),
            Some(wish) => {
                let peer = self.session.peer();
                tracing::warn!(
                    "{peer} requests a certificate for {}, but is not the leader",
                    wish.member
                );
                None
            }
        };
        // A peer that has left asks another coordinator.
        let _ = PeerMessage::Certified(signed).send(self.session).await;
    }

    fn is_removed(&self) -> bool {
        let cluster = self.context.cluster.borrow();
        let members = cluster.directory.members();
        members.is_removed(&self.session.peer().name)
    }

    fn may_wish(&self, wish: &Wish) -> bool {
        let own = self.session.credentials();
        let is_own = own.member == wish.member && own.admission == wish.admission;
        is_own || self.context.cluster.borrow().is_led_by(&own.member.name)
    }

    fn take_number(&self, id: MemberId) -> Result<(), Fault> {
        let cluster = self.context.cluster.borrow();
        let members = cluster.directory.members();
        if members.was_removed(id, &self.session.peer().name) {
            return Err(Fault::Removed);
        }
        Ok(())
    }

    fn take_message(&self, message: Message) -> Result<(), Fault> {
        let (from, name) = (message.from, &self.session.peer().name);
        // The first words went over another stream; this one is as good as lost.
        let Some(&folder) = self.folder.get() else {
            return Ok(());
        };
        let (hears, may_be_new) = {
            let cluster = self.context.cluster.borrow();
            let directory = &cluster.directory;
            let members = directory.members();
            let hears = members.hears(from, name, folder);
            let may_be_new = members.may_be_new(from, name) || directory.is_pending(from, name);
            (hears, may_be_new)
        };
        // A certificate alone makes no member: the replica decides whether it expects this one.
        if !hears && may_be_new {
            let replication = &self.context.replication;
            replication.put_unadmitted(message, name.clone(), folder);
            return Ok(());
        }
        if !hears {
            return self.take_number(from).and(Err(Fault::NotItself));
        }
        let condition = Condition {
            skew_us: self.skew_us.load(Ordering::Relaxed),
            disk_is_full: self.disk_is_full.load(Ordering::Relaxed),
            signs_until: *lock(&self.signs_until),
        };
        let known = &self.context.peer_status;
        known.hear(from, message.term, self.session, condition);
        self.context.replication.put_message(message);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use reweave_replica::{MemberId, Members};

    use super::*;

    /// Introductions come every 10 s, and the list of members is the longest answer.
    #[test]
    fn repeated_member_list_is_not_sent() {
        let last = LastSentAnswer::default();
        let listed = || Answer::Member {
            id: MemberId(2),
            members: Members::default(),
        };
        for answer in [listed(), Answer::Expected, listed()] {
            assert_eq!(last.record_if_new(answer.clone()), Some(answer.clone()));
            assert_eq!(last.record_if_new(answer), None);
        }
    }
}
