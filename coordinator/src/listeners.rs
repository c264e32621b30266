//! The listening sockets: for members, for joining members, and for monitoring.

use std::net::SocketAddr;

use reweave_common::error::error_chain;
use reweave_link::join::JoinListener;
use reweave_link::{Identity, LinkError, Listener};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};

use crate::config::Config;
use crate::error::CoordinatorError;
use crate::http;
use crate::join_listener::serve_joins;
use crate::server_context::{Pages, ServerContext};
use crate::sessions::{ADMITTED_ROLES, welcome};

pub(crate) struct Listeners {
    pub(crate) listener: Listener,
    pub(crate) join_listener: Option<JoinListener>,
    pub(crate) http: Option<TcpListener>,
    pub(crate) https: Option<TcpListener>,
}

impl Listeners {
    /// Whether they could be opened now, for callers without a runtime.
    pub(crate) fn try_out(config: &Config, identity: &Identity) -> Result<Self, CoordinatorError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| CoordinatorError::Start {
            what: "the event loop",
            source,
        })?;
        runtime.block_on(Self::open(config, identity, runtime.handle()))
    }

    /// Members have a separate listener.
    pub(crate) async fn open(
        config: &Config,
        identity: &Identity,
        apart: &Handle,
    ) -> Result<Self, CoordinatorError> {
        Ok(Self {
            listener: listen(config, identity, apart)?,
            join_listener: open_join_listener(config, identity)?,
            http: http::bind(config).await?,
            https: http::bind_secure(config).await?,
        })
    }

    /// Logs the addresses, with the chosen port if none was given.
    pub(crate) fn log_addresses(&self, identity: &Identity) {
        let cluster = identity.cluster();
        if let Ok(listens) = self.listener.address() {
            tracing::info!("coordinator of {cluster} listens on {listens}");
        }
        if let Some(place) = self.join_listener.as_ref().and_then(|it| it.address().ok()) {
            tracing::info!("join listener on {place}");
        }
        if let Some(place) = place(self.http.as_ref()) {
            tracing::info!("{} on {place}", http::what_is_at(place));
        }
        if let Some(place) = place(self.https.as_ref()) {
            tracing::info!("the same over TLS on {place}");
        }
    }

    /// Where browsers are admitted: without TLS not beyond this machine.
    pub(crate) fn pages(&self) -> Pages {
        let near = place(self.http.as_ref()).filter(|place| place.ip().is_loopback());
        Pages {
            http: near,
            https: place(self.https.as_ref()),
        }
    }

    pub(crate) async fn welcome(&mut self, context: &ServerContext) -> CoordinatorError {
        let Some(join_listener) = &mut self.join_listener else {
            return welcome(&mut self.listener, context).await;
        };
        tokio::select! {
            error = welcome(&mut self.listener, context) => error,
            error = serve_joins(join_listener, context) => error,
        }
    }
}

fn place(listener: Option<&TcpListener>) -> Option<SocketAddr> {
    listener?.local_addr().ok()
}

fn listen(
    config: &Config,
    identity: &Identity,
    apart: &Handle,
) -> Result<Listener, CoordinatorError> {
    let (place, _apart) = (&config.listen, apart.enter());
    let listener = Listener::bind(place.value, identity, &ADMITTED_ROLES);
    listener.map_err(|error| place.wrong(CoordinatorError::listen(error)))
}

/// Binds the configured address or the default one. An occupied default is skipped.
fn open_join_listener(
    config: &Config,
    identity: &Identity,
) -> Result<Option<JoinListener>, CoordinatorError> {
    match JoinListener::bind(config.door.value, identity) {
        Ok(join_listener) => Ok(Some(join_listener)),
        Err(error) if config.door_is_usual => {
            let why = error_chain(&error);
            tracing::warn!(
                "joins are off: {why}; give `door` another address, as an agent on the same machine \
                 answers probes on UDP 7333"
            );
            Ok(None)
        }
        Err(error) => Err(config.door.wrong(CoordinatorError::listen(error))),
    }
}

impl CoordinatorError {
    pub(crate) fn listen(source: LinkError) -> Self {
        Self::Listen {
            source: Box::new(source),
        }
    }
}
