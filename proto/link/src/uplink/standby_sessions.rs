//! Standby sessions with followers. After a leader change, a member with a standby session needs no new admission,
//! together with all other members.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reweave_common::error::error_chain;
use reweave_common::time_span::TimeSpan;
use reweave_proto::message::{CoordinatorAddress, MAX_COORDINATORS, Order};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Duration, sleep};

use super::{Certificate, MemberProtocol, Notices};
use crate::connect::{Caller, reach};
use crate::dialer::Dialer;
use crate::error::LinkError;
use crate::identity::Identity;
use crate::receive_limit::ReceiveFlag;
use crate::session::{Channel, Session};

/// Thousands of members that start together open their standby sessions spread over this time. Tests have one member.
const MAX_START_DELAY: TimeSpan = if cfg!(test) {
    TimeSpan::ZERO
} else {
    TimeSpan::from_secs(30)
};
/// Coordinators that reach each other have elected a leader by then.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct StandbySessions {
    reserve: StandbyContext,
    /// Used until a coordinator sends the list of all coordinators.
    addresses: Vec<SocketAddr>,
    seats: watch::Receiver<Vec<CoordinatorAddress>>,
    kept: BTreeMap<SocketAddr, AbortHandle>,
    /// The tasks end with this value.
    tasks: JoinSet<()>,
    called: mpsc::Receiver<Session>,
    chosen: Option<Session>,
}

/// Everything that a standby session needs.
#[derive(Clone)]
struct StandbyContext {
    caller: Caller,
    newest: watch::Receiver<Identity>,
    notices: Notices,
    waiting: Arc<AtomicUsize>,
    call: mpsc::Sender<Session>,
}

impl StandbySessions {
    pub(super) fn new(dialer: &Dialer, certificate: &Certificate) -> Self {
        let addresses = dialer.addresses().to_vec();
        let (call, called) = mpsc::channel(addresses.len().max(MAX_COORDINATORS));
        let notices = certificate.notices();
        Self {
            reserve: StandbyContext {
                caller: dialer.caller().clone(),
                newest: certificate.newest(),
                notices: notices.clone(),
                waiting: Arc::default(),
                call,
            },
            addresses,
            seats: notices.known.follow(),
            kept: BTreeMap::new(),
            tasks: JoinSet::new(),
            called,
            chosen: None,
        }
    }

    /// The latest list of all coordinators.
    pub(super) fn seats(&self) -> Vec<CoordinatorAddress> {
        self.seats.borrow().clone()
    }

    /// Whether another coordinator than the current one is known, at the time of the call.
    pub(super) fn has_others(&self) -> impl Fn() -> bool + use<> {
        let (configured, seats) = (self.addresses.len(), self.seats.clone());
        move || configured.max(seats.borrow().len()) > 1
    }

    /// Opens a session with each coordinator other than the current one.
    fn keep_all_but<D: MemberProtocol>(&mut self, asked: &Session) {
        while self.tasks.try_join_next().is_some() {}
        let wanted = self.wanted(asked);
        let is_reported = !self.seats.borrow_and_update().is_empty();
        self.kept.retain(|address, reserve| {
            let is_needless =
                *address == asked.address() || is_reported && !wanted.contains(address);
            if is_needless {
                reserve.abort();
            }
            !is_needless && !reserve.is_finished()
        });
        for address in wanted {
            if !self.kept.contains_key(&address) {
                let keeping = self.reserve.clone().keep::<D>(address, None);
                self.kept.insert(address, self.tasks.spawn(keeping));
            }
        }
    }

    /// The addresses of all others. The current coordinator may also be listed with another address: two sessions of
    /// one member there would replace each other.
    fn wanted(&self, asked: &Session) -> Vec<SocketAddr> {
        let seats = self.seats.borrow();
        let others = seats.iter().filter(|seat| seat.name != asked.peer().name);
        let mut wanted: Vec<_> = if seats.is_empty() {
            self.addresses.clone()
        } else {
            others.map(|seat| seat.address).collect()
        };
        wanted.retain(|address| *address != asked.address());
        wanted
    }

