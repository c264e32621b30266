//! What the counters of interfaces say.

use std::collections::BTreeMap;

use reweave_common::moment::Moment;
use reweave_common::sample::{Counters, Reading};
use reweave_common::units::Bytes;

use crate::rates::{Count, Meter};

/// An interface's counters as the kernel tells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkCount {
    pub interface: String,
    pub up: bool,
    pub sent: Bytes,
    pub received: Bytes,
    pub dropped_packets: u64,
}

/// Follows the counters of all interfaces.
#[derive(Debug, Default)]
pub struct LinkBook {
    meters: BTreeMap<String, [Meter; 2]>,
}

impl LinkBook {
    /// `links` are all there are now; one that vanished and came back begins anew.
    pub fn handle_links(&mut self, now: Moment, links: Vec<LinkCount>) -> Vec<Reading> {
        self.meters
            .retain(|name, _| links.iter().any(|link| link.interface == *name));
        let read = |link| Reading::Counters(self.handle_link(now, link));
        links.into_iter().map(read).collect()
    }

    fn handle_link(&mut self, at: Moment, link: LinkCount) -> Counters {
        let [sent, received] = self.meters.entry(link.interface.clone()).or_default();
        let rate = |meter: &mut Meter, bytes| {
            let busy = None;
            meter.handle_count(Count { at, bytes, busy })
        };
        Counters {
            send_rate: rate(sent, link.sent),
            receive_rate: rate(received, link.received),
            interface: link.interface,
            up: link.up,
            sent: link.sent,
            received: link.received,
            dropped_packets: link.dropped_packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::units::Rate;

    use super::*;

    fn link(name: &str, sent: u64, received: u64) -> LinkCount {
        LinkCount {
            interface: name.to_owned(),
            up: true,
            sent: Bytes::new(sent),
            received: Bytes::new(received),
            dropped_packets: 0,
        }
    }

    fn rates(book: &mut LinkBook, second: u64, links: Vec<LinkCount>) -> Vec<[Option<f64>; 2]> {
        let said = book.handle_links(Moment::from_micros(second * 1_000_000), links);
        let rates = said.into_iter().map(|reading| match reading {
            Reading::Counters(read) => [read.send_rate, read.receive_rate],
            other => panic!("a link book speaks of counters, not {other:?}"),
        });
        rates
            .map(|pair| pair.map(|rate| rate.map(Rate::mbps)))
            .collect()
    }

    #[test]
    fn each_direction_of_each_interface_has_its_own_rate() {
        let mut book = LinkBook::default();
        let first = rates(&mut book, 0, vec![link("swp0", 0, 7), link("swp1", 0, 0)]);
        assert_eq!(first, [[None, None]; 2]);
        let links = vec![link("swp0", 12_500_000, 7), link("swp1", 0, 25_000_000)];
        let second = rates(&mut book, 1, links);
        let expected = [[Some(100.0), Some(0.0)], [Some(0.0), Some(200.0)]];
        assert_eq!(second, expected);
    }

    #[test]
    fn an_interface_that_comes_back_has_no_rate_at_first() {
        let mut book = LinkBook::default();
        rates(&mut book, 0, vec![link("swp0", 0, 0)]);
        rates(&mut book, 1, vec![]);
        let back = rates(&mut book, 2, vec![link("swp0", 12_500_000, 0)]);
        assert_eq!(back, [[None, None]]);
    }
}
