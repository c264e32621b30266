//! Selects a host's relevant flows, and tracks their rates.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::sample::{FlowReading, Reading};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Rate};

use crate::rates::{Count, Meter};

/// A sending socket as the kernel reports it, or a counted UDP flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    pub flow: FlowKey,
    /// Acknowledged since the socket was opened.
    pub acked: Bytes,
    pub received: Bytes,
    /// The time since then in which it had data to send, if known.
    pub busy: Option<Duration>,
    /// Unknown for datagrams.
    pub rtt: Option<Duration>,
    pub retransmits: Option<u64>,
}

/// A flow that moved this much within `BULK_WINDOW` is relevant: it can fill a link for a while. Control traffic stays
/// far below.
const MIN_BULK_SIZE: Bytes = Bytes::new(1 << 20);
const BULK_WINDOW: Duration = Duration::from_secs(10);

/// A flow that moved nothing for this long is no longer relevant. Longer than training iterations and their
/// checkpoints take.
const QUIET_TIMEOUT: Duration = Duration::from_secs(300);

/// Tracks all flows that a host sends, and reports the relevant ones.
#[derive(Debug, Default)]
pub struct FlowBook {
    flows: BTreeMap<FlowKey, Entry>,
}

#[derive(Debug)]
struct Entry {
    meter: Meter,
    /// The start of the current `BULK_WINDOW`.
    span: (Moment, Bytes),
    moved: Moment,
    bulk: bool,
}

impl FlowBook {
    /// `sockets` are all that exist now; relevant flows without one have ended.
    pub fn handle_sockets(&mut self, now: Moment, sockets: &[Socket]) -> Vec<Reading> {
        let abroad = sockets
            .iter()
            .filter(|socket| leaves_the_host(&socket.flow));
        let readings = abroad.filter_map(|socket| self.handle_socket(now, socket));
        let mut readings: Vec<_> = readings.collect();
        readings.extend(self.ended(sockets));
        readings
    }

    /// The least and the most rate of a flow since `start`.
    pub fn range_since(&self, flow: &FlowKey, start: Moment) -> Option<[Rate; 2]> {
        self.flows.get(flow)?.meter.range_since(start)
    }

    fn handle_socket(&mut self, now: Moment, socket: &Socket) -> Option<Reading> {
        let entry = self.flows.entry(socket.flow);
        let entry = entry.or_insert_with(|| Entry::new(now, socket.acked));
        let rate = entry.handle_count(Count {
            at: now,
            bytes: socket.acked,
            busy: socket.busy,
        });
        let reading = FlowReading {
            flow: socket.flow,
            bytes: socket.acked,
            rate,
            rtt: socket.rtt.map(TimeSpan::new),
            retransmits: socket.retransmits,
        };
        entry.bulk.then_some(Reading::Flow(reading))
    }

    fn ended(&mut self, sockets: &[Socket]) -> Vec<Reading> {
        let open: BTreeSet<_> = sockets.iter().map(|socket| socket.flow).collect();
        let gone = self.flows.extract_if(.., |flow, _| !open.contains(flow));
        gone.filter(|(_, entry)| entry.bulk)
            .map(|(flow, _)| Reading::FlowEnded(flow))
            .collect()
    }
}

impl Entry {
    fn new(now: Moment, acked: Bytes) -> Self {
        Self {
            meter: Meter::default(),
            span: (now, acked),
            moved: now,
            bulk: false,
        }
    }

    fn handle_count(&mut self, count: Count) -> Option<Rate> {
        let (began, at_begin) = self.span;
        let went_back = count.bytes < at_begin;
        if went_back || count.at.since(began) > BULK_WINDOW {
            self.span = (count.at, count.bytes);
        }
        let in_span = count.bytes.count().saturating_sub(at_begin.count());
        if self.meter.grown(&count) != Some(Bytes::ZERO) {
            self.moved = count.at;
        }
        let quiet = count.at.since(self.moved) > QUIET_TIMEOUT;
        self.bulk = !quiet && (self.bulk || in_span >= MIN_BULK_SIZE.count());
        self.meter.handle_count(count)
    }
}

