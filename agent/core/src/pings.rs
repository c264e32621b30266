//! Round-trip times to the hosts that are asked about: one echo a second to each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::sample::Reading;

use crate::probe::{Aim, Answer, Event, Probe};

const PERIOD: Duration = Duration::from_secs(1);
/// Further than any fabric is wide.
const TTL: u8 = 64;

#[derive(Debug, Default)]
pub struct Pings {
    peers: BTreeMap<Ipv4Addr, Peer>,
    measured: Vec<Reading>,
    last_id: u16,
}

#[derive(Debug)]
struct Peer {
    due: Moment,
    /// The last echo; an answer that comes after the next one was sent counts as lost.
    sent: Option<(u16, Moment)>,
}

impl Pings {
    /// Measures to `peers` from now on, and to nobody else.
    pub fn watch(&mut self, now: Moment, peers: &[Ipv4Addr]) {
        let peers: BTreeSet<_> = peers.iter().copied().collect();
        self.peers.retain(|peer, _| peers.contains(peer));
        for peer in peers {
            let new = Peer {
                due: now,
                sent: None,
            };
            self.peers.entry(peer).or_insert(new);
        }
    }

    /// An echo that shall be sent now.
    pub fn poll_probe(&mut self, now: Moment) -> Option<Probe> {
        let (&host, peer) = self.peers.iter_mut().find(|(_, peer)| peer.due <= now)?;
        let id = self.last_id % u16::MAX + 1;
        self.last_id = id;
        *peer = Peer {
            due: now + PERIOD,
            sent: Some((id, now)),
        };
        let aim = Aim::RoundTrip(host);
        Some(Probe { aim, ttl: TTL, id })
    }

    pub fn handle_answer(&mut self, at: Moment, answer: &Answer) {
        let (Aim::RoundTrip(peer), Event::Echoed) = (answer.aim, answer.event) else {
            return;
        };
        let Some(entry) = self.peers.get_mut(&peer) else {
            return;
        };
        if let Some((_, sent)) = entry.sent.take_if(|(id, _)| *id == answer.id) {
            let rtt = at.since(sent);
            self.measured.push(Reading::RoundTrip { peer, rtt });
        }
    }

    /// When [`Self::poll_probe`] next has something.
    pub fn next_due(&self) -> Option<Moment> {
        self.peers.values().map(|peer| peer.due).min()
    }

    /// What was measured since the last call.
    pub fn poll_measured(&mut self) -> Vec<Reading> {
        std::mem::take(&mut self.measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    fn sent(pings: &mut Pings, now: Moment) -> Vec<Probe> {
        std::iter::from_fn(|| pings.poll_probe(now)).collect()
    }

    fn echo(probe: &Probe) -> Answer {
        Answer {
            aim: probe.aim,
            id: probe.id,
            from: probe.destination(),
            event: Event::Echoed,
        }
    }

    #[test]
    fn each_peer_is_asked_once_a_second_and_its_answer_timed() {
        let mut pings = Pings::default();
        pings.watch(at(0), &[A, B]);
        let first = sent(&mut pings, at(0));
        assert_eq!(first.len(), 2);
        assert_eq!(sent(&mut pings, at(999)), []);
        assert_eq!(pings.next_due(), Some(at(1000)));
        pings.handle_answer(at(3), &echo(&first[1]));
        pings.handle_answer(at(9), &echo(&first[1]));
        let rtt = Duration::from_millis(3);
        let measured = [Reading::RoundTrip { peer: B, rtt }];
        assert_eq!(pings.poll_measured(), measured, "once, not per answer");
        assert_eq!(sent(&mut pings, at(1000)).len(), 2);
    }

    #[test]
    fn an_answer_to_an_earlier_echo_or_of_a_dropped_peer_is_nothing() {
        let mut pings = Pings::default();
        pings.watch(at(0), &[A]);
        let first = sent(&mut pings, at(0));
        let second = sent(&mut pings, at(1000));
        pings.handle_answer(at(1001), &echo(&first[0]));
        pings.watch(at(1002), &[B]);
        pings.handle_answer(at(1003), &echo(&second[0]));
        assert_eq!(pings.poll_measured(), []);
    }

    #[test]
    fn watching_the_same_again_sends_nothing_early() {
        let mut pings = Pings::default();
        pings.watch(at(0), &[A]);
        sent(&mut pings, at(0));
        pings.watch(at(10), &[A]);
        assert_eq!(sent(&mut pings, at(10)), []);
    }

    #[test]
    fn ids_are_never_zero() {
        let mut pings = Pings {
            last_id: u16::MAX - 1,
            ..Pings::default()
        };
        pings.watch(at(0), &[A, B]);
        let ids: Vec<_> = sent(&mut pings, at(0))
            .iter()
            .map(|probe| probe.id)
            .collect();
        assert_eq!(ids, [u16::MAX, 1]);
    }
}
