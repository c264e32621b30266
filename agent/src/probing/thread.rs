//! Probing on a thread of its own, so that the agent's other work delays no timestamp or answer.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use reweave_common::error::error_chain;
use reweave_common::flow::FlowKey;
use reweave_common::hardware::Lack;
use reweave_common::lock::lock;
use reweave_common::probing::{PortStrays, ProbeList, ProbeReading, ProbeTally};

use super::engine::Engine;
use crate::follower::Follower;

/// The longest delay of a new list.
const TURN_TIMEOUT: Duration = Duration::from_millis(50);
/// The interval of turns, which keeps the agent's cost low. It counts as the program's time, at the prober and the
/// responder, and never as the network's.
const TURN_INTERVAL: Duration = Duration::from_millis(80);
/// The usual work of a turn. With more, the interval is shorter, because waiting packets must fit into the kernel's
/// buffers.
const BUSY_TURN_PACKETS: u32 = 128;
/// The interval at which readings are handed over.
const SHARE_INTERVAL: Duration = Duration::from_secs(1);
/// Just after a new list, readings are handed over at each turn: an operator waits for them.
const EAGER_SHARE_TIME: Duration = Duration::from_secs(2);

pub struct ProbeThread {
    follower: Follower,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    tallies: BTreeMap<FlowKey, ProbeTally>,
    strays: PortStrays,
    lack: Option<Lack>,
}

impl ProbeThread {
    /// Its sockets belong to the caller's network namespace.
    pub fn start(engine: Engine) -> Self {
        let shared = Arc::default();
        let to_fill = Arc::clone(&shared);
        let follower = Follower::start(move |lists| follow(engine, &lists, &to_fill));
        Self { follower, shared }
    }

    pub fn handle_list(&self, list: ProbeList) {
        self.follower.handle_list(list);
    }

    /// Probe results since the last call.
    pub fn poll_readings(&self) -> Vec<ProbeReading> {
        let tallies = std::mem::take(&mut lock(&self.shared).tallies);
        let reading = |(flow, tally)| ProbeReading { flow, tally };
        tallies.into_iter().map(reading).collect()
    }

    /// Unexpected packets so far, at the sending ports and at the answering port.
    pub fn strays(&self) -> PortStrays {
        lock(&self.shared).strays
    }

    /// Why probes of others cannot be answered, if so.
    pub fn lack(&self) -> Option<Lack> {
        lock(&self.shared).lack.clone()
    }
}

fn follow(mut engine: Engine, lists: &Receiver<ProbeList>, shared: &Mutex<Shared>) {
    let (mut shared_at, mut first_until) = (Instant::now(), Instant::now());
    loop {
        match lists.try_recv() {
            Ok(list) => {
                if !engine.knows(&list) {
                    first_until = Instant::now() + EAGER_SHARE_TIME;
                }
                if let Err(error) = engine.handle_list(list) {
                    tracing::warn!("some hosts are not probed: {}", error_chain(&error));
                }
            }
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {}
        }
        let done = match engine.turn(TURN_TIMEOUT) {
            Ok(done) => done,
            Err(error) => return tracing::error!("probing stopped: {}", error_chain(&error)),
        };
        // Packets that arrive meanwhile have their timestamps and are read together in one turn. A train would be too
        // many.
        if !engine.expects_train() {
            thread::park_timeout(pause(done));
        }
        let is_first = Instant::now() < first_until;
        if is_first || shared_at.elapsed() >= SHARE_INTERVAL {
            shared_at = Instant::now();
            share(&mut engine, shared);
        }
    }
}

/// The pause after a turn with this much work.
fn pause(done: usize) -> Duration {
    let done = u32::try_from(done).unwrap_or(u32::MAX);
    TURN_INTERVAL * BUSY_TURN_PACKETS / done.max(BUSY_TURN_PACKETS)
}

fn share(engine: &mut Engine, shared: &Mutex<Shared>) {
    let mut shared = lock(shared);
    for ProbeReading { flow, tally } in engine.poll_readings() {
        match shared.tallies.entry(flow) {
            Entry::Vacant(place) => drop(place.insert(tally)),
            Entry::Occupied(mut held) => held.get_mut().merge(&tally),
        }
    }
    shared.strays = engine.strays();
    shared.lack = engine.lack();
}
