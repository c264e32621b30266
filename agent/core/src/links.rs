//! Evaluates the counters of interfaces.

use std::collections::BTreeMap;

use reweave_common::moment::Moment;
use reweave_common::sample::{Counters, HostReading, Reading};
use reweave_common::units::Bytes;

use crate::rates::{Count, Meter};

/// An interface's counters as the kernel reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkCount {
    pub interface: String,
    pub up: bool,
    pub sent: Bytes,
    pub received: Bytes,
    pub dropped_packets: u64,
}

/// Tracks the counters of all interfaces.
#[derive(Debug, Default)]
pub struct LinkBook {
    meters: BTreeMap<String, [Meter; 2]>,
    /// The last report of each interface.
    last_counters: BTreeMap<String, Counters>,
    /// Missing interfaces, and when they were first missing.
    vanished: BTreeMap<String, Moment>,
}

/// Containers come and go with their interfaces.
const MAX_VANISHED: usize = 64;

impl LinkBook {
    /// `links` are all that exist now; one that vanished and returned starts again. Missing ones are listed each time.
    pub fn handle_links(&mut self, now: Moment, links: Vec<LinkCount>) -> Vec<Reading> {
        self.miss(now, &links);
        let read = |link| Reading::Counters(self.handle_link(now, link));
        let mut readings: Vec<_> = links.into_iter().map(read).collect();
        let vanished = self.vanished.iter().map(|(interface, &seen)| {
            Reading::Host(HostReading::Vanished {
                interface: interface.clone(),
                seen,
            })
        });
        readings.extend(vanished);
        readings
    }

    /// The interfaces that went up or down since they were last reported, in order.
    pub fn handle_turns(&mut self, links: Vec<LinkCount>) -> Vec<Reading> {
        // One by one: an interface that went down and up again has changed twice.
        let turns = links.into_iter().flat_map(|link| {
            let last = self.last_counters.get(&link.interface);
            let has_turned = last.is_some_and(|last| last.up != link.up);
            let turned = has_turned.then_some(link);
            self.handle_look(turned.into_iter().collect())
        });
        turns.collect()
    }

    /// The present state of reported interfaces, with their last rates: so soon after a reading, no new rate is known.
    pub fn handle_look(&mut self, links: Vec<LinkCount>) -> Vec<Reading> {
        let seen = links.into_iter().filter_map(|link| {
            let last = self.last_counters.get_mut(&link.interface)?;
            *last = Counters {
                send_rate: last.send_rate,
                receive_rate: last.receive_rate,
                ..counters(link)
            };
            Some(Reading::Counters(last.clone()))
        });
        seen.collect()
    }

    fn miss(&mut self, now: Moment, links: &[LinkCount]) {
        let is_there = |name: &str| links.iter().any(|link| link.interface == name);
        let gone = self.meters.extract_if(.., |name, _| !is_there(name));
        self.vanished.extend(gone.map(|(name, _)| (name, now)));
        self.last_counters.retain(|name, _| is_there(name));
        self.vanished.retain(|name, _| !is_there(name));
        while self.vanished.len() > MAX_VANISHED {
            let oldest = self.vanished.iter().min_by_key(|(_, since)| **since);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|name| self.vanished.remove(&name));
        }
    }

    fn handle_link(&mut self, at: Moment, link: LinkCount) -> Counters {
        let [sent, received] = self.meters.entry(link.interface.clone()).or_default();
        let rate = |meter: &mut Meter, bytes| {
            let busy = None;
            meter.handle_count(Count { at, bytes, busy })
        };
        let counted = Counters {
            send_rate: rate(sent, link.sent),
            receive_rate: rate(received, link.received),
            ..counters(link)
        };
        self.last_counters
            .insert(counted.interface.clone(), counted.clone());
        counted
    }
}

