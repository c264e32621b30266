//! Which path to measure over RDMA next: seldom, one at a time, within a budget, and only while the links are idle.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::probing::ProbeList;
use reweave_common::rdma::{RdmaReading, Request, Transport};
use reweave_common::split_mix::SplitMix64;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Rate};

use crate::grant::{self, Allowance};

/// Between two measurements of any kind.
pub const MEASUREMENT_INTERVAL: Duration = Duration::from_secs(5);
/// The number of messages in a measurement of latency.
pub const LATENCY_MESSAGES: u32 = 20;
/// The amount of data in a measurement of bandwidth. It takes long compared with a round trip and is small for an RDMA
/// network.
pub const BANDWIDTH_BUDGET: Bytes = Bytes::new(4 << 20);

/// Two hosts need this long to set up a connection. A few messages take no longer.
const SETUP_TIME: Duration = Duration::from_millis(25);
/// Before anything is known of a way, it is taken to be as slow as this.
const ASSUMED_RATE: Rate = Rate::from_bits_per_s(1_000_000_000);

/// One host after the other, and of each first its latency and then its bandwidth.
#[derive(Debug)]
pub struct Rounds {
    peers: Vec<Ipv4Addr>,
    turn: usize,
    due: Moment,
    /// Measuring ends at this time unless a new list comes.
    until: Moment,
    /// What may be written in all, and at which rate that grows.
    allowance: Allowance,
    /// The last measured rates.
    rates: BTreeMap<Ipv4Addr, Rate>,
    rng: SplitMix64,
}

impl Rounds {
    /// `seed` is drawn at random, so that hosts do not measure in step.
    pub fn new(seed: u64) -> Self {
        Self {
            peers: vec![],
            turn: 0,
            due: Moment::default(),
            until: Moment::default(),
            allowance: Allowance::default(),
            rates: BTreeMap::new(),
            rng: SplitMix64::new(seed),
        }
    }

    /// The hosts that are probed are measured over RDMA too.
    pub fn handle_list(&mut self, now: Moment, list: &ProbeList) {
        let peers: BTreeSet<_> = list.flows.iter().map(|it| *it.destination.ip()).collect();
        let peers: Vec<_> = peers.into_iter().collect();
        if peers != self.peers {
            self.peers = peers;
            let hosts = self.peers.len().max(1) as u64;
            self.turn = self.rng.below_u64(hosts) as usize * MEASUREMENT_KINDS;
            self.due = now + self.rng.below_duration(MEASUREMENT_INTERVAL);
            self.rates.retain(|peer, _| self.peers.contains(peer));
        }
        self.allowance
            .handle_rate(now, list.most_rate, BANDWIDTH_BUDGET.count());
        self.until = grant::ends(now, list);
    }

    /// What came of a measurement.
    pub fn handle_reading(&mut self, reading: &RdmaReading) {
        if let RdmaReading::Bandwidth(seen) = reading {
            self.rates.insert(seen.peer, seen.rate());
        }
    }

    /// What to measure now, if it is time, can be paid for, and will be over before `open_until`.
    pub fn poll_request(&mut self, now: Moment, open_until: Option<Moment>) -> Option<Request> {
        if !self.is_due(now) {
            return None;
        }
        let peer = self.peers[self.turn / MEASUREMENT_KINDS % self.peers.len()];
        let request = request(peer, self.turn % MEASUREMENT_KINDS);
        if now + self.time(&request) > open_until? {
            return None;
        }
        let budget = self.allowance.budget()?;
        if !budget.take(now, bytes(&request)) {
            self.due = now + budget.wait(now, bytes(&request))?;
            return None;
        }
        self.due = now + MEASUREMENT_INTERVAL;
        self.turn = (self.turn + 1) % (self.peers.len() * MEASUREMENT_KINDS);
        Some(request)
    }

    /// Whether it is time to measure, if only the wires rest.
    pub fn is_due(&self, now: Moment) -> bool {
        !self.peers.is_empty() && (self.due..self.until).contains(&now)
    }

    /// About how long it takes.
    fn time(&self, request: &Request) -> Duration {
        let Request::Bandwidth { peer, budget } = request else {
            return SETUP_TIME;
        };
        let rate = self.rates.get(peer).copied().unwrap_or(ASSUMED_RATE);
        let bits = budget.count() as f64 * 8.0;
        SETUP_TIME + TimeSpan::from_secs_f64(bits / rate.bits_per_s().max(1) as f64).get()
    }
}

/// What is written; messages are few and short.
fn bytes(request: &Request) -> u64 {
    match request {
        Request::Bandwidth { budget, .. } => budget.count(),
        _ => 0,
    }
}

const MEASUREMENT_KINDS: usize = 3;

