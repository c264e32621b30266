//! Which way to measure over RDMA next: seldom, one at a time, and no more than a budget.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::probing::ProbeList;
use reweave_common::rdma::{Request, Transport};
use reweave_common::units::Bytes;

use crate::random::Random;

/// Between two measurements, whatever they are.
pub const PERIOD: Duration = Duration::from_secs(5);
/// Of a measurement of latency.
pub const MESSAGES: u32 = 20;
/// Of a measurement of bandwidth: long against the way there and back, and little to a network of RDMA.
pub const BUDGET: Bytes = Bytes::new(4 << 20);

/// No list is worth more than that.
const LONGEST: Duration = Duration::from_secs(3600);

/// One host after the other, and of each first its latency and then its bandwidth.
#[derive(Debug)]
pub struct Rounds {
    peers: Vec<Ipv4Addr>,
    turn: usize,
    due: Moment,
    /// Without a fresh list, measuring ends then.
    until: Moment,
    random: Random,
}

impl Rounds {
    /// `seed` is drawn at random, so that hosts do not measure in step.
    pub fn new(seed: u64) -> Self {
        Self {
            peers: vec![],
            turn: 0,
            due: Moment::default(),
            until: Moment::default(),
            random: Random::new(seed),
        }
    }

    /// The hosts that are probed are measured over RDMA too.
    pub fn handle_list(&mut self, now: Moment, list: &ProbeList) {
        let peers: BTreeSet<_> = list.flows.iter().map(|it| *it.destination.ip()).collect();
        let peers: Vec<_> = peers.into_iter().collect();
        if peers != self.peers {
            self.peers = peers;
            let hosts = self.peers.len().max(1) as u64;
            self.turn = (self.random.draw() % hosts) as usize * KINDS;
            self.due = now + self.random.below(PERIOD);
        }
        self.until = now + list.valid_for.min(LONGEST);
    }

    /// What to measure now, if it is time.
    pub fn poll_request(&mut self, now: Moment) -> Option<Request> {
        if self.peers.is_empty() || now < self.due || now >= self.until {
            return None;
        }
        self.due = now + PERIOD;
        let turn = self.turn;
        self.turn = (turn + 1) % (self.peers.len() * KINDS);
        let peer = self.peers[turn / KINDS % self.peers.len()];
        Some(request(peer, turn % KINDS))
    }
}

const KINDS: usize = 3;

fn request(peer: Ipv4Addr, kind: usize) -> Request {
    let latency = |transport| Request::Latency {
        peer,
        transport,
        count: MESSAGES,
    };
    match kind {
        0 => latency(Transport::Ud),
        1 => latency(Transport::Rc),
        _ => Request::Bandwidth {
            peer,
            budget: BUDGET,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use reweave_common::flow::{FlowKey, Protocol};
    use reweave_common::units::Rate;

    use super::*;

    fn list(hosts: u8) -> ProbeList {
        let end = |host| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 7333);
        // Each by two source ports.
        let flow = |n: u8| FlowKey {
            protocol: Protocol::Udp,
            source: end(0),
            destination: end(1 + n / 2),
        };
        ProbeList {
            flows: (0..2 * hosts).map(flow).collect(),
            period: Duration::from_millis(100),
            most_rate: Rate::from_bits_per_s(1),
            roster: vec![],
            valid_for: Duration::from_secs(60),
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
            .filter_map(|ms| Some((ms, rounds.poll_request(at(ms))?)))
            .collect()
    }

    #[test]
    fn each_host_has_its_turn_and_each_turn_three_measurements() {
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
        assert_eq!(distinct.len(), 2 * KINDS);
        assert_eq!(kinds[..6], kinds[6..12]);
        let (first, second) = (kinds[0].0, kinds[3].0);
        assert!(kinds[..3].iter().all(|it| it.0 == first) && first != second);
    }

    #[test]
    fn nothing_is_asked_for_too_often_or_without_a_fresh_list() {
        let asked = minute(3);
        assert!(asked.len() >= 11, "{}", asked.len());
        assert!(asked.windows(2).all(|it| it[1].0 - it[0].0 >= 5000));
        assert!(asked.iter().all(|(ms, _)| *ms < 60_000));
        assert_eq!(minute(0), []);
    }

    #[test]
    fn the_same_list_again_changes_nothing_but_how_long_it_is_good_for() {
        let mut rounds = Rounds::new(1);
        rounds.handle_list(at(0), &list(2));
        let first = (0..6000).find(|&ms| rounds.poll_request(at(ms)).is_some());
        let first = first.expect("a request");
        rounds.handle_list(at(first + 1), &list(2));
        assert_eq!(rounds.poll_request(at(first + 4999)), None);
        assert!(rounds.poll_request(at(first + 5000)).is_some());
        assert!(rounds.poll_request(at(first + 60_000)).is_some());
    }
}
