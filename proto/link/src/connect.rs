//! The side that connects.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use quinn::ClientConfig;
use reweave_proto::hello::Hello;
use reweave_proto::name::Role;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use crate::error::LinkError;
use crate::handshake::Handshake;
use crate::identity::Identity;
use crate::receive_limit::ReceiveFlag;
use crate::session::Session;
use crate::transport::HANDSHAKE_TIMEOUT;
use crate::{opening, tls, transport};

/// The head start of an address before the next one is tried.
pub(crate) const CONNECT_ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// A busy peer may have many others to admit first. Giving up and reconnecting would only add to them.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(6);

/// The identity and the target of a connecting peer.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) ours: Identity,
    pub(crate) hello: Hello,
    /// The required role of the peer.
    pub(crate) role: Role,
    /// None if the kernel chooses the address by the route.
    pub(crate) from: Option<IpAddr>,
}

impl Caller {
    pub(crate) fn new(ours: &Identity, role: Role) -> Self {
        Self {
            ours: ours.clone(),
            hello: Hello::new(ours.cluster()),
            role,
            from: None,
        }
    }
}

/// Tries each address once, in order, until a peer of this role answers. A silent address delays the next one little,
/// and a busy one more.
pub async fn connect(
    addresses: &[SocketAddr],
    ours: &Identity,
    role: Role,
) -> Result<Session, LinkError> {
    connect_as(addresses, ours, role, Hello::new(ours.cluster())).await
}

/// Connects as [`connect`] does, with this build name.
pub async fn connect_as(
    addresses: &[SocketAddr],
    ours: &Identity,
    role: Role,
    hello: Hello,
) -> Result<Session, LinkError> {
    let caller = Caller {
        hello,
        ..Caller::new(ours, role)
    };
    let raced = race(addresses, &caller, CONNECT_ATTEMPT_DELAY).await;
    raced.map(|(_, session)| session).map_err(summary)
}

/// The first address that answers, and its index. Each address has a head start before the next.
pub(crate) async fn race(
    addresses: &[SocketAddr],
    caller: &Caller,
    mut head_start: Duration,
) -> Result<(usize, Session), Vec<LinkError>> {
    let (mut waiting, mut failures) = (addresses.iter().enumerate(), vec![]);
    let (mut attempts, mut heard) = (JoinSet::new(), ReceiveFlag::default());
    loop {
        if let Some((nth, &address)) = waiting.next() {
            heard = ReceiveFlag::default();
            let (caller, heard) = (caller.clone(), heard.clone());
            attempts.spawn(async move { (nth, reach(address, &caller, heard).await) });
        }
        let is_last = waiting.len() == 0;
        tokio::select! {
            done = attempts.join_next() => match done {
                Some(Ok((nth, Ok(session)))) => return Ok((nth, session)),
                Some(Ok((_, Err(failure)))) => failures.push(failure),
                Some(Err(_)) => {}
                None if is_last => return Err(failures),
                None => {}
            },
            () = patience(head_start, BUSY_TIMEOUT, &heard), if !is_last => {
                head_start = CONNECT_ATTEMPT_DELAY;
            }
        }
    }
}

fn summary(mut failures: Vec<LinkError>) -> LinkError {
    match failures.pop() {
        None => LinkError::NoAddress,
        Some(only) if failures.is_empty() => only,
        Some(last) => {
            failures.push(last);
            LinkError::NoneReached(failures)
        }
    }
}

/// The timeout for silent peers, extended once for those that answer.
async fn patience(first: Duration, more: Duration, heard: &ReceiveFlag) {
    sleep(first).await;
    if heard.anything() {
        sleep(more).await;
    }
}

/// One attempt at one address, within the deadline.
pub(crate) async fn reach(
    address: SocketAddr,
    caller: &Caller,
    heard: ReceiveFlag,
) -> Result<Session, LinkError> {
    let handshake = Handshake::new(&caller.ours, &caller.hello, address);
    tokio::select! {
        outcome = run(&handshake, caller, heard.clone()) => outcome,
        () = patience(HANDSHAKE_TIMEOUT, BUSY_TIMEOUT, &heard) => Err(handshake.timed_out()),
    }
}

async fn run(
    handshake: &Handshake,
    caller: &Caller,
    heard: ReceiveFlag,
) -> Result<Session, LinkError> {
    let address = handshake.address;
    let config = client_config(handshake, caller.role)?;
    let endpoint = transport::client_endpoint(address, caller.from, heard)?;
    let connection = endpoint
        .connect_with(config, address, tls::SERVER_NAME)
        .map_err(|source| LinkError::Connect { address, source })?
        .await
        .map_err(|error| handshake.connecting_failed(error))?;
    let opened = opening::open(&connection, &handshake.hello)
        .await
        .map_err(|error| handshake.opening_failed(error))?;
    handshake.session(connection, opened, Some(endpoint))
}

fn client_config(handshake: &Handshake, role: Role) -> Result<ClientConfig, LinkError> {
    let crypto = tls::client(&handshake.ours, role, handshake.verdict.clone())?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport::opening_side());
    Ok(config)
}
