//! The common part of sessions with agents and drivers, which keep an uplink to the coordinators. They receive
//! [`Order`]s, each kind in messages of its own.

use std::time::{Duration, SystemTime};

use reweave_common::error::error_chain;
use reweave_link::{Channel, EncodedMessage, LinkError, Session, TokenBucket};
use reweave_proto::hello::Version;
use reweave_proto::message::{CoordinatorAddress, Order};
use reweave_proto::since_version::SinceVersion;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Ending;
use super::deny_list_updates::EncodedLists;
use crate::replication::{Cluster, Wish};
use crate::server_context::ServerContext;
use crate::session_limit::Bounds;

/// The maximum number of instructions that a member has not taken yet. There are few, unless it is stuck.
pub(super) const OUTBOX_LENGTH: usize = 64;
/// The maximum time of an election: coordinators that reach each other have elected a leader by then.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(3);
/// The maximum time until a redirected member leaves.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The limits of standby sessions: one per member, and one more after its restart. Their number is that of the nodes of
/// the fabric.
pub(crate) const STANDBY_SESSIONS: Bounds = Bounds {
    max_per_group: None,
    max_per_key: Some(2),
};

/// Returns the rate limit of renewals. Signing takes a hundred times as long as other requests of members, and one
/// certificate lasts for a day. Beyond the limit, only the member's own session waits.
pub(super) fn renewals() -> TokenBucket {
    TokenBucket::new(1, 3)
}

/// The instructions for one kind of member, and their messages.
pub(super) trait Kind {
    type Instruction: Send;
    type Message: From<Order<Self::Instruction>> + Serialize + SinceVersion + Send + Sync;
    const ROLE_NAME: &'static str;
    /// Returns the list that is encoded in messages of this kind.
    fn said(words: &EncodedLists) -> &EncodedMessage;

    /// Returns the instruction for a member of an earlier version. None if the instruction needs a later version.
    fn for_version(instruction: Self::Instruction, _: Version) -> Option<Self::Instruction> {
        Some(instruction)
    }
}

/// Waits until this coordinator leads, and informs the member. Meanwhile the member learns the leader, and may leave.
pub(super) async fn stand_by<K: Kind>(
    session: &Session,
    context: &ServerContext,
) -> Result<(), Ending> {
    let called = async {
        if !comes_to_lead(context).await {
            wait::<K>(session, context).await?;
        }
        Ok(order::<K>(session, Order::Here).await?)
    };
    tokio::select! {
        called = called => called,
        error = session.closed() => Err(error.into()),
        error = session.revoked() => Err(error.into()),
        error = session.expired() => Err(error.into()),
    }
}

/// Waits until this coordinator leads. A member without a standby slot has to leave.
async fn wait<K: Kind>(session: &Session, context: &ServerContext) -> Result<(), Ending> {
    let slot = context.standby_sessions.try_acquire(session.peer().clone());
    let _slot = slot.map_err(|_| Ending::Replaced)?;
    let mut cluster = context.cluster.clone();
    let (leader, seats) = {
        let cluster = cluster.borrow();
        (cluster.leader(), cluster.directory.seats())
    };
    // The member may not know the coordinator that leads, or may still refuse it.
    send_removed::<K>(session, context).await?;
    send_seats::<K>(session, seats).await?;
    order::<K>(session, Order::Elsewhere(leader)).await?;
    let leads = cluster.wait_for(Cluster::leads).await;
    leads.map(drop).map_err(|_| Ending::Closed)
}

/// Whether this coordinator leads. While the leader is unknown, no member is redirected.
async fn comes_to_lead(context: &ServerContext) -> bool {
    let mut cluster = context.cluster.clone();
    let known = cluster.wait_for(|cluster| cluster.leads() || cluster.leader().is_some());
    let known = timeout(ELECTION_TIMEOUT, known).await;
    known.is_ok_and(|known| known.is_ok_and(|cluster| cluster.leads()))
}

/// Sends a member the name of the leader, if it is known, and waits until the member leaves.
async fn send_elsewhere<K: Kind>(session: Session, context: &ServerContext) {
    let leader = context.cluster.borrow().leader();
    if order::<K>(&session, Order::Elsewhere(leader)).await.is_ok() {
        let _ = timeout(CLOSE_TIMEOUT, session.closed()).await;
    }
    session.close("another coordinator leads").await;
}

