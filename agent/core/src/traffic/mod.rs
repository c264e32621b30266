//! A host's traffic by peer, from any available counters.

mod datagrams;
mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::traffic::{PeerTraffic, Volume};

pub use datagrams::DatagramBook;
pub use sockets::SocketTraffic;

/// The direction as seen from the host that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    Sent,
    Received,
}

/// What was counted at the interfaces of a host since counting began, transit included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficCounts {
    pub pairs: Vec<PairCount>,
    pub flows: Vec<FlowCount>,
    pub unknown_packets: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairCount {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub direction: Direction,
    pub volume: Volume,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowCount {
    pub flow: FlowKey,
    pub direction: Direction,
    pub volume: Volume,
    /// The duration without pauses. None where it is not measured.
    pub busy: Option<Duration>,
}

/// The limit is larger than the number of peers that a host of a large job has.
const MAX_PEERS: usize = 2048;

/// What the host with the addresses `own` exchanged with others, by peer. Where there are too many, those with
/// the most bytes.
pub fn peers(pairs: &[PairCount], own: &BTreeSet<Ipv4Addr>) -> Vec<PeerTraffic> {
    let mut volumes: BTreeMap<Ipv4Addr, [Volume; 2]> = BTreeMap::new();
    for pair in pairs {
        if let Some((peer, direction)) = peer_of(pair, own) {
            volumes.entry(peer).or_default()[direction as usize].add(pair.volume);
        }
    }
    let peers = volumes.into_iter();
    most(peers.map(|(peer, [sent, received])| PeerTraffic {
        peer,
        sent,
        received,
    }))
}

fn peer_of(pair: &PairCount, own: &BTreeSet<Ipv4Addr>) -> Option<(Ipv4Addr, Direction)> {
    let [from_us, to_us] = [pair.source, pair.destination].map(|it| own.contains(&it));
    match (pair.direction, from_us, to_us) {
        (Direction::Sent, true, false) => Some((pair.destination, Direction::Sent)),
        (Direction::Received, false, true) => Some((pair.source, Direction::Received)),
        _ => None,
    }
}

fn most(peers: impl Iterator<Item = PeerTraffic>) -> Vec<PeerTraffic> {
    let mut peers: Vec<_> = peers.collect();
    if peers.len() > MAX_PEERS {
        let bytes = |it: &PeerTraffic| it.sent.bytes + it.received.bytes;
        peers.sort_by_key(|it| (std::cmp::Reverse(bytes(it)), it.peer));
        peers.truncate(MAX_PEERS);
        peers.sort_by_key(|it| it.peer);
    }
    peers
}

#[cfg(test)]
mod tests {
    use reweave_common::units::Bytes;

    use super::*;

    fn host(number: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, number)
    }

    fn volume(bytes: u64) -> Volume {
        Volume {
            bytes: Bytes::new(bytes),
            packets: Some(1),
        }
    }

    fn pair(from: u8, to: u8, direction: Direction, bytes: u64) -> PairCount {
        PairCount {
            source: host(from),
            destination: host(to),
            direction,
            volume: volume(bytes),
        }
    }

    #[test]
    fn forwarded_traffic_is_not_own() {
        let own = BTreeSet::from([host(1), host(9)]);
        let pairs = [
            pair(1, 2, Direction::Sent, 100),
            pair(9, 2, Direction::Sent, 10),
            pair(2, 1, Direction::Received, 7),
            pair(3, 2, Direction::Received, 1000),
            pair(3, 2, Direction::Sent, 1000),
            pair(1, 9, Direction::Sent, 5),
        ];
        let expected = PeerTraffic {
            peer: host(2),
            sent: Volume {
                bytes: Bytes::new(110),
                packets: Some(2),
            },
            received: volume(7),
        };
        assert_eq!(peers(&pairs, &own), [expected]);
    }

    #[test]
    fn busiest_peers_are_kept() {
        let own = BTreeSet::from([host(1)]);
        let pairs: Vec<_> = (0..5000_u32)
            .map(|number| PairCount {
                source: host(1),
                destination: Ipv4Addr::from(0x0b00_0000 + number),
                direction: Direction::Sent,
                volume: volume(u64::from(number)),
            })
            .collect();
        let peers = peers(&pairs, &own);
        assert_eq!(peers.len(), MAX_PEERS);
        assert_eq!(peers[0].sent.bytes, Bytes::new(5000 - MAX_PEERS as u64));
    }
}
