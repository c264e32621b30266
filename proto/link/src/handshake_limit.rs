//! Concurrent handshakes, within limits: slow or numerous peers do not delay the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn::{Endpoint, Incoming};
use reweave_common::lock::lock;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::connect::BUSY_TIMEOUT;
use crate::error::LinkError;
use crate::transport::HANDSHAKE_TIMEOUT;

/// A live peer answers within this time. Silent peers block others no longer: at this limit, some hundred are admitted
/// per second.
const TURN_TIMEOUT: Duration = Duration::from_millis(25);

#[derive(Debug, Clone, Copy)]
pub(crate) struct HandshakeLimits {
    /// The limit of concurrent handshakes; other peers wait.
    pub(crate) most: usize,
    /// The limit of handshakes in their first phase, which uses the processor.
    pub(crate) most_turns: usize,
    /// With more handshakes, new peers must first prove their source address.
    pub(crate) many: usize,
    /// The limit per address; further packets are dropped, and the peer repeats them.
    pub(crate) most_of_one: usize,
    /// The same as `many`, per address: no peer can use up the slots of another address.
    pub(crate) many_of_one: usize,
}

pub(crate) struct Handshakes<T> {
    running: JoinSet<Result<T, LinkError>>,
    /// The limit is the endpoint's.
    waiting: HandshakeQueue<(Incoming, HandshakePermit)>,
    turns: Arc<Semaphore>,
    limits: HandshakeLimits,
    places: HandshakesByAddress,
    /// Peers at these addresses do not wait and are outside the common limit.
    favoured: BTreeSet<IpAddr>,
    apart: Handle,
}

/// First come, first served, except for peers that timed out and reconnect: serving those first would serve none in
/// the end.
struct HandshakeQueue<W>(VecDeque<(Instant, W)>);

impl<W> HandshakeQueue<W> {
    fn push(&mut self, newcomer: W) {
        self.0.push_back((Instant::now(), newcomer));
    }

    fn pop(&mut self) -> Option<W> {
        let has_given_up = |(since, _): &mut (Instant, W)| since.elapsed() > BUSY_TIMEOUT;
        while self.0.pop_front_if(has_given_up).is_some() {}
        self.0.pop_front().map(|(_, newcomer)| newcomer)
    }
}

impl<T: Send + 'static> Handshakes<T> {
    pub(crate) fn new(limits: HandshakeLimits) -> Self {
        Self {
            running: JoinSet::new(),
            waiting: HandshakeQueue(VecDeque::new()),
            turns: Arc::new(Semaphore::new(limits.most_turns)),
            limits,
            places: HandshakesByAddress::default(),
            favoured: BTreeSet::new(),
            apart: Handle::current(),
        }
    }

    /// Sets the preferred addresses.
    pub(crate) fn favour(&mut self, addresses: BTreeSet<IpAddr>) {
        self.favoured = addresses;
    }

    /// The result of the next completed handshake; `begin` starts each. Cancellation loses nothing. `None` when the
    /// socket is closed.
    pub(crate) async fn next<F>(
        &mut self,
        endpoint: &Endpoint,
        begin: impl Fn(Incoming) -> F,
    ) -> Option<Result<T, LinkError>>
    where
        F: Future<Output = Result<T, LinkError>> + Send + 'static,
    {
        loop {
            let has_room = self.running.len() < self.limits.most && !self.waiting.0.is_empty();
            tokio::select! {
                Some(done) = self.running.join_next() => match done {
                    Ok(outcome) => return Some(outcome),
                    // A bug, but it must not stop other peers from connecting.
                    Err(panic) => tracing::error!(%panic, "handshake interrupted"),
                },
                Ok(turn) = Arc::clone(&self.turns).acquire_owned(), if has_room => {
                    self.start(turn, &begin);
                }
                incoming = endpoint.accept() => self.admit(incoming?, &begin),
            }
        }
    }

    fn admit<F>(&mut self, incoming: Incoming, begin: &impl Fn(Incoming) -> F)
    where
        F: Future<Output = Result<T, LinkError>> + Send + 'static,
    {
        let address = incoming.remote_address().ip();
        let of_one = self.places.taken(address);
        let crowded = self.running.len() >= self.limits.many || of_one >= self.limits.many_of_one;
        if crowded && !incoming.remote_address_validated() {
            // Fails only for validated addresses.
            let _ = incoming.retry();
            return;
        }
        if of_one >= self.limits.most_of_one {
            return incoming.ignore();
        }
        let place = self.places.take(address);
        if self.favoured.contains(&address.to_canonical()) {
            let from = incoming.remote_address();
            let handshake = in_time(begin(incoming), from, place);
            self.running.spawn_on(handshake, &self.apart);
        } else {
            self.waiting.push((incoming, place));
        }
    }

    fn start<F>(&mut self, turn: OwnedSemaphorePermit, begin: &impl Fn(Incoming) -> F)
    where
        F: Future<Output = Result<T, LinkError>> + Send + 'static,
    {
        let Some((incoming, place)) = self.waiting.pop() else {
            return;
        };
        let address = incoming.remote_address();
        let handshake = in_turn(turn, begin(incoming));
        self.running.spawn(in_time(handshake, address, place));
    }
}

