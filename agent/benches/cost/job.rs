//! Jobs on a link of one gigabit, and what they lose to an agent. Two states of the agent take turns, so that other
//! work of the machine hits both alike.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use reweave_common::lock::lock;

use crate::scene::within;

/// After a change of state.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// Sends for as long as it is there, as fast as it can.
pub(crate) struct Flood {
    received: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    looked: (Instant, u64),
}

impl Flood {
    pub(crate) fn start(from: &str, peer: Ipv4Addr) -> Self {
        let (mut sender, mut receiver) = connect(from, peer);
        let (received, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, ends) = (Arc::clone(&received), Arc::clone(&over));
        thread::spawn(move || {
            let data = vec![7; 1 << 18];
            while !ends.load(Ordering::Relaxed) && sender.write_all(&data).is_ok() {}
        });
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 18];
            while let Ok(length @ 1..) = receiver.read(&mut buffer) {
                count.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        Self {
            received,
            over,
            looked: (Instant::now(), 0),
        }
    }

    /// Bytes in a second, since it was last asked.
    pub(crate) fn speed(&mut self) -> f64 {
        let now = (Instant::now(), self.received.load(Ordering::Relaxed));
        let before = std::mem::replace(&mut self.looked, now);
        (now.1 - before.1) as f64 / (now.0 - before.0).as_secs_f64()
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Computes for a while, sends, waits until all has come, and begins again.
pub(crate) struct Training {
    iterations: Arc<Mutex<Vec<Duration>>>,
    over: Arc<AtomicBool>,
}

impl Training {
    pub(crate) fn start(from: &str, peer: Ipv4Addr, computes: Duration, bytes: usize) -> Self {
        let (mut sender, mut receiver) = connect(from, peer);
        let (iterations, over) = (
            Arc::<Mutex<Vec<_>>>::default(),
            Arc::<AtomicBool>::default(),
        );
        let (noted, ends) = (Arc::clone(&iterations), Arc::clone(&over));
        thread::spawn(move || {
            let mut data = vec![0; bytes];
            while receiver.read_exact(&mut data).is_ok() && receiver.write_all(&[1]).is_ok() {}
        });
        thread::spawn(move || {
            let data = vec![7; bytes];
            while !ends.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::sleep(computes);
                if sender.write_all(&data).is_err() || sender.read_exact(&mut [0]).is_err() {
                    break;
                }
                lock(&noted).push(began.elapsed());
            }
        });
        Self { iterations, over }
    }

    /// Iterations in a second, as those took that have ended since it was last asked.
    pub(crate) fn speed(&self) -> f64 {
        let iterations = std::mem::take(&mut *lock(&self.iterations));
        let took: Duration = iterations.iter().sum();
        iterations.len() as f64 / took.as_secs_f64()
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// How much less a job gets done in the one state than in the other, in percent: the median of all pairs of turns, each
/// of which takes this long.
pub(crate) async fn loses_percent(
    pairs: usize,
    turn: Duration,
    mut set: impl AsyncFnMut(bool),
    mut speed: impl FnMut() -> f64,
) -> f64 {
    let mut ratios = vec![];
    for pair in 0..pairs {
        let first = pair % 2 == 0;
        let mut speeds = [0.0; 2];
        for state in [first, !first] {
            set(state).await;
            tokio::time::sleep(SETTLE_TIME).await;
            speed();
            tokio::time::sleep(turn).await;
            speeds[usize::from(state)] = speed();
        }
        ratios.push(speeds[1] / speeds[0]);
    }
    ratios.sort_by(f64::total_cmp);
    (1.0 - ratios[ratios.len() / 2]) * 100.0
}

fn connect(from: &str, peer: Ipv4Addr) -> (TcpStream, TcpStream) {
    let listener = within("peers", || TcpListener::bind((peer, 0)).expect("a port"));
    let at = listener.local_addr().expect("bound");
    let sender = within(from, || TcpStream::connect(at).expect("it is reached"));
    let (receiver, _) = listener.accept().expect("it comes");
    (sender, receiver)
}
