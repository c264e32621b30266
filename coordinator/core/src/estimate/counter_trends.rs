//! Recent growth of interface counters. A single reading covers too short a time to be seen.

use std::collections::{BTreeMap, VecDeque};
use std::num::Saturating;
use std::time::Duration;

use reweave_common::health::{CounterSource, Health, Signal, SignalReading};
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::sample::{HostReading, Reading, Sample};
use reweave_common::time_span::TimeSpan;

use crate::estimate::loss_history::LossHistory;

#[derive(Debug, Clone, Default)]
pub(crate) struct CounterTrends {
    places: BTreeMap<(NodeId, String), Counting>,
}

/// Growth of an interface's counters over a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) over: TimeSpan,
    pub(crate) frame_errors: Part,
    pub(crate) corrected_bits: Part,
    pub(crate) link_downs: Saturating<u64>,
    /// The time that the longest paused priority was paused.
    pub(crate) paused: TimeSpan,
    pub(crate) pause_storms: Saturating<u64>,
    pub(crate) oversized: Saturating<u64>,
    pub(crate) send_drops: Saturating<u64>,
    /// Packets dropped by a full queue.
    pub(crate) queue_drops: Saturating<u64>,
}

/// A count and its total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Part {
    grown: u64,
    of: u64,
}

/// Identifies a reading of an interface: the time since the previous one, to the nanosecond, and the sum of all
/// counters.
type Taken = (TimeSpan, u64);

fn taken(health: &Health) -> Taken {
    let totals = health.signals.iter().map(|it| it.total);
    (health.over, totals.fold(0, u64::wrapping_add))
}

#[derive(Debug, Clone)]
struct Counting {
    earlier: Counted,
    current: Counted,
    began: Moment,
    heard: Moment,
    /// The last reading: agents repeat it in every report.
    last: Option<Taken>,
    /// The share of corrected bits, one value per half window.
    corrected: VecDeque<f64>,
    /// The share of damaged frames.
    errors: LossHistory,
}

impl CounterTrends {
    pub(crate) const HALF_WINDOW: Duration = Duration::from_secs(60);
    /// No node has more interfaces.
    const MAX_PLACES: usize = 2048;
    /// Two hours of half windows.
    const MAX_HALF_WINDOWS: usize = 120;

    pub(crate) fn handle_sample(&mut self, node: NodeId, now: Moment, sample: &Sample) {
        for reading in &sample.readings {
            if let Reading::Host(HostReading::Health(health)) = reading
                && let CounterSource::Interface(interface) = &health.place
            {
                self.add(node, interface, now, health);
            }
        }
    }

    fn add(&mut self, node: NodeId, interface: &str, now: Moment, health: &Health) {
        let key = (node, interface.to_owned());
        if !self.places.contains_key(&key) && self.count(node) >= Self::MAX_PLACES {
            return;
        }
        let place = self.places.entry(key);
        let place = place.or_insert_with(|| Counting::new(now));
        place.heard = now;
        if place.last.replace(taken(health)) != Some(taken(health)) {
            place.add(now, health);
        }
    }

    fn count(&self, node: NodeId) -> usize {
        let from = (node, String::new());
        let here = self.places.range(from..);
        here.take_while(|((other, _), _)| *other == node).count()
    }

    /// Drops interfaces that were not reported for long.
    pub(crate) fn handle_time(&mut self, now: Moment) {
        self.places
            .retain(|_, place| now.since(place.heard) < 2 * Self::HALF_WINDOW);
    }

    /// The growth over the last minute or two.
    pub(crate) fn lately(&self, node: NodeId, interface: &str) -> Option<Counted> {
        let place = self.places.get(&(node, interface.to_owned()))?;
        let mut sum = place.earlier;
        sum.add(&place.current);
        Some(sum)
    }

    /// The share of corrected bits, one for each [`Self::HALF_WINDOW`], oldest first.
    pub(crate) fn corrected(&self, node: NodeId, interface: &str) -> Vec<f64> {
        let place = self.places.get(&(node, interface.to_owned()));
        place.map_or(Vec::new(), |place| {
            place.corrected.iter().copied().collect()
        })
    }

    /// The share of damaged frames, where there were any.
    pub(crate) fn errors(&self, node: NodeId, interface: &str) -> Vec<f64> {
        let place = self.places.get(&(node, interface.to_owned()));
        place.map_or(Vec::new(), |place| place.errors.values())
    }
}

impl Counting {
    fn new(now: Moment) -> Self {
        Self {
            earlier: Counted::default(),
            current: Counted::default(),
            began: now,
            heard: now,
            last: None,
            corrected: VecDeque::new(),
            errors: LossHistory::default(),
        }
    }

    fn add(&mut self, now: Moment, health: &Health) {
        if now.since(self.began) >= CounterTrends::HALF_WINDOW {
            self.corrected.extend(self.current.corrected_bits.share());
            let too_many = self
                .corrected
                .len()
                .saturating_sub(CounterTrends::MAX_HALF_WINDOWS);
            self.corrected.drain(..too_many);
            if let Some(share) = self.current.frame_errors.share() {
                self.errors.note(share, CounterTrends::MAX_HALF_WINDOWS);
            }
            self.earlier = std::mem::take(&mut self.current);
            self.began = now;
        }
        self.current.over += health.over;
        let signals = health.signals.iter();
        let paused = signals.clone().filter_map(paused).max();
        self.current.paused += TimeSpan::from_micros(paused.unwrap_or(0));
        signals.for_each(|reading| self.current.note(reading));
    }
}