fn request(peer: Ipv4Addr, kind: usize) -> Request {
    let latency = |transport| Request::Latency {
        peer,
        transport,
        count: LATENCY_MESSAGES,
    };
    match kind {
        0 => latency(Transport::Ud),
        1 => latency(Transport::Rc),
        _ => Request::Bandwidth {
            peer,
            budget: BANDWIDTH_BUDGET,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use reweave_common::flow::{FlowKey, Protocol};
    use reweave_common::rdma::RdmaBandwidth;

    use super::*;

    const NO_DEADLINE: Moment = Moment::from_micros(u64::MAX / 2);

    fn list(hosts: u8) -> ProbeList {
        let end = |host| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 7333);
        // Each pair has two source ports.
        let flow = |n: u8| FlowKey {
            protocol: Protocol::Udp,
            source: end(0),
            destination: end(1 + n / 2),
        };
        ProbeList {
            flows: (0..2 * hosts).map(flow).collect(),
            period: TimeSpan::from_millis(100),
            most_rate: Rate::from_bits_per_s(100_000_000),
            roster: vec![],
            valid_for: TimeSpan::from_secs(60),
            trains_every: None,
        }
    }

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    /// What is asked for in a minute in which the list came at first, and when.
    fn minute(hosts: u8) -> Vec<(u64, Request)> {
        let mut rounds = Rounds::new(7);
        rounds.handle_list(at(0), &list(hosts));
        let steps = (0..90_000).step_by(10);
        steps
            .filter_map(|ms| Some((ms, rounds.poll_request(at(ms), Some(NO_DEADLINE))?)))
            .collect()
    }

    #[test]
    fn each_host_gets_three_measurements() {
        let asked = minute(2);
        let kind = |(_, request): &(u64, Request)| match request {
            Request::Latency {
                peer, transport, ..
            } => (*peer, Some(*transport)),
            Request::Bandwidth { peer, .. } => (*peer, None),
            other => panic!("{other:?}"),
        };
        let kinds: Vec<_> = asked.iter().map(kind).collect();
        let distinct: BTreeSet<_> = kinds.iter().collect();
        assert_eq!(distinct.len(), 2 * MEASUREMENT_KINDS);
        assert_eq!(kinds[..6], kinds[6..12]);
        let (first, second) = (kinds[0].0, kinds[3].0);
        assert!(kinds[..3].iter().all(|it| it.0 == first) && first != second);
    }

    #[test]
    fn measurements_are_spaced_and_need_list() {
        let asked = minute(3);
        assert!(asked.len() >= 11, "{}", asked.len());
        assert!(asked.windows(2).all(|it| it[1].0 - it[0].0 >= 5000));
        assert!(asked.iter().all(|(ms, _)| *ms < 60_000));
        assert_eq!(minute(0), []);
    }

    #[test]
    fn repeated_list_only_extends_expiry() {
        let mut rounds = Rounds::new(1);
        rounds.handle_list(at(0), &list(2));
        let first = (0..6000).find(|&ms| rounds.poll_request(at(ms), Some(NO_DEADLINE)).is_some());
        let first = first.expect("a request");
        rounds.handle_list(at(first + 1), &list(2));
        let mut poll = |ms| rounds.poll_request(at(ms), Some(NO_DEADLINE));
        assert_eq!(poll(first + 4999), None);
        assert!(poll(first + 5000).is_some());
        assert!(poll(first + 60_000).is_some());
    }

    /// When requests of this kind go while every half second a gap of this many milliseconds is open.
    fn in_gaps(rounds: &mut Rounds, gap_ms: u64, is_kind: impl Fn(&Request) -> bool) -> Vec<u64> {
        let mut went = vec![];
        for ms in (0..59_000).step_by(5) {
            let into = ms % 500;
            let open_until = (into < gap_ms).then(|| at(ms - into + gap_ms));
            if let Some(request) = rounds.poll_request(at(ms), open_until)
                && is_kind(&request)
            {
                went.push(ms);
            }
        }
        went
    }

    fn is_bandwidth(request: &Request) -> bool {
        matches!(request, Request::Bandwidth { .. })
    }

    #[test]
    fn measurements_fit_into_gaps() {
        let rounds = || {
            let mut rounds = Rounds::new(3);
            rounds.handle_list(at(0), &list(1));
            rounds
        };
        let in_gaps_of = |ms| in_gaps(&mut rounds(), ms, is_bandwidth);
        // 4 MiB at 1 Gb/s are 34 ms, and 25 ms for all around it.
        let went = in_gaps_of(80);
        assert!(went.len() >= 3, "{went:?}");
        assert!(went.iter().all(|ms| ms % 500 <= 20), "{went:?}");
        assert!(in_gaps_of(50).is_empty(), "they are too short");
        assert!(!in_gaps(&mut rounds(), 30, |it| !is_bandwidth(it)).is_empty());
        assert!(in_gaps(&mut rounds(), 0, |_| true).is_empty());
        let mut fast = rounds();
        fast.handle_reading(&RdmaReading::Bandwidth(RdmaBandwidth {
            peer: Ipv4Addr::new(10, 0, 0, 1),
            bytes: BANDWIDTH_BUDGET,
            took: TimeSpan::from_millis(1),
        }));
        let went = in_gaps(&mut fast, 50, is_bandwidth);
        assert!(!went.is_empty(), "it is known to be fast");
    }

    #[test]
    fn bandwidth_test_keeps_link_share() {
        let mut rounds = Rounds::new(3);
        let most_rate = Rate::from_bits_per_s(1_000_000);
        rounds.handle_list(
            at(0),
            &ProbeList {
                most_rate,
                ..list(1)
            },
        );
        let went = in_gaps(&mut rounds, 500, is_bandwidth);
        let written = went.len() as u64 * BANDWIDTH_BUDGET.count() * 8;
        assert!(
            !went.is_empty() && written <= most_rate.bits_per_s() * 59,
            "{went:?}"
        );
    }
}