fn counters(link: LinkCount) -> Counters {
    Counters {
        send_rate: None,
        receive_rate: None,
        interface: link.interface,
        up: link.up,
        sent: link.sent,
        received: link.received,
        dropped_packets: link.dropped_packets,
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
        let rates = said.into_iter().filter_map(|reading| match reading {
            Reading::Counters(read) => Some([read.send_rate, read.receive_rate]),
            Reading::Host(HostReading::Vanished { .. }) => None,
            other => panic!("a link book speaks of counters, not {other:?}"),
        });
        rates
            .map(|pair| pair.map(|rate| rate.map(Rate::mbps)))
            .collect()
    }

    #[test]
    fn each_interface_direction_has_own_rate() {
        let mut book = LinkBook::default();
        let first = rates(&mut book, 0, vec![link("swp0", 0, 7), link("swp1", 0, 0)]);
        assert_eq!(first, [[None, None]; 2]);
        let links = vec![link("swp0", 12_500_000, 7), link("swp1", 0, 25_000_000)];
        let second = rates(&mut book, 1, links);
        let expected = [[Some(100.0), Some(0.0)], [Some(0.0), Some(200.0)]];
        assert_eq!(second, expected);
    }

    #[test]
    fn link_state_changes_are_reported_once() {
        let mut book = LinkBook::default();
        rates(&mut book, 0, vec![link("swp0", 0, 0), link("swp1", 0, 0)]);
        rates(
            &mut book,
            1,
            vec![link("swp0", 12_500_000, 0), link("swp1", 0, 0)],
        );
        let turns = |up| {
            ["swp0", "swp2"].map(|name| LinkCount {
                up,
                ..link(name, 13_000_000, 0)
            })
        };
        assert_eq!(book.handle_turns(turns(true).into()), []);
        let [Reading::Counters(down)] = &book.handle_turns(turns(false).into())[..] else {
            panic!("one of them was up");
        };
        assert!(
            !down.up && down.send_rate.map(Rate::mbps) == Some(100.0),
            "{down:?}"
        );
        assert_eq!(down.sent, Bytes::new(13_000_000), "it is as it was then");
        assert_eq!(book.handle_turns(turns(false).into()), []);
        let flap = [true, false, true].map(|up| turns(up)[0].clone());
        let turns = book.handle_turns(flap.into()).into_iter();
        let turns = turns.map(|it| matches!(it, Reading::Counters(it) if it.up));
        assert_eq!(turns.collect::<Vec<_>>(), [true, false, true]);
        let later = rates(
            &mut book,
            2,
            vec![link("swp0", 25_000_000, 0), link("swp1", 0, 0)],
        );
        assert_eq!(later[0], [Some(100.0), Some(0.0)]);
    }

    #[test]
    fn rates_are_computed_by_reports_alone() {
        let mut book = LinkBook::default();
        rates(&mut book, 0, vec![link("swp0", 0, 0)]);
        rates(&mut book, 1, vec![link("swp0", 12_500_000, 0)]);
        let looked = book.handle_look(vec![link("swp0", 12_600_000, 7), link("new", 1, 1)]);
        let [Reading::Counters(seen)] = &looked[..] else {
            panic!("one was reported before: {looked:?}");
        };
        let counts = [seen.sent, seen.received].map(Bytes::count);
        assert_eq!(counts, [12_600_000, 7]);
        assert_eq!(seen.send_rate.map(Rate::mbps), Some(100.0));
        let later = rates(&mut book, 2, vec![link("swp0", 37_500_000, 0)]);
        assert_eq!(later[0][0], Some(200.0), "by reports alone");
    }

    #[test]
    fn vanished_interface_is_named_until_back() {
        let mut book = LinkBook::default();
        let mut vanished = |second: u64, links| {
            let said = book.handle_links(Moment::from_micros(second * 1_000_000), links);
            let vanished = said.into_iter().filter_map(|reading| match reading {
                Reading::Host(HostReading::Vanished { interface, seen }) => {
                    Some((interface, seen.as_micros() / 1_000_000))
                }
                _ => None,
            });
            vanished.collect::<Vec<_>>()
        };
        assert_eq!(
            vanished(0, vec![link("swp0", 0, 0), link("swp1", 0, 0)]),
            []
        );
        let gone = [("swp1".to_owned(), 1)];
        assert_eq!(vanished(1, vec![link("swp0", 0, 0)]), gone);
        assert_eq!(vanished(2, vec![link("swp0", 0, 0)]), gone);
        assert_eq!(
            vanished(3, vec![link("swp0", 0, 0), link("swp1", 0, 0)]),
            []
        );
    }

    #[test]
    fn returning_interface_has_no_rate() {
        let mut book = LinkBook::default();
        rates(&mut book, 0, vec![link("swp0", 0, 0)]);
        rates(&mut book, 1, vec![]);
        let back = rates(&mut book, 2, vec![link("swp0", 12_500_000, 0)]);
        assert_eq!(back, [[None, None]]);
    }
}
