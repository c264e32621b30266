//! Reconnects whenever a session is lost.

use std::net::{IpAddr, SocketAddr};

use reweave_common::error::error_chain;
use reweave_proto::message::CoordinatorAddress;
use reweave_proto::name::Role;
use tokio::time::{Duration, Instant, sleep};

use crate::backoff::Backoff;
use crate::connect::{CONNECT_ATTEMPT_DELAY, Caller, race};
use crate::error::LinkError;
use crate::identity::Identity;
use crate::session::Session;

/// The head start of a coordinator that others redirect to, which may have many members to admit first.
const LEADER_ATTEMPT_DELAY: Duration = Duration::from_secs(1);
/// After a session of this length, the backoff starts again.
const MIN_STEADY_TIME: Duration = Duration::from_secs(10);

/// Tries several addresses and stays with the one that answered last.
pub struct Dialer {
    caller: Caller,
    /// The configured addresses, which are always kept.
    configured: Vec<SocketAddr>,
    addresses: Vec<SocketAddr>,
    /// Index of the address to try next.
    turn: usize,
    /// A peer redirected to this address, and perhaps many other members with it.
    is_named: bool,
    backoff: Backoff,
    /// When the last session started.
    last_success: Option<Instant>,
}

impl Dialer {
    /// `role` is the required role of the peer.
    pub fn new(ours: &Identity, addresses: Vec<SocketAddr>, role: Role) -> Result<Self, LinkError> {
        if addresses.is_empty() {
            return Err(LinkError::NoAddress);
        }
        Ok(Self {
            caller: Caller::new(ours, role),
            configured: addresses.clone(),
            addresses,
            turn: 0,
            is_named: false,
            backoff: Backoff::default(),
            last_success: None,
        })
    }

    /// Connects from this local address.
    pub fn sending_from(mut self, address: IpAddr) -> Self {
        self.caller.from = Some(address);
        self
    }

    /// Uses this certificate for new sessions.
    pub fn renew(&mut self, ours: &Identity) {
        self.caller.ours = ours.clone();
    }

    /// Replaces the learned addresses; the configured ones stay.
    pub(crate) fn learn(&mut self, coordinator_address: &[CoordinatorAddress]) {
        let asked = self.addresses[self.turn];
        self.addresses.clone_from(&self.configured);
        for seat in coordinator_address {
            if !self.addresses.contains(&seat.address) {
                self.addresses.push(seat.address);
            }
        }
        let mut all = self.addresses.iter();
        self.turn = all.position(|address| *address == asked).unwrap_or(0);
    }

    /// Follows a redirect. An unknown address is ignored; without an address, the next one is tried.
    pub fn go_elsewhere(&mut self, there: Option<SocketAddr>) {
        let known = self.addresses.iter();
        let known = known
            .map(Some)
            .position(|address| address == there.as_ref());
        self.is_named = known.is_some();
        match known {
            Some(index) => {
                self.turn = index;
                // A redirect is no failure.
                self.backoff.reset();
            }
            None => self.turn = (self.turn + 1) % self.addresses.len(),
        }
    }

    /// Connects, however long it takes. Each failure is logged. Call it again when the session is lost; it waits
    /// first, and longer if sessions are short.
    pub async fn dial(&mut self) -> Session {
        self.pause_after_loss().await;
        loop {
            if let Some(session) = self.round().await {
                self.last_success = Some(Instant::now());
                return session;
            }
            self.pause().await;
        }
    }

    async fn pause_after_loss(&mut self) {
        let Some(began) = self.last_success.take() else {
            return;
        };
        if began.elapsed() >= MIN_STEADY_TIME {
            self.backoff.reset();
        }
        self.pause().await;
    }

    async fn pause(&mut self) {
        sleep(self.backoff.next_delay(rand::random())).await;
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Whether a peer has redirected it.
    pub(crate) fn is_sent(&self) -> bool {
        self.is_named
    }

    /// Starts with this address, to which a session exists.
    pub(crate) fn stay_with(&mut self, address: SocketAddr) {
        let mut known = self.addresses.iter();
        self.turn = known.position(|it| *it == address).unwrap_or(self.turn);
        self.is_named = false;
        self.last_success = Some(Instant::now());
    }

    /// Tries every address once, and keeps the first that answers.
    async fn round(&mut self) -> Option<Session> {
        let mut addresses = self.addresses.clone();
        addresses.rotate_left(self.turn);
        let head_start = if std::mem::take(&mut self.is_named) {
            LEADER_ATTEMPT_DELAY
        } else {
            CONNECT_ATTEMPT_DELAY
        };
        match race(&addresses, &self.caller, head_start).await {
            Ok((nth, session)) => {
                self.turn = (self.turn + nth) % self.addresses.len();
                Some(session)
            }
            Err(failures) => {
                for failure in &failures {
                    tracing::warn!("not connected: {}", error_chain(failure));
                }
                None
            }
        }
    }
}