fn paused(reading: &SignalReading) -> Option<u64> {
    matches!(reading.signal, Signal::PausedMicros(_)).then_some(reading.grown)?
}

impl Counted {
    fn note(&mut self, reading: &SignalReading) {
        let grown = reading.grown.unwrap_or(0);
        let part = Part {
            grown,
            of: reading.of.filter(|_| reading.grown.is_some()).unwrap_or(0),
        };
        match reading.signal {
            Signal::FrameErrors => self.frame_errors.add(part),
            Signal::CorrectedBits => self.corrected_bits.add(part),
            Signal::LinkDowns => self.link_downs += grown,
            Signal::PauseStormWarnings | Signal::PauseStormErrors => self.pause_storms += grown,
            Signal::Oversized => self.oversized += grown,
            Signal::SendDrops => self.send_drops += grown,
            Signal::QueueDrops => self.queue_drops += grown,
            _ => {}
        }
    }

    fn add(&mut self, other: &Self) {
        self.over += other.over;
        self.frame_errors.add(other.frame_errors);
        self.corrected_bits.add(other.corrected_bits);
        self.link_downs += other.link_downs;
        self.paused += other.paused;
        self.pause_storms += other.pause_storms;
        self.oversized += other.oversized;
        self.send_drops += other.send_drops;
        self.queue_drops += other.queue_drops;
    }

    /// The share of the time that it was paused.
    pub(crate) fn paused_share(&self) -> Option<f64> {
        let over = self.over.as_secs_f64();
        (over > 0.0).then(|| (self.paused.as_secs_f64() / over).min(1.0))
    }
}

impl Part {
    fn add(&mut self, other: Self) {
        self.grown = self.grown.saturating_add(other.grown);
        self.of = self.of.saturating_add(other.of);
    }

    pub(crate) fn share(self) -> Option<f64> {
        // The two counters are not read at the same moment.
        (self.of > 0).then(|| (self.grown as f64 / self.of as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeId {
        NodeId::from_index(3)
    }

    fn hear(trends: &mut CounterTrends, at_s: u64, signal: Signal, grown: u64) {
        let now = Moment::from_micros(at_s * 1_000_000);
        let reading = SignalReading {
            signal,
            total: 1000 * at_s + grown,
            grown: Some(grown),
            of: Some(1000),
        };
        let health = Health {
            place: CounterSource::Interface("eth0".to_owned()),
            over: TimeSpan::from_secs(1),
            signals: vec![reading],
        };
        let readings = vec![Reading::Host(HostReading::Health(health))];
        let sample = Sample {
            taken: now,
            readings,
        };
        trends.handle_sample(node(), now, &sample);
    }

    #[test]
    fn flap_counts_one_to_two_minutes() {
        let mut trends = CounterTrends::default();
        hear(&mut trends, 0, Signal::LinkDowns, 1);
        let downs = |trends: &CounterTrends| trends.lately(node(), "eth0").unwrap().link_downs.0;
        for at_s in 1..60 {
            hear(&mut trends, at_s, Signal::LinkDowns, 0);
            assert_eq!(downs(&trends), 1, "{at_s}");
        }
        for at_s in 60..121 {
            hear(&mut trends, at_s, Signal::LinkDowns, 0);
        }
        assert_eq!(downs(&trends), 0);
        trends.handle_time(Moment::from_micros(300_000_000));
        assert_eq!(trends.lately(node(), "eth0"), None);
    }

    #[test]
    fn reports_between_readings_count_once() {
        let mut trends = CounterTrends::default();
        (0..5).for_each(|_| hear(&mut trends, 0, Signal::LinkDowns, 1));
        hear(&mut trends, 1, Signal::LinkDowns, 1);
        assert_eq!(trends.lately(node(), "eth0").unwrap().link_downs.0, 2);
    }

    #[test]
    fn counter_shares_use_whole_half_windows() {
        let mut trends = CounterTrends::default();
        for at_s in 0..=180 {
            hear(&mut trends, at_s, Signal::CorrectedBits, 1 + at_s / 60);
        }
        let lately = trends.lately(node(), "eth0").unwrap();
        let share = lately.corrected_bits.share().unwrap();
        assert!((0.003..0.0032).contains(&share), "{share}");
        assert_eq!(trends.corrected(node(), "eth0"), [0.001, 0.002, 0.003]);
        for at_s in 0..=180 {
            let broken = u64::from(at_s >= 120);
            hear(&mut trends, 181 + at_s, Signal::FrameErrors, broken);
        }
        let errors = trends.errors(node(), "eth0");
        assert!(
            errors.len() == 3 && errors[1] == 0.0 && errors[2] > 0.0009,
            "{errors:?}"
        );
        hear(&mut trends, 362, Signal::PausedMicros(3), 500_000);
        let paused = trends.lately(node(), "eth0").unwrap().paused_share();
        assert!(paused.is_some_and(|it| it > 0.0 && it < 0.1));
    }
}