    /// Returns the session with a coordinator that has become leader. Until then, keeps one with each of the others,
    /// including new ones.
    pub(super) async fn called_beside<D: MemberProtocol>(&mut self, asked: &Session) -> Session {
        loop {
            self.keep_all_but::<D>(asked);
            let Self { called, seats, .. } = self;
            tokio::select! {
                Some(session) = called.recv() => return session,
                Ok(()) = seats.changed() => {}
            }
        }
    }

    /// Keeps a session with a follower that has admitted this member, which then needs no new admission.
    pub(super) fn keep<D: MemberProtocol>(&mut self, session: Session) {
        let address = session.address();
        let keeping = self.reserve.clone().keep::<D>(address, Some(session));
        if let Some(before) = self.kept.insert(address, self.tasks.spawn(keeping)) {
            before.abort();
        }
    }

    /// Uses this session next.
    pub(super) fn go_to(&mut self, called: Session) {
        self.chosen = Some(called);
    }

    /// The session with a coordinator that has become leader.
    async fn called(&mut self) -> Session {
        match self.called.recv().await {
            Some(session) => session,
            // This holds a sender itself, so the channel stays open.
            None => std::future::pending().await,
        }
    }

    /// The next session: a new leader calls waiting members. If none does in time, all coordinators are asked for the
    /// leader.
    pub(super) async fn next(&mut self, dialer: &mut Dialer) -> Session {
        if let Some(session) = self.chosen.take() {
            dialer.stay_with(session.address());
            return session;
        }
        let is_likely = self.reserve.waiting.load(Ordering::Relaxed) > 0 && !dialer.is_sent();
        tokio::select! {
            session = self.called() => {
                dialer.stay_with(session.address());
                session
            }
            session = async {
                if is_likely {
                    sleep(ELECTION_TIMEOUT).await;
                }
                dialer.dial().await
            } => session,
        }
    }
}

impl StandbyContext {
    /// Keeps the session until it is called, and reconnects with the newest certificate.
    async fn keep<D: MemberProtocol>(mut self, address: SocketAddr, mut held: Option<Session>) {
        loop {
            let session = match held.take() {
                Some(session) => Ok(session),
                None => self.reach(address).await,
            };
            match session {
                Ok(session) if self.is_called::<D>(&session).await => {
                    // The task that kept it has ended.
                    return drop(self.call.send(session).await);
                }
                Ok(_) => {}
                Err(error) => tracing::debug!("nothing in reserve: {}", error_chain(&error)),
            }
        }
    }

    async fn reach(&mut self, address: SocketAddr) -> Result<Session, LinkError> {
        sleep(MAX_START_DELAY.scaled(rand::random()).get()).await;
        self.caller.ours = self.newest.borrow().clone();
        reach(address, &self.caller, ReceiveFlag::default()).await
    }

    async fn is_called<D: MemberProtocol>(&self, session: &Session) -> bool {
        let _waits = WaitGuard::new(&self.waiting);
        tokio::select! {
            is_called = self.listen::<D>(session) => is_called,
            _ = session.revoked() => false,
        }
    }

    async fn listen<D: MemberProtocol>(&self, session: &Session) -> bool {
        loop {
            let heard = session.receive::<D::Heard>(Channel::Commands).await;
            match heard.map(Into::into) {
                Ok(Order::Here) => return true,
                // Only the current coordinator's redirects count.
                Ok(Order::Elsewhere(_)) => {}
                Ok(Order::Instructed(_) | Order::Renewed { .. }) | Err(_) => return false,
                Ok(notice) => self.notices.note(session, notice).await,
            }
        }
    }
}

/// Counts as waiting as long as it exists.
struct WaitGuard(Arc<AtomicUsize>);

impl WaitGuard {
    fn new(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(waiting))
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
