//! Packets in flight: sent, and neither acknowledged nor counted as lost.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// A packet in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transmission {
    /// The part of the stream it carries; empty for a probe.
    pub(super) carries: Range<u64>,
    /// Size of the datagram.
    pub(super) bytes: usize,
    pub(super) sent: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Flight {
    by_number: BTreeMap<u64, Transmission>,
    bytes: usize,
    next_number: u64,
    /// The latest packet that was acknowledged.
    latest_landed: Option<u64>,
}

impl Flight {
    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Under the next number.
    pub(super) fn launch(&mut self, transmission: Transmission) {
        self.bytes += transmission.bytes;
        self.by_number.insert(self.next_number, transmission);
        self.next_number += 1;
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The packets with these numbers have arrived: gives back those not known to have, the latest
    /// last.
    pub(super) fn land(&mut self, numbers: &[Range<u64>]) -> Vec<(u64, Transmission)> {
        let known = numbers.iter().rev().filter(|range| !range.is_empty());
        let landed = known.flat_map(|range| self.by_number.range(range.clone()));
        let numbers: Vec<_> = landed.map(|(&number, _)| number).collect();
        self.latest_landed = self.latest_landed.max(numbers.last().copied());
        let landed = numbers
            .into_iter()
            .filter_map(|number| Some((number, self.take(number)?)));
        landed.collect()
    }

    /// Gives up the packets that should have arrived: a later one has, and `patience` has passed
    /// since they were sent.
    pub(super) fn give_up(&mut self, now: Duration, patience: Duration) -> Vec<Transmission> {
        let mut given_up = Vec::new();
        while let Some((number, sent)) = self.oldest_overtaken()
            && sent + patience <= now
        {
            given_up.extend(self.take(number));
        }
        given_up
    }

    /// When there will be something to give up.
    pub(super) fn gives_up_at(&self, patience: Duration) -> Option<Duration> {
        self.oldest_overtaken().map(|(_, sent)| sent + patience)
    }

    fn oldest_overtaken(&self) -> Option<(u64, Duration)> {
        let (&number, transmission) = self.by_number.first_key_value()?;
        (Some(number) < self.latest_landed).then_some((number, transmission.sent))
    }

    fn take(&mut self, number: u64) -> Option<Transmission> {
        let transmission = self.by_number.remove(&number)?;
        self.bytes -= transmission.bytes;
        Some(transmission)
    }
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "one stretch is as good as several"
)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn flight() -> Flight {
        let mut flight = Flight::default();
        for number in 0..6 {
            flight.launch(Transmission {
                carries: number * 10..number * 10 + 10,
                bytes: 10,
                sent: ms(number),
            });
        }
        flight
    }

    #[test]
    fn each_packet_lands_once_latest_last() {
        let mut flight = flight();
        let numbers = |landed: Vec<(u64, Transmission)>| -> Vec<u64> {
            landed.into_iter().map(|(number, _)| number).collect()
        };
        assert_eq!(numbers(flight.land(&[4..5, 0..2])), [0, 1, 4]);
        assert_eq!(numbers(flight.land(&[3..5, 0..2, 9..9])), [3]);
        assert_eq!(flight.bytes(), 20);
    }

    #[test]
    fn only_long_overtaken_packets_are_lost() {
        let mut flight = flight();
        assert_eq!(flight.gives_up_at(ms(10)), None);
        flight.land(&[2..3]);
        assert_eq!(flight.gives_up_at(ms(10)), Some(ms(10)));
        assert_eq!(flight.give_up(ms(9), ms(10)), []);
        assert_eq!(flight.give_up(ms(10), ms(10)).len(), 1);
        assert_eq!(flight.give_up(ms(100), ms(10)).len(), 1);
        assert_eq!(flight.gives_up_at(ms(10)), None, "3, 4 and 5 may yet come");
        assert_eq!(flight.bytes(), 30);
    }
}
