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

/// A new list waits no longer than that.
const TURN_TIMEOUT: Duration = Duration::from_millis(50);
/// Between two turns, so that an agent costs its host little. It counts as the program's time, at
/// the prober as at the responder, and never as the network's.
const TURN_INTERVAL: Duration = Duration::from_millis(80);
/// What a turn should find to do. Where there is more, the pause is shorter: what waits must fit into
/// the kernel's buffers.
const BUSY_TURN_PACKETS: u32 = 128;
/// Readings are handed over this often.
const SHARE_INTERVAL: Duration = Duration::from_secs(1);
/// Those of a new list's first moments at each turn: an operator waits to hear of its flows.
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
    /// Its sockets stay in the network namespace they were opened in: that of the caller.
    pub fn start(engine: Engine) -> Self {
        let shared = Arc::default();
        let to_fill = Arc::clone(&shared);
        let follower = Follower::start(move |lists| follow(engine, &lists, &to_fill));
        Self { follower, shared }
    }

    pub fn handle_list(&self, list: ProbeList) {
        self.follower.handle_list(list);
    }

    /// What came of probes since the last call.
    pub fn poll_readings(&self) -> Vec<ProbeReading> {
        let tallies = std::mem::take(&mut lock(&self.shared).tallies);
        let reading = |(flow, tally)| ProbeReading { flow, tally };
        tallies.into_iter().map(reading).collect()
    }

    /// Packets that were of no use so far, at the ports that ask and the port that answers.
    pub fn strays(&self) -> PortStrays {
        lock(&self.shared).strays
    }

    /// What keeps probes of others from being answered.
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
        // Packets that come in the meantime have their stamps, and wait for one turn together. A
        // train would be too many.
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

/// After a turn that had this much to do.
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