/// Takes leave of a member whose session has come to its end.
pub(super) async fn part<K: Kind>(session: Session, context: &ServerContext, ending: Ending) {
    match ending {
        Ending::Lost(error) => {
            context.note_end(&session, &error);
            let name = &session.peer().name;
            tracing::info!(
                "{} {name} disconnected: {}",
                K::ROLE_NAME,
                error_chain(&error)
            );
        }
        Ending::Replaced if !context.cluster.borrow().leads() => {
            send_elsewhere::<K>(session, context).await;
        }
        Ending::Replaced => session.close("session evicted: limit reached").await,
        Ending::Closed => session.close("the coordinator is shutting down").await,
    }
}

pub(super) async fn instruct<K: Kind>(
    session: &Session,
    mut instructions: mpsc::Receiver<Box<K::Instruction>>,
) -> Ending {
    while let Some(instruction) = instructions.recv().await {
        let Some(instruction) = K::for_version(*instruction, session.version()) else {
            continue;
        };
        if let Err(error) = order::<K>(session, Order::Instructed(instruction)).await {
            return error.into();
        }
    }
    Ending::Replaced
}

/// Sends the deny lists, so that no revoked or removed coordinator commands the member in our name.
pub(super) async fn send_deny_lists<K: Kind>(session: &Session, context: &ServerContext) -> Ending {
    let mut published = context.deny_list_updates.clone();
    let mut sent_versions = None;
    loop {
        let updates = published.borrow_and_update().clone();
        for words in updates.updates_since(sent_versions, |words| session.knows(K::said(words))) {
            let sent = session.send_ready(Channel::Commands, K::said(words)).await;
            if let Err(error) = sent {
                return error.into();
            }
        }
        sent_versions = Some(updates.versions());
        if published.changed().await.is_err() {
            return Ending::Closed;
        }
    }
}

/// Sends the removed coordinators. A coordinator that was added again may lead, and a member that was away refuses it
/// until it has the list.
async fn send_removed<K: Kind>(
    session: &Session,
    context: &ServerContext,
) -> Result<(), LinkError> {
    let updates = context.deny_list_updates.borrow().clone();
    match updates.removed().map(K::said) {
        Some(removed) if session.knows(removed) => {
            session.send_ready(Channel::Commands, removed).await
        }
        _ => Ok(()),
    }
}

/// Sends the coordinators, so that the member still finds one when all that it was started with are gone.
pub(super) async fn send_coordinators<K: Kind>(
    session: &Session,
    context: &ServerContext,
) -> Ending {
    let mut cluster = context.cluster.clone();
    let mut sent = vec![];
    loop {
        let seats = cluster.borrow_and_update().directory.seats();
        if seats != sent {
            sent.clone_from(&seats);
            if let Err(error) = send_seats::<K>(session, seats).await {
                return error.into();
            }
        }
        if cluster.changed().await.is_err() {
            return Ending::Closed;
        }
    }
}

/// Sends the list of coordinators. A member of an earlier version keeps the list that it was started with.
async fn send_seats<K: Kind>(
    session: &Session,
    seats: Vec<CoordinatorAddress>,
) -> Result<(), LinkError> {
    let message = K::Message::from(Order::Coordinators(seats.clone()));
    if seats.is_empty() || !session.knows(&message) {
        return Ok(());
    }
    session.send(Channel::Commands, &message).await
}

/// Renews a certificate for the same member and admission as the one of the session.
pub(super) async fn renew<K: Kind>(
    session: &Session,
    context: &ServerContext,
    request: &[u8],
) -> Result<(), LinkError> {
    let (kind, name) = (K::ROLE_NAME, &session.peer().name);
    let credentials = session.credentials();
    let wish = Wish {
        request: request.to_vec(),
        member: credentials.member.clone(),
        admission: credentials.admission,
    };
    let certified = context.signing.certify(&wish).await;
    let chain_pem = certified.inspect_err(|error| {
        tracing::warn!(
            "certificate renewal of {kind} {name} failed: {}",
            error_chain(error)
        );
    });
    if chain_pem.is_ok() {
        tracing::info!("the certificate of {kind} {name} is renewed");
        session.renewed(SystemTime::now() + reweave_link::pki::MAX_MEMBER_VALIDITY);
    }
    let chain_pem = chain_pem.ok();
    order::<K>(session, Order::Renewed { chain_pem }).await
}

async fn order<K: Kind>(session: &Session, order: Order<K::Instruction>) -> Result<(), LinkError> {
    let message = K::Message::from(order);
    session.send(Channel::Commands, &message).await
}
