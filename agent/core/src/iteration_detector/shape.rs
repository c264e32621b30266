//! The communication pattern of a job, by this host's traffic with each peer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::periodicity::ExchangePattern;
use reweave_common::traffic::PeerTraffic;

/// The window of the exchange.
const EXCHANGE_WINDOW: Duration = Duration::from_secs(20);
/// Peers with a smaller share only have acknowledgements and control traffic.
const MIN_PEER_SHARE: f64 = 0.1;
/// Shares within this factor are equal.
const MAX_EQUAL_RATIO: f64 = 2.0;
/// A host that sends and receives at the same time this much is part of a ring, not of a pipeline.
const MIN_RING_OVERLAP: f64 = 0.5;

type Totals = BTreeMap<Ipv4Addr, [u64; 2]>;

#[derive(Debug, Default)]
pub(super) struct PeerBook {
    /// The totals at some moments of the window.
    totals: VecDeque<(Moment, Totals)>,
}

/// Bytes by relevant peer.
type Share = BTreeMap<Ipv4Addr, f64>;

impl PeerBook {
    pub(super) fn handle_peers(&mut self, now: Moment, peers: &[PeerTraffic]) {
        let counts = |peer: &PeerTraffic| {
            let volumes = [peer.sent, peer.received];
            (peer.peer, volumes.map(|volume| volume.bytes.count()))
        };
        self.totals
            .push_back((now, peers.iter().map(counts).collect()));
        // The totals before the window are kept as its baseline.
        while self.totals.len() > 2 && now.since(self.totals[1].0) > EXCHANGE_WINDOW {
            self.totals.pop_front();
        }
        while self.totals.len() > 256 {
            self.totals.pop_front();
        }
    }

    /// None if it matches no shape, or peers are unknown.
    pub(super) fn shape(&self, overlap: f64) -> Option<ExchangePattern> {
        let [mut sent, mut received] = [self.share(0)?, self.share(1)?];
        let shares = sent.values().chain(received.values());
        let least = MIN_PEER_SHARE * shares.copied().fold(0.0, f64::max);
        for share in [&mut sent, &mut received] {
            share.retain(|_, bytes| *bytes > 0.0 && *bytes >= least);
        }
        let [to, from] = [&sent, &received].map(|share| share.keys().collect::<BTreeSet<_>>());
        match (to.len(), from.len(), to == from) {
            (1, 1, false) if is_even([total(&sent), total(&received)]) => {
                Some(ExchangePattern::Ring)
            }
            (1, 1, true) if overlap >= MIN_RING_OVERLAP => Some(ExchangePattern::Ring),
            (1, 1, true) | (2, 2, true) => Some(ExchangePattern::Pipeline),
            (3.., 3.., true) => {
                let even = is_even(sent.into_values()) && is_even(received.into_values());
                even.then_some(ExchangePattern::AllToAll)
            }
            _ => None,
        }
    }

    /// The bytes sent and received per second since then.
    pub(super) fn per_second_since(&self, since: Moment) -> Option<[f64; 2]> {
        let (first, before) = self.totals.iter().find(|(at, _)| *at >= since)?;
        let (last, now) = self.totals.back()?;
        let seconds = last.since(*first).as_secs_f64();
        let bytes = |totals: &Totals, direction: usize| {
            let bytes = totals.values().map(|counts| counts[direction]);
            bytes.sum::<u64>()
        };
        let grown = |direction| bytes(now, direction).saturating_sub(bytes(before, direction));
        (seconds > 0.0).then(|| [0, 1].map(|direction| grown(direction) as f64 / seconds))
    }

    /// The traffic of one direction in the window.
    fn share(&self, direction: usize) -> Option<Share> {
        let ((_, before), (_, now)) = (self.totals.front()?, self.totals.back()?);
        let grown = now.iter().map(|(&peer, counts)| {
            let before = before.get(&peer).map_or(0, |counts| counts[direction]);
            (peer, counts[direction].saturating_sub(before) as f64)
        });
        Some(grown.collect())
    }
}

fn total(share: &Share) -> f64 {
    share.values().sum()
}

fn is_even(values: impl IntoIterator<Item = f64>) -> bool {
    let values: Vec<_> = values.into_iter().collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    most <= MAX_EQUAL_RATIO * least
}

#[cfg(test)]
mod tests {
    use reweave_common::traffic::Volume;
    use reweave_common::units::Bytes;

    use super::*;

    /// The shape of this traffic with the peers 10.0.0.1, 10.0.0.2, ...
    fn shape(exchanged: &[[u64; 2]], overlap: f64) -> Option<ExchangePattern> {
        let mut book = PeerBook::default();
        let volume = |bytes| Volume {
            bytes: Bytes::new(bytes),
            packets: None,
        };
        let peers = |rounds: u64| -> Vec<_> {
            let exchanged = (1..).zip(exchanged);
            exchanged
                .map(|(host, &[sent, received])| PeerTraffic {
                    peer: Ipv4Addr::new(10, 0, 0, host),
                    sent: volume(7 + sent * rounds),
                    received: volume(9 + received * rounds),
                })
                .collect()
        };
        book.handle_peers(Moment::from_micros(0), &peers(5));
        book.handle_peers(Moment::from_micros(1_000_000), &peers(6));
        book.shape(overlap)
    }

    #[test]
    fn collective_shapes_are_recognized() {
        // Acknowledgements flow in the other direction.
        assert_eq!(
            shape(&[[1000, 30], [30, 1000]], 0.8),
            Some(ExchangePattern::Ring)
        );
        assert_eq!(shape(&[[1000, 1000]], 0.8), Some(ExchangePattern::Ring));
        assert_eq!(shape(&[[1000, 1000]], 0.1), Some(ExchangePattern::Pipeline));
        assert_eq!(
            shape(&[[1000, 900], [900, 1000]], 0.4),
            Some(ExchangePattern::Pipeline)
        );
        assert_eq!(
            shape(&[[500, 500]; 7], 0.8),
            Some(ExchangePattern::AllToAll)
        );
    }

    #[test]
    fn unknown_pattern_has_no_shape() {
        assert_eq!(shape(&[[1000, 30]], 0.0), None, "no ring without a return");
        assert_eq!(shape(&[[1000, 30], [30, 100]], 0.0), None, "uneven");
        assert_eq!(
            shape(&[[500, 500], [500, 500], [100, 100]], 0.8),
            None,
            "uneven"
        );
        assert_eq!(shape(&[], 0.5), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut book = PeerBook::default();
        for second in 0..10_000 {
            book.handle_peers(Moment::from_micros(second * 50_000), &[]);
        }
        assert!(book.totals.len() <= 256);
    }
}
