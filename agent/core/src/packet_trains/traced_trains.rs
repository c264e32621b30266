//! The path of a train: its flow is traced afterwards, so that the result is attributed to that path.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::bandwidth::BandwidthReading;
use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::sample::TracedPath;

/// A trace with silent routers takes about this long.
const TRACE_TIMEOUT: Duration = Duration::from_secs(3);

/// Results of trains until their paths are known.
#[derive(Debug, Default)]
pub struct TracedTrains {
    waiting: BTreeMap<FlowKey, (Moment, BandwidthReading)>,
    known: Vec<BandwidthReading>,
}

impl TracedTrains {
    /// Takes a result, whose flow must be traced now.
    pub fn handle_reading(&mut self, now: Moment, reading: BandwidthReading) {
        self.waiting.insert(reading.flow, (now, reading));
    }

    /// Takes a path. Returns whether it was awaited.
    pub fn handle_path(&mut self, path: &TracedPath) -> bool {
        let waited = self.waiting.remove(&path.flow);
        let reading = waited.map(|(_, reading)| BandwidthReading {
            routers: Some(path.routers.clone()),
            ..reading
        });
        let is_one = reading.is_some();
        self.known.extend(reading);
        is_one
    }

    /// Results to report: with their paths, or after the timeout.
    pub fn poll_readings(&mut self, now: Moment) -> Vec<BandwidthReading> {
        let is_late = |_: &FlowKey, (since, _): &mut (Moment, BandwidthReading)| {
            now.since(*since) >= TRACE_TIMEOUT
        };
        let late = self.waiting.extract_if(.., is_late);
        self.known.extend(late.map(|(_, (_, reading))| reading));
        std::mem::take(&mut self.known)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use reweave_common::bandwidth::{Bandwidth, Unclear};
    use reweave_common::flow::Protocol;

    use super::*;

    fn reading(port: u16) -> BandwidthReading {
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        BandwidthReading {
            flow: FlowKey {
                protocol: Protocol::Udp,
                source: end(1, port),
                destination: end(2, 7333),
            },
            bandwidth: Bandwidth::Unknown {
                why: Unclear::Few,
                trains: 1,
            },
            routers: None,
        }
    }

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    #[test]
    fn train_reading_waits_for_path() {
        let mut routed = TracedTrains::default();
        let [one, other] = [7432, 7433].map(reading);
        routed.handle_reading(at(0), one.clone());
        routed.handle_reading(at(0), other.clone());
        assert_eq!(routed.poll_readings(at(100)), []);
        let routers = vec![Some(Ipv4Addr::new(10, 1, 0, 0)), None];
        let path = TracedPath {
            flow: one.flow,
            routers: routers.clone(),
            confirmed: false,
        };
        assert!(routed.handle_path(&path));
        assert!(!routed.handle_path(&path), "it is waited for no more");
        let report = BandwidthReading {
            routers: Some(routers),
            ..one
        };
        assert_eq!(routed.poll_readings(at(200)), [report]);
        assert_eq!(routed.poll_readings(at(3000)), [other]);
    }
}