async fn in_time<T>(
    handshake: impl Future<Output = Result<T, LinkError>>,
    address: SocketAddr,
    place: HandshakePermit,
) -> Result<T, LinkError> {
    let outcome = timeout(HANDSHAKE_TIMEOUT, handshake).await;
    drop(place);
    outcome.unwrap_or(Err(LinkError::HandshakeTimedOut { address }))
}

/// A slow handshake gives up its turn and continues.
async fn in_turn<T>(turn: OwnedSemaphorePermit, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if let Ok(done) = timeout(TURN_TIMEOUT, &mut work).await {
        return done;
    }
    drop(turn);
    work.await
}

/// The number of running handshakes of each address.
#[derive(Debug, Clone, Default)]
struct HandshakesByAddress(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// Released when it is dropped.
struct HandshakePermit {
    of: HandshakesByAddress,
    address: IpAddr,
}

impl HandshakesByAddress {
    fn taken(&self, address: IpAddr) -> usize {
        lock(&self.0).get(&address).copied().unwrap_or(0)
    }

    fn take(&self, address: IpAddr) -> HandshakePermit {
        *lock(&self.0).entry(address).or_default() += 1;
        HandshakePermit {
            of: self.clone(),
            address,
        }
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        let mut taken = lock(&self.of.0);
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slow_handshake_yields_its_turn() {
        let turns = Arc::new(Semaphore::new(1));
        let next = || Arc::clone(&turns).acquire_owned();
        let began = Instant::now();
        let long = timeout(5 * TURN_TIMEOUT, std::future::pending::<()>());
        let slow = tokio::spawn(in_turn(next().await.unwrap(), long));
        let second = next().await.unwrap();
        assert_eq!(began.elapsed(), TURN_TIMEOUT);
        in_turn(second, async {}).await;
        drop(next().await.unwrap());
        assert_eq!(
            began.elapsed(),
            TURN_TIMEOUT,
            "who is quick gives it at once"
        );
        assert!(slow.await.unwrap().is_err(), "it never ended by itself");
        assert_eq!(began.elapsed(), 5 * TURN_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_handshake_is_skipped() {
        let mut waiting = HandshakeQueue(VecDeque::new());
        waiting.push("first");
        waiting.push("second");
        assert_eq!(waiting.pop(), Some("first"));
        tokio::time::advance(BUSY_TIMEOUT).await;
        waiting.push("third");
        assert_eq!(waiting.pop(), Some("second"));
        waiting.push("fourth");
        tokio::time::advance(TURN_TIMEOUT).await;
        waiting.push("fifth");
        tokio::time::advance(BUSY_TIMEOUT).await;
        assert_eq!(waiting.pop(), Some("fifth"));
        assert_eq!(waiting.pop(), None);
    }

    #[test]
    fn dropped_places_are_released() {
        let places = HandshakesByAddress::default();
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        let first = places.take(one);
        let second = places.take(one);
        assert_eq!((places.taken(one), places.taken(other)), (2, 0));
        drop(first);
        assert_eq!(places.taken(one), 1);
        drop(second);
        assert!(lock(&places.0).is_empty());
    }
}
