//! The accepting side.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use quinn::{Endpoint, Incoming, ServerConfig};
use reweave_proto::hello::Hello;
use reweave_proto::name::Role;

use crate::error::LinkError;
use crate::handshake::Handshake;
use crate::handshake_limit::{HandshakeLimits, Handshakes};
use crate::identity::Identity;
use crate::receive_limit::{ReceiveFlag, ReceiveLimits};
use crate::session::{CLOSE_DONE, Session};
use crate::transport::{self, Waiting};
use crate::{opening, tls};

pub(crate) const HANDSHAKE_LIMITS: HandshakeLimits = HandshakeLimits {
    most: 512,
    most_turns: 32,
    many: 64,
    most_of_one: 256,
    many_of_one: 16,
};
const WAITING_LIMITS: Waiting = Waiting {
    most: 4096,
    bytes: 16 << 20,
};

/// Accepts sessions of peers with a valid certificate, role and version.
///
/// Handshakes run concurrently, so a slow peer delays no other. Accepted sessions outlive the listener.
pub struct Listener {
    endpoint: Endpoint,
    shares: ReceiveLimits,
    config: ServerConfig,
    ours: Identity,
    hello: Hello,
    accepted: Arc<[Role]>,
    handshakes: Handshakes<Session>,
}

impl Listener {
    /// Listens for peers of these roles. Must be called inside a tokio runtime, which reads packets and serves
    /// preferred peers. Other handshakes run where sessions are accepted.
    pub fn bind(
        address: SocketAddr,
        ours: &Identity,
        accepted: &[Role],
    ) -> Result<Self, LinkError> {
        Self::bind_as(address, ours, accepted, Hello::new(ours.cluster()))
    }

    /// Listens as [`Listener::bind`] does, with this build name.
    pub fn bind_as(
        address: SocketAddr,
        ours: &Identity,
        accepted: &[Role],
        hello: Hello,
    ) -> Result<Self, LinkError> {
        let config = server_config(ours, accepted)?;
        let endpoint = ours.return_key().endpoint_config();
        let shares = ReceiveLimits::default();
        Ok(Self {
            endpoint: transport::endpoint(
                address,
                endpoint,
                Some(config.clone()),
                shares.clone(),
                ReceiveFlag::default(),
            )?,
            shares,
            config,
            ours: ours.clone(),
            hello,
            accepted: accepted.into(),
            handshakes: Handshakes::new(HANDSHAKE_LIMITS),
        })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Uses this certificate for new sessions.
    pub fn renew(&mut self, ours: &Identity) {
        self.ours = ours.clone();
    }

    /// Admits peers at these addresses before others.
    pub fn favour(&mut self, addresses: BTreeSet<IpAddr>) {
        self.handshakes.favour(addresses);
    }

    /// The next session, or why the next peer was refused, for the log: the listener continues. Cancellation loses
    /// nothing. `None` when the socket is closed.
    pub async fn accept(&mut self) -> Option<Result<Session, LinkError>> {
        let begin = |incoming: Incoming| {
            let handshake = Handshake::new(&self.ours, &self.hello, incoming.remote_address());
            let (config, accepted) = (self.config.clone(), self.accepted.clone());
            let shares = self.shares.clone();
            async move {
                let session = run(&handshake, incoming, config, &accepted).await?;
                Ok(Session { shares, ..session })
            }
        };
        self.handshakes.next(&self.endpoint, begin).await
    }

    /// Ends all sessions, and waits until their peers have probably received the reason.
    pub async fn close(self, why: &str) {
        self.endpoint.close(CLOSE_DONE, why.as_bytes());
        self.endpoint.wait_idle().await;
    }
}

async fn run(
    handshake: &Handshake,
    incoming: Incoming,
    mut config: ServerConfig,
    accepted: &[Role],
) -> Result<Session, LinkError> {
    let crypto = tls::server(&handshake.ours, accepted, handshake.verdict.clone())?;
    config.crypto = Arc::new(crypto);
    let connection = incoming
        .accept_with(Arc::new(config))
        .map_err(|error| handshake.connecting_failed(error))?
        .await
        .map_err(|error| handshake.connecting_failed(error))?;
    let opened = opening::accept(&connection, &handshake.hello)
        .await
        .map_err(|error| handshake.opening_failed(error))?;
    handshake.session(connection, opened, None)
}

/// The configuration of all handshakes. Its TLS is used for no connection.
pub(crate) fn server_config(ours: &Identity, accepted: &[Role]) -> Result<ServerConfig, LinkError> {
    let crypto = tls::server(ours, accepted, Arc::default())?;
    let sessions = transport::accepting_side();
    Ok(transport::server(crypto, sessions, &WAITING_LIMITS))
}
