//! Trains in idle gaps, on a thread of their own: only this thread waits for arrivals.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reweave_agent_core::packet_trains::{Timetable, TrainArrivals, TrainShape};
use reweave_common::bandwidth::BandwidthReading;
use reweave_common::error::error_chain;
use reweave_common::flow::FlowKey;
use reweave_common::lock::lock;
use reweave_common::probing::ProbeList;

use super::{SharedGate, TrainError, TrainSender};
use crate::clock;
use crate::follower::Follower;

/// How often a train that is due looks whether it may go.
const DUE_POLL_INTERVAL: Duration = Duration::from_millis(20);
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Results that are not fetched are dropped.
const MAX_READINGS: usize = 4096;

/// Sends trains by the last list, until it is dropped.
pub struct TrainThread {
    follower: Follower,
    readings: Readings,
}

type Readings = Arc<Mutex<Vec<BandwidthReading>>>;

impl TrainThread {
    /// Its sockets stay in the network namespace of the caller. `seed` is drawn at random.
    pub fn start(gate: SharedGate, seed: u64) -> Self {
        let readings = Readings::default();
        let to_fill = Arc::clone(&readings);
        let timetable = Timetable::new(seed);
        let follower = Follower::start(move |lists| follow(timetable, &lists, &gate, &to_fill));
        Self { follower, readings }
    }

    pub fn handle_list(&self, list: ProbeList) {
        self.follower.handle_list(list);
    }

    /// What came of trains since the last call.
    pub fn poll_readings(&self) -> Vec<BandwidthReading> {
        std::mem::take(&mut lock(&self.readings))
    }
}

fn follow(
    mut timetable: Timetable,
    lists: &Receiver<ProbeList>,
    gate: &SharedGate,
    readings: &Mutex<Vec<BandwidthReading>>,
) {
    loop {
        match lists.recv_timeout(wait(&mut timetable)) {
            Ok(list) => timetable.handle_list(clock::now(), &list),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        while let Some((flow, shape)) = next(&mut timetable, gate) {
            let reading = match send(&flow, shape, gate) {
                Ok(crossing) => timetable.handle_verdict(&flow, crossing.verdict()),
                Err(error) => {
                    tracing::debug!("train not sent: {}", error_chain(&error));
                    if matches!(error, TrainError::Unwilling { .. } | TrainError::Missed) {
                        timetable.handle_unsent(clock::now(), &flow, shape);
                    }
                    None
                }
            };
            let mut readings = lock(readings);
            if readings.len() < MAX_READINGS {
                readings.extend(reading);
            }
        }
    }
}

fn wait(timetable: &mut Timetable) -> Duration {
    let now = clock::now();
    match timetable.next_due(now) {
        Some(due) if due <= now => DUE_POLL_INTERVAL,
        Some(due) => due.since(now).min(POLL_INTERVAL),
        None => POLL_INTERVAL,
    }
}

fn next(timetable: &mut Timetable, gate: &SharedGate) -> Option<(FlowKey, TrainShape)> {
    let now = clock::now();
    timetable.poll(now, gate.open_until(now)?)
}

/// The other host was asked meanwhile, so the gap may be over.
fn send(flow: &FlowKey, shape: TrainShape, gate: &SharedGate) -> Result<TrainArrivals, TrainError> {
    let may_go = || gate.open_until(clock::now()).is_some();
    TrainSender::open(flow, rand::random())?.send(shape, may_go)
}
