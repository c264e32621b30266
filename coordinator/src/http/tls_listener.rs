//! Connections over TLS, from anywhere. The certificate of an operator or a viewer authenticates a client; others need
//! a token. Handshakes, unauthenticated clients, viewers and operators have separate limits, so that a flood of one
//! kind does not displace the others.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use reweave_common::error::error_chain;
use reweave_common::member::{Member, Role};
use reweave_link::LinkError;
use reweave_link::web::{self, Stream, WebConnection, WebCredentials};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::faces::Faces;
use super::plain_listener::IdleTimeout;
use crate::server_context::ServerContext;
use crate::session_limit::{Bounds, Evicted, LimitKey, Permit, SessionLimit};
use crate::sessions::{Reason, Refusals};

/// The roles whose certificates are accepted here.
const ALLOWED_ROLES: [Role; 2] = [Role::Operator, Role::Viewer];

/// The limits on handshakes: in total, and for each address.
const HANDSHAKE_LIMIT: Bounds = Bounds {
    max_per_group: Some(128),
    max_per_key: Some(32),
};
/// The limits on connections of unauthenticated clients, viewers and operators each, and of one address or member.
/// Browsers open six each, and offices share an address.
const CONNECTION_LIMIT: Bounds = Bounds {
    max_per_group: Some(256),
    max_per_key: Some(64),
};
/// The interval between reports of refused clients.
const REFUSAL_REPORT_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct TlsListener {
    listener: TcpListener,
    context: ServerContext,
    faces: Faces,
    handshakes: SessionLimit<IpAddr>,
    running: JoinSet<Result<(WebConnection, SocketAddr), Turned>>,
    connections: SessionLimit<Principal>,
    refusals: Refusals,
    report_interval: Interval,
}

/// The reason why a client was refused.
enum Turned {
    Away(LinkError),
    /// Displaced by other clients.
    Crowded(SocketAddr),
}

/// The identity under which a connection is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Principal {
    /// The address of an unauthenticated client.
    Address(IpAddr),
    Member(Member),
}

impl LimitKey for Principal {
    /// None for unauthenticated clients.
    type Group = Option<Role>;

    fn group(&self) -> Option<Role> {
        match self {
            Self::Address(_) => None,
            Self::Member(member) => Some(member.role),
        }
    }
}

impl TlsListener {
    pub(super) fn to(listener: TcpListener, context: ServerContext) -> Self {
        if !context.signing.can_sign() {
            let why = "this coordinator has no signer";
            tracing::warn!("the TLS certificate is not one that browsers trust: {why}");
        }
        let mut report_interval = interval(REFUSAL_REPORT_INTERVAL);
        report_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            faces: Faces::of(context.signing.clone()),
            listener,
            context,
            handshakes: SessionLimit::new(HANDSHAKE_LIMIT),
            running: JoinSet::new(),
            connections: SessionLimit::new(CONNECTION_LIMIT),
            refusals: Refusals::default(),
            report_interval,
        }
    }

    fn begin(&mut self, stream: TcpStream, from: SocketAddr) {
        let ours = self.context.ours.borrow().clone();
        let near = stream.local_addr().map_or(from.ip(), |near| near.ip());
        let face = self.faces.at(near.to_canonical(), &ours, SystemTime::now());
        let address = from.ip().to_canonical();
        let (slot, evicted) = self.handshakes.acquire_or_evict(address);
        self.running.spawn(async move {
            let _slot = slot;
            tokio::select! {
                done = web::receive(stream, from, &ours, &face, &ALLOWED_ROLES) => {
                    done.map(|guest| (guest, from)).map_err(Turned::Away)
                }
                _ = evicted => Err(Turned::Crowded(from)),
            }
        });
    }

    fn note(&mut self, turned: Turned) {
        match turned {
            Turned::Away(error) => self.refusals.note(&error),
            Turned::Crowded(from) => {
                let why = "evicted during the handshake: session limit reached".to_owned();
                self.refusals.add(from, Reason::Crowded, why);
            }
        }
    }

    fn settle(&self, WebConnection { stream, card }: WebConnection, from: IpAddr) -> TlsConnection {
        let member = card.as_ref().map(|card| card.member().clone());
        let principal = member
            .clone()
            .map_or(Principal::Address(from), Principal::Member);
        let (slot, evicted) = self.connections.acquire_or_evict(principal);
        TlsConnection {
            stream: IdleTimeout::over(stream),
            end: Some(Box::pin(end(evicted, card))),
            slot,
            shown: Shown { member, from },
        }
    }
}

/// Waits until the client is revoked or evicted.
async fn end(evicted: Evicted, card: Option<WebCredentials>) {
    let Some(card) = card else {
        let _ = evicted.await;
        return;
    };
    let member = card.member().clone();
    tokio::select! {
        _ = evicted => {}
        refusal = card.ended() => tracing::warn!("session of {member} ended: {}", error_chain(&refusal)),
    }
}

impl Listener for TlsListener {
    type Io = TlsConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TlsConnection, SocketAddr) {
        loop {
            tokio::select! {
                (stream, from) = Listener::accept(&mut self.listener) => self.begin(stream, from),
                Some(done) = self.running.join_next() => match done {
                    Ok(Ok((guest, from))) => {
                        return (self.settle(guest, from.ip().to_canonical()), from);
                    }
                    Ok(Err(turned)) => self.note(turned),
                    // A panic is a bug, but a client that triggers it must not stop others from connecting.
                    Err(panic) => tracing::error!(%panic, "handshake interrupted"),
                },
                _ = self.report_interval.tick() => self.refusals.report(&self.context.intake),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The identity of the client of a TLS connection.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    /// The member that the certificate names. None for an unauthenticated client.
    pub(super) member: Option<Member>,
    pub(super) from: IpAddr,
}

impl Connected<IncomingStream<'_, TlsListener>> for Shown {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        stream.io().shown.clone()
    }
}

/// Ends when its client is revoked or evicted, or is silent for too long.
pub(super) struct TlsConnection {
    stream: IdleTimeout<Stream>,
    /// None once the end has come.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    slot: Permit<Principal>,
    shown: Shown,
}

impl TlsConnection {
    fn goes_on(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(context).is_ready()
        {
            self.end = None;
        }
        match self.end {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    fn note<T>(&self, done: Poll<T>) -> Poll<T> {
        if done.is_ready() {
            self.slot.touch();
        }
        done
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.goes_on(context)?;
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.note(read)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.goes_on(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.goes_on(context)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
