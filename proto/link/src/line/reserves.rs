//! Sessions with coordinators that do not lead, kept for the moment in which one of them does: whoever
//! waits inside need not be let in then, together with everybody else.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reweave_common::error::told;
use reweave_proto::message::Order;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Duration, sleep};

use super::{Certificate, Dialect, ShutOut};
use crate::connect::{Caller, reach};
use crate::dialer::Dialer;
use crate::error::LinkError;
use crate::identity::Identity;
use crate::session::{Channel, Session};
use crate::sieve::Heard;

/// Thousands that are let in together come for their reserves one after the other. Tests have one.
const SPREAD: Duration = match cfg!(test) {
    false => Duration::from_secs(30),
    true => Duration::ZERO,
};
/// Coordinators that reach each other have chosen one by then.
const CALLED_WITHIN: Duration = Duration::from_secs(1);

pub(super) struct Reserves {
    reserve: Reserve,
    addresses: Vec<SocketAddr>,
    kept: BTreeMap<SocketAddr, AbortHandle>,
    /// They end when it does.
    tasks: JoinSet<()>,
    called: mpsc::Receiver<Session>,
    chosen: Option<Session>,
}

/// What it takes to keep one.
#[derive(Clone)]
struct Reserve {
    caller: Caller,
    newest: watch::Receiver<Identity>,
    shut_out: ShutOut,
    waiting: Arc<AtomicUsize>,
    call: mpsc::Sender<Session>,
}

impl Reserves {
    pub(super) fn new(dialer: &Dialer, certificate: &Certificate) -> Self {
        let addresses = dialer.addresses().to_vec();
        let (call, called) = mpsc::channel(addresses.len());
        Self {
            reserve: Reserve {
                caller: dialer.caller().clone(),
                newest: certificate.newest(),
                shut_out: certificate.shut_out(),
                waiting: Arc::default(),
                call,
            },
            addresses,
            kept: BTreeMap::new(),
            tasks: JoinSet::new(),
            called,
            chosen: None,
        }
    }

    /// Whether there is anybody but the one that is asked now.
    pub(super) fn has_others(&self) -> bool {
        self.addresses.len() > 1
    }

    /// One with each coordinator, but for the one that is asked now.
    pub(super) fn keep_all_but<D: Dialect>(&mut self, asked: SocketAddr) {
        while self.tasks.try_join_next().is_some() {}
        if let Some(needless) = self.kept.remove(&asked) {
            needless.abort();
        }
        self.kept.retain(|_, reserve| !reserve.is_finished());
        for &address in &self.addresses {
            if address != asked && !self.kept.contains_key(&address) {
                let keeping = self.reserve.clone().keep::<D>(address, None);
                self.kept.insert(address, self.tasks.spawn(keeping));
            }
        }
    }

    /// Whoever was let in by one that does not lead waits there, and need not come again for that.
    pub(super) fn keep<D: Dialect>(&mut self, session: Session) {
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
    pub(super) async fn called(&mut self) -> Session {
        match self.called.recv().await {
            Some(session) => session,
            // This holds a way to call, too, so there is always one.
            None => std::future::pending().await,
        }
    }

    /// The next to ask: whoever comes to lead calls those who wait, and where nobody has called in time,
    /// all are asked who it is.
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
                    sleep(CALLED_WITHIN).await;
                }
                dialer.dial().await
            } => session,
        }
    }
}

impl Reserve {
    /// Until it is called, and with the newest certificate whenever it has to come again.
    async fn keep<D: Dialect>(mut self, address: SocketAddr, mut held: Option<Session>) {
        loop {
            let session = match held.take() {
                Some(session) => Ok(session),
                None => self.reach(address).await,
            };
            match session {
                Ok(session) if self.is_called::<D>(&session).await => {
                    // Whoever kept it has gone otherwise.
                    return drop(self.call.send(session).await);
                }
                Ok(_) => {}
                Err(error) => tracing::debug!("nothing in reserve: {}", told(&error)),
            }
        }
    }

    async fn reach(&mut self, address: SocketAddr) -> Result<Session, LinkError> {
        sleep(SPREAD.mul_f64(rand::random())).await;
        self.caller.ours = self.newest.borrow().clone();
        reach(address, &self.caller, Heard::default()).await
    }

    async fn is_called<D: Dialect>(&self, session: &Session) -> bool {
        let _waits = Waits::new(&self.waiting);
        tokio::select! {
            is_called = self.listen::<D>(session) => is_called,
            _ = session.shut_out() => false,
        }
    }

    async fn listen<D: Dialect>(&self, session: &Session) -> bool {
        loop {
            let heard = session.receive::<D::Heard>(Channel::Commands).await;
            match heard.map(Into::into) {
                Ok(Order::Here) => return true,
                Ok(Order::Denied(list)) => self.shut_out.note(list),
                // Who leads is for the one to say that is asked.
                Ok(Order::Elsewhere(_)) => {}
                Ok(Order::Told(_) | Order::Renewed { .. }) | Err(_) => return false,
            }
        }
    }
}

/// Counted for as long as it lives.
struct Waits(Arc<AtomicUsize>);

impl Waits {
    fn new(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(waiting))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
