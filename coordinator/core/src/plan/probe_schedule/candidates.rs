//! Candidate flows of probes: in a large cluster not all possible ones, but as many as can be traced. Each host
//! probes some of its peers from all its ports, and the rest from one.

use std::net::Ipv4Addr;
use std::ops::Range;

use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;

use super::{FIRST_SOURCE_PORT, flows};

/// With more flows, tracing all their paths would take too long.
pub(super) const MAX_TRACED_FLOWS: usize = 1 << 16;
/// The peers that a host probes from all ports are shifted by this from one host to the next, so that two hosts of a
/// rack probe different racks.
const PEER_STRIDE: usize = 7;

/// Two addresses of which one probes the other.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) peer: NodeId,
    ends: [Ipv4Addr; 2],
    ports: Range<u16>,
    /// Whether a selection of its flows is sent.
    pub(super) is_open: bool,
}

impl Pair {
    pub(super) fn flows(&self) -> impl Iterator<Item = FlowKey> + use<> {
        flows(self.ends, self.ports.clone())
    }
}

/// Each pair's share of all candidate flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    ports: u16,
    peers: usize,
}

impl Share {
    /// The share if this many addresses use this many ports each.
    pub(super) fn of(addresses: usize, ports: u16) -> Self {
        let each = (MAX_TRACED_FLOWS / addresses.max(1)).max(1);
        let ports = ports.min(u16::try_from(each).unwrap_or(u16::MAX)).max(1);
        Self {
            ports,
            peers: (each / usize::from(ports)).max(1),
        }
    }

    /// The pair of the nth host with its peer at this place.
    pub(super) fn pair(
        self,
        nth: usize,
        place: usize,
        places: usize,
        peer: NodeId,
        ends: [Ipv4Addr; 2],
    ) -> Pair {
        let is_open = self.is_open((place + nth * PEER_STRIDE) % places.max(1), places);
        let by = FIRST_SOURCE_PORT + ((nth + place) % usize::from(self.ports)) as u16;
        let ports = if is_open {
            FIRST_SOURCE_PORT..FIRST_SOURCE_PORT + self.ports
        } else {
            by..by + 1
        };
        Pair {
            peer,
            ends,
            ports,
            is_open,
        }
    }

    /// Whether the pair is probed from all ports: such places are spread evenly.
    fn is_open(self, place: usize, places: usize) -> bool {
        let before = |place: usize| (place * self.peers).div_ceil(places.max(1));
        self.peers >= places || before(place + 1) > before(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_candidates_shrink_with_cluster_size() {
        let share = |addresses, ports| {
            let Share { ports, peers } = Share::of(addresses, ports);
            (ports, peers)
        };
        assert_eq!(share(256, 4), (4, 64));
        assert_eq!(share(1024, 4), (4, 16));
        assert_eq!(share(10_000, 4), (4, 1));
        assert_eq!(share(10_000, 64), (6, 1));
        assert_eq!(share(100_000, 4), (1, 1));
    }

    #[test]
    fn share_of_peers_is_even() {
        for peers in 1..=64 {
            let share = Share { ports: 4, peers };
            let open: Vec<_> = (0..64).filter(|place| share.is_open(*place, 64)).collect();
            assert_eq!(open.len(), peers);
            let gaps = open.windows(2).map(|two| two[1] - two[0]);
            assert!(gaps.into_iter().all(|gap| gap <= 64_usize.div_ceil(peers)));
        }
    }
}
