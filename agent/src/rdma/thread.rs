//! RDMA measurements on a thread of their own, since the helper takes its time.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use reweave_agent_core::rdma::Rounds;
use reweave_common::error::error_chain;
use reweave_common::hardware::Lack;
use reweave_common::lock::lock;
use reweave_common::moment::Moment;
use reweave_common::probing::ProbeList;
use reweave_common::rdma::{RdmaPort, RdmaReading, Request};
use reweave_common::sample::HostReading;

use super::{Helper, RdmaError};
use crate::clock;
use crate::packet_trains::SharedGate;

/// Ports change seldom; RDMA is added to a machine even more seldom.
const PORTS_INTERVAL: Duration = Duration::from_secs(30);
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// The interval at which a due measurement checks whether it may start.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const DUE_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Results that are not fetched are dropped.
const MAX_NEWS: usize = 256;

/// Measures until it is dropped.
pub struct RdmaThread {
    lists: Sender<ProbeList>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    ports: Vec<RdmaPort>,
    lack: Option<Lack>,
    news: Vec<RdmaReading>,
}

impl RdmaThread {
    /// Measures while the gate is open. `seed` is random.
    pub fn start(gate: SharedGate, seed: u64) -> Self {
        let (lists, to_follow) = channel();
        let shared = Arc::default();
        let keeper = Keeper {
            lists: to_follow,
            shared: Arc::clone(&shared),
            rounds: Rounds::new(seed),
            gate,
            roster: vec![],
            failures: BTreeMap::new(),
        };
        // It may be measuring when the agent ends, and holds nothing that would remain.
        thread::spawn(move || keeper.keep());
        Self { lists, shared }
    }

    pub fn handle_list(&self, list: &ProbeList) {
        let _ = self.lists.send(list.clone());
    }

    /// The ports, and the results since the last call.
    pub fn poll_readings(&self) -> Vec<HostReading> {
        let mut shared = lock(&self.shared);
        let news = std::mem::take(&mut shared.news).into_iter().map(Box::new);
        let mut readings: Vec<_> = news.map(HostReading::Rdma).collect();
        let ports = shared.ports.iter().cloned().map(Box::new);
        readings.extend(ports.map(HostReading::RdmaPort));
        readings.extend(shared.lack.clone().map(HostReading::Lack));
        readings
    }
}

/// The agent has ended.
struct Over;

struct Keeper {
    lists: Receiver<ProbeList>,
    shared: Arc<Mutex<Shared>>,
    rounds: Rounds,
    gate: SharedGate,
    roster: Vec<Ipv4Addr>,
    /// The last error of each host: a repeated one is reported once.
    failures: BTreeMap<Ipv4Addr, String>,
}

impl Keeper {
    /// Runs with a helper, and starts a new one at intervals when there is none.
    fn keep(mut self) {
        loop {
            let error = match self.work() {
                Ok(Over) => return,
                Err(error) => error,
            };
            self.note_lack(&error);
            let retry = Instant::now() + RETRY_INTERVAL;
            while Instant::now() < retry {
                if let Err(Over) = self.hear(POLL_INTERVAL) {
                    return;
                }
            }
        }
    }

    fn work(&mut self) -> Result<Over, RdmaError> {
        let mut helper = Helper::start()?;
        let mut looked = None::<Instant>;
        let mut served = None;
        loop {
            if looked.is_none_or(|at| at.elapsed() >= PORTS_INTERVAL) {
                let ports = helper.ports()?;
                let mut shared = lock(&self.shared);
                (shared.ports, shared.lack) = (ports, None);
                looked = Some(Instant::now());
            }
            if served.as_ref() != Some(&self.roster) {
                helper.serve(self.roster.clone())?;
                served = Some(self.roster.clone());
            }
            let now = clock::now();
            let patience = if self.rounds.is_due(now) {
                DUE_POLL_INTERVAL
            } else {
                POLL_INTERVAL
            };
            if let Err(over) = self.hear(patience) {
                return Ok(over);
            }
            let now = clock::now();
            if let Some(request) = self.rounds.poll_request(now, self.open_until(now)) {
                self.measure(&mut helper, &request)?;
            }
        }
    }

    /// A failed measurement keeps the helper; only its end does not.
    fn measure(&mut self, helper: &mut Helper, request: &Request) -> Result<(), RdmaError> {
        match helper.measure(request) {
            Ok(reading) => {
                self.failures.remove(&reading.peer());
                self.rounds.handle_reading(&reading);
                let mut shared = lock(&self.shared);
                if shared.news.len() < MAX_NEWS {
                    shared.news.push(reading);
                }
                Ok(())
            }
            Err(RdmaError::Failed { because }) => {
                self.complain(request, because);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Without readings of the links, gaps are unknown.
    fn open_until(&self, now: Moment) -> Option<Moment> {
        if self.gate.is_watched() {
            self.gate.open_until(now)
        } else {
            Some(now + POLL_INTERVAL)
        }
    }

    fn complain(&mut self, request: &Request, because: String) {
        let (Request::Latency { peer, .. } | Request::Bandwidth { peer, .. }) = request else {
            return;
        };
        if self.failures.get(peer) != Some(&because) {
            tracing::warn!("{peer} cannot be measured over RDMA: {because}");
            self.failures.insert(*peer, because);
        }
    }

    fn hear(&mut self, patience: Duration) -> Result<(), Over> {
        match self.lists.recv_timeout(patience) {
            Ok(list) => {
                self.rounds.handle_list(clock::now(), &list);
                self.failures.retain(|host, _| list.roster.contains(host));
                self.roster = list.roster;
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(Over),
        }
    }

    fn note_lack(&self, error: &RdmaError) {
        let lack = error.lack();
        let mut shared = lock(&self.shared);
        if shared.lack.as_ref() != Some(&lack) {
            tracing::info!("rdma unavailable: {}", error_chain(error));
        }
        shared.ports.clear();
        shared.lack = Some(lack);
    }
}
