//! UDP flows: no socket counts their bytes, and nothing marks their end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::units::Bytes;

use super::{Direction, FlowCount};
use crate::flows::Socket;

/// A flow that sent nothing for this long has ended; longer than most iterations of training.
const FLOW_TIMEOUT: Duration = Duration::from_secs(30);

/// Follows the datagrams that a host sends.
#[derive(Debug, Default)]
pub struct DatagramBook {
    moved: BTreeMap<FlowKey, (Moment, Bytes)>,
}

impl DatagramBook {
    /// The flows from the addresses `own` that have not ended, as if they were sockets.
    pub fn handle_flows(
        &mut self,
        now: Moment,
        flows: &[FlowCount],
        own: &BTreeSet<Ipv4Addr>,
    ) -> Vec<Socket> {
        let ours = flows.iter().filter(|it| is_ours(it, own));
        let ours: BTreeMap<_, _> = ours.map(|it| (it.flow, it)).collect();
        self.moved.retain(|flow, _| ours.contains_key(flow));
        let mut sockets = vec![];
        for (flow, count) in ours {
            let bytes = count.volume.bytes;
            let moved = self.moved.entry(flow).or_insert((now, bytes));
            if moved.1 != bytes {
                *moved = (now, bytes);
            }
            if now.since(moved.0) < FLOW_TIMEOUT {
                sockets.push(socket(count));
            }
        }
        sockets
    }
}

fn is_ours(count: &FlowCount, own: &BTreeSet<Ipv4Addr>) -> bool {
    count.direction == Direction::Sent
        && count.flow.protocol == Protocol::Udp
        && own.contains(count.flow.source.ip())
}

fn socket(count: &FlowCount) -> Socket {
    Socket {
        flow: count.flow,
        acked: count.volume.bytes,
        received: Bytes::ZERO,
        busy: count.busy,
        rtt: None,
        retransmits: None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use reweave_common::traffic::Volume;

    use super::*;

    fn count(from: u8, protocol: Protocol, direction: Direction, bytes: u64) -> FlowCount {
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        FlowCount {
            flow: FlowKey {
                protocol,
                source: end(from, 50_000),
                destination: end(2, 4791),
            },
            direction,
            volume: Volume {
                bytes: Bytes::new(bytes),
                packets: Some(1),
            },
            busy: Some(Duration::from_millis(bytes)),
        }
    }

    fn heard(book: &mut DatagramBook, second: u64, flows: &[FlowCount]) -> Vec<u64> {
        let own = BTreeSet::from([Ipv4Addr::new(10, 0, 0, 1)]);
        let now = Moment::from_micros(second * 1_000_000);
        let sockets = book.handle_flows(now, flows, &own);
        sockets.iter().map(|socket| socket.acked.count()).collect()
    }

    #[test]
    fn only_sent_datagrams_are_flows() {
        let flows = [
            count(1, Protocol::Udp, Direction::Sent, 100),
            count(1, Protocol::Tcp, Direction::Sent, 200),
            count(1, Protocol::Udp, Direction::Received, 300),
            count(3, Protocol::Udp, Direction::Sent, 400),
        ];
        assert_eq!(heard(&mut DatagramBook::default(), 0, &flows), [100]);
    }

    #[test]
    fn silent_datagram_flow_ends_and_returns() {
        let mut book = DatagramBook::default();
        let flow = |bytes| [count(1, Protocol::Udp, Direction::Sent, bytes)];
        assert_eq!(heard(&mut book, 0, &flow(100)), [100]);
        assert_eq!(heard(&mut book, 20, &flow(200)), [200]);
        assert_eq!(heard(&mut book, 49, &flow(200)), [200]);
        assert_eq!(heard(&mut book, 51, &flow(200)), [0_u64; 0]);
        assert_eq!(heard(&mut book, 60, &flow(300)), [300]);
        assert_eq!(heard(&mut book, 61, &[]), [0_u64; 0]);
        assert!(book.moved.is_empty());
    }
}
