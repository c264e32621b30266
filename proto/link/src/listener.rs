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

/// Hands out sessions with peers whose certificate, role and version are good.
///
/// Handshakes run beside each other, so a slow peer holds up no other. Sessions that were handed out live on when the
/// listener is dropped.
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
    /// Listens for peers of these roles. Needs the runtime of tokio around it: packets are read there, and favoured
    /// peers are served there. All others are served where sessions are accepted.
    pub fn bind(
        address: SocketAddr,
        ours: &Identity,
        accepted: &[Role],
    ) -> Result<Self, LinkError> {
        Self::bind_as(address, ours, accepted, Hello::new(ours.cluster()))
    }

    /// As a peer with this build.
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

    /// A new certificate, for the sessions to come.
    pub fn renew(&mut self, ours: &Identity) {
        self.ours = ours.clone();
    }

    /// Peers from there are admitted before others, from now on.
    pub fn favour(&mut self, addresses: BTreeSet<IpAddr>) {
        self.handshakes.favour(addresses);
    }

    /// The next session, or why the next peer was not let in: that is for the log, and no reason
    /// to stop. Nothing is lost when the wait is given up. `None` when the socket is gone.
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

    /// Ends all sessions too, and waits until their peers are likely to have heard why.
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

/// What is the same for all handshakes. Its TLS is used for no connection.
pub(crate) fn server_config(ours: &Identity, accepted: &[Role]) -> Result<ServerConfig, LinkError> {
    let crypto = tls::server(ours, accepted, Arc::default())?;
    let sessions = transport::accepting_side();
    Ok(transport::server(crypto, sessions, &WAITING_LIMITS))
}
