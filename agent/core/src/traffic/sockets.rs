//! Bytes by TCP socket: the fallback without other counters.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use reweave_common::flow::FlowKey;
use reweave_common::traffic::{PeerTraffic, Volume};
use reweave_common::units::Bytes;

use super::most;
use crate::flows::{Socket, leaves_the_host};

/// Sums by peer of the bytes that sockets carry while they live.
#[derive(Debug, Default)]
pub struct SocketTraffic {
    /// None before the first look.
    last: Option<BTreeMap<FlowKey, [Bytes; 2]>>,
    peers: BTreeMap<Ipv4Addr, [Bytes; 2]>,
}

impl SocketTraffic {
    /// `sockets` are all there are now. What was carried before the first look does not count.
    pub fn handle_sockets(&mut self, sockets: &[Socket]) -> Vec<PeerTraffic> {
        let last = self.last.take();
        let mut seen = BTreeMap::new();
        for socket in sockets
            .iter()
            .filter(|socket| leaves_the_host(&socket.flow))
        {
            let now = [socket.acked, socket.received];
            let before = last
                .as_ref()
                .map_or(Some(&now), |last| last.get(&socket.flow));
            let before = before.copied().unwrap_or_default();
            let sums = self.peers.entry(*socket.flow.destination.ip()).or_default();
            for (sum, (now, before)) in sums.iter_mut().zip(now.into_iter().zip(before)) {
                // A port used again counts from zero.
                let grown = now.count().checked_sub(before.count());
                *sum += Bytes::new(grown.unwrap_or(now.count()));
            }
            seen.insert(socket.flow, now);
        }
        self.last = Some(seen);
        self.peers()
    }

    fn peers(&self) -> Vec<PeerTraffic> {
        let volume = |bytes| Volume {
            bytes,
            packets: None,
        };
        most(
            self.peers
                .iter()
                .map(|(&peer, &[sent, received])| PeerTraffic {
                    peer,
                    sent: volume(sent),
                    received: volume(received),
                }),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;
    use std::time::Duration;

    use reweave_common::flow::Protocol;

    use super::*;

    fn socket(port: u16, sent: u64, received: u64) -> Socket {
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        Socket {
            flow: FlowKey {
                protocol: Protocol::Tcp,
                source: end(1, port),
                destination: end(2, 5001),
            },
            acked: Bytes::new(sent),
            received: Bytes::new(received),
            busy: Some(Duration::ZERO),
            rtt: None,
            retransmits: None,
        }
    }

    fn totals(traffic: &mut SocketTraffic, sockets: &[Socket]) -> [u64; 2] {
        let peers = traffic.handle_sockets(sockets);
        let total =
            |of: fn(&PeerTraffic) -> Volume| peers.iter().map(move |it| of(it).bytes.count());
        [total(|it| it.sent).sum(), total(|it| it.received).sum()]
    }

    #[test]
    fn socket_bytes_sum_by_peer() {
        let mut traffic = SocketTraffic::default();
        assert_eq!(
            totals(&mut traffic, &[socket(1, 900, 0)]),
            [0, 0],
            "from before"
        );
        assert_eq!(totals(&mut traffic, &[socket(1, 1000, 5)]), [100, 5]);
        let two = [socket(1, 1000, 5), socket(2, 50, 0)];
        assert_eq!(totals(&mut traffic, &two), [150, 5]);
        assert_eq!(totals(&mut traffic, &[]), [150, 5]);
    }

    #[test]
    fn late_found_socket_counts_from_zero() {
        let mut traffic = SocketTraffic::default();
        assert_eq!(totals(&mut traffic, &[]), [0, 0]);
        assert_eq!(totals(&mut traffic, &[socket(1, 70, 0)]), [70, 0]);
    }

    #[test]
    fn reused_port_counts_from_zero() {
        let mut traffic = SocketTraffic::default();
        totals(&mut traffic, &[socket(1, 0, 0)]);
        assert_eq!(totals(&mut traffic, &[socket(1, 1000, 0)]), [1000, 0]);
        assert_eq!(totals(&mut traffic, &[socket(1, 30, 0)]), [1030, 0]);
    }
}