/// Whether the fabric ever sees it.
pub(crate) fn leaves_the_host(flow: &FlowKey) -> bool {
    let destination = flow.destination.ip();
    !destination.is_loopback() && destination != flow.source.ip()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use reweave_common::flow::Protocol;

    use super::*;

    const MB_BYTES: u64 = 1_000_000;

    fn flow(to: u8) -> FlowKey {
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        FlowKey {
            protocol: Protocol::Tcp,
            source: end(1, 40_000),
            destination: end(to, 5001),
        }
    }

    fn socket(to: u8, acked: u64, busy_ms: u64) -> Socket {
        Socket {
            flow: flow(to),
            acked: Bytes::new(acked),
            received: Bytes::ZERO,
            busy: Some(Duration::from_millis(busy_ms)),
            rtt: Some(Duration::from_micros(300)),
            retransmits: Some(2),
        }
    }

    /// What a book says at `second`, of the flow's rate in Mb/s or of its end.
    fn heard(book: &mut FlowBook, second: u64, sockets: &[Socket]) -> Vec<(FlowKey, String)> {
        let said = book.handle_sockets(Moment::from_micros(second * 1_000_000), sockets);
        let words = said.into_iter().map(|reading| match reading {
            Reading::Flow(flow) => (flow.flow, format!("{:?}", flow.rate.map(Rate::mbps))),
            Reading::FlowEnded(flow) => (flow, "ended".to_owned()),
            other => panic!("a flow book speaks of flows, not {other:?}"),
        });
        words.collect()
    }

    #[test]
    fn flow_reported_from_threshold_to_end() {
        let mut book = FlowBook::default();
        assert_eq!(heard(&mut book, 0, &[socket(2, 50 * MB_BYTES, 4000)]), []);
        let moving = heard(&mut book, 1, &[socket(2, 60 * MB_BYTES, 4400)]);
        assert_eq!(moving, [(flow(2), "Some(200.0)".to_owned())]);
        let idle = heard(&mut book, 2, &[socket(2, 60 * MB_BYTES, 4400)]);
        assert_eq!(idle, [(flow(2), "None".to_owned())]);
        let gone = heard(&mut book, 3, &[]);
        assert_eq!(gone, [(flow(2), "ended".to_owned())]);
        assert_eq!(heard(&mut book, 4, &[]), []);
    }

    #[test]
    fn slow_flow_is_never_reported() {
        let mut book = FlowBook::default();
        for second in 0..1000 {
            let chatter = socket(2, second * 50_000, second * 1000);
            assert_eq!(heard(&mut book, second, &[chatter]), [], "at {second} s");
        }
        assert_eq!(heard(&mut book, 1000, &[]), [], "nor does its end");
    }

    #[test]
    fn idle_flow_is_forgotten_and_returns() {
        let mut book = FlowBook::default();
        heard(&mut book, 0, &[socket(2, 0, 0)]);
        assert_eq!(
            heard(&mut book, 1, &[socket(2, 2 * MB_BYTES, 500)]).len(),
            1
        );
        assert_eq!(
            heard(&mut book, 301, &[socket(2, 2 * MB_BYTES, 500)]).len(),
            1
        );
        assert_eq!(heard(&mut book, 302, &[socket(2, 2 * MB_BYTES, 500)]), []);
        assert_eq!(
            heard(&mut book, 303, &[socket(2, 4 * MB_BYTES, 900)]).len(),
            1
        );
    }

    #[test]
    fn local_traffic_is_no_fabric_flow() {
        let mut book = FlowBook::default();
        let own = |acked| {
            let mut loopback = socket(2, acked, acked / 1000);
            loopback.flow.destination.set_ip(Ipv4Addr::LOCALHOST);
            [socket(1, acked, acked / 1000), loopback]
        };
        heard(&mut book, 0, &own(0));
        assert_eq!(heard(&mut book, 1, &own(50 * MB_BYTES)), []);
    }

    #[test]
    fn reused_ports_start_new_flow() {
        let mut book = FlowBook::default();
        heard(&mut book, 0, &[socket(2, 0, 0)]);
        heard(&mut book, 1, &[socket(2, 90 * MB_BYTES, 900)]);
        let reused = heard(&mut book, 2, &[socket(2, 5 * MB_BYTES, 300)]);
        assert_eq!(reused, [(flow(2), "None".to_owned())]);
        let next = heard(&mut book, 3, &[socket(2, 15 * MB_BYTES, 700)]);
        assert_eq!(next, [(flow(2), "Some(200.0)".to_owned())]);
    }
}
