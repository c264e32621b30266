//! Standby sessions with coordinators that do not lead. After a leader change, a member with a standby session needs
//! no new admission, together with all other members.

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

/// Thousands of members that are admitted together open their standby sessions one after the other. Tests have one.
const MAX_START_DELAY: TimeSpan = if cfg!(test) {
    TimeSpan::ZERO
} else {
    TimeSpan::from_secs(30)
};
/// Coordinators that reach each other have chosen one by then.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct StandbySessions {
    reserve: StandbyContext,
    /// Used until a coordinator sends the list of all coordinators.
    addresses: Vec<SocketAddr>,
    seats: watch::Receiver<Vec<CoordinatorAddress>>,
    kept: BTreeMap<SocketAddr, AbortHandle>,
    /// They end when it does.
    tasks: JoinSet<()>,
    called: mpsc::Receiver<Session>,
    chosen: Option<Session>,
}

/// What it takes to keep one.
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

    /// Whether there is another coordinator than the one that is asked now, at the time of the call.
    pub(super) fn has_others(&self) -> impl Fn() -> bool + use<> {
        let (configured, seats) = (self.addresses.len(), self.seats.clone());
        move || configured.max(seats.borrow().len()) > 1
    }

    /// One with each coordinator, but for the one that is asked now.
    fn keep_all_but<D: MemberProtocol>(&mut self, asked: &Session) {
        while self.tasks.try_join_next().is_some() {}
        let wanted = self.wanted(asked);
        let is_told = !self.seats.borrow_and_update().is_empty();
        self.kept.retain(|address, reserve| {
            let is_needless = *address == asked.address() || is_told && !wanted.contains(address);
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

    /// Where all others are. The one that is asked may have been found by another of its addresses: two
    /// sessions of one member there would take each other's place.
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

    /// The session with one that has come to lead. Meanwhile one is kept with each of the others, also of those that
    /// join later.
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

    /// A member that a follower has admitted waits there, and needs no new admission for that.
    pub(super) fn keep<D: MemberProtocol>(&mut self, session: Session) {
        let address = session.address();
        let keeping = self.reserve.clone().keep::<D>(address, Some(session));
        if let Some(before) = self.kept.insert(address, self.tasks.spawn(keeping)) {
            before.abort();
        }
    }

    /// This one is the next.
    pub(super) fn go_to(&mut self, called: Session) {
        self.chosen = Some(called);
    }

    /// The session with one that has come to lead.
    async fn called(&mut self) -> Session {
        match self.called.recv().await {
            Some(session) => session,
            // This holds a way to call, too, so there is always one.
            None => std::future::pending().await,
        }
    }

    /// The next to ask: a new leader calls those who wait, and where none has called in time, all are asked who leads.
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
    /// Until it is called, and with the newest certificate whenever it has to come again.
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
                // Who leads is for the one to say that is asked.
                Ok(Order::Elsewhere(_)) => {}
                Ok(Order::Told(_) | Order::Renewed { .. }) | Err(_) => return false,
                Ok(notice) => self.notices.note(session, notice),
            }
        }
    }
}

/// Counted for as long as it lives.
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
