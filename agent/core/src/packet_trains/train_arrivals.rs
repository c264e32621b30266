//! The result of one train.

use reweave_common::bandwidth::Unclear;

/// The arrivals of a train.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainArrivals {
    /// The length of each packet with its headers.
    pub frame_bytes: u32,
    pub packets: u32,
    /// When packets arrived, in order, on any one clock.
    pub arrived_ns: Vec<u64>,
    /// The rate at which the program sent; none if the kernel held it back, because then something after the program
    /// was slower.
    pub offered_bits_per_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrainVerdict {
    /// The rate in bits per second.
    Rate(f64),
    AtLeast(f64),
    Unclear(Unclear),
}

/// The least number of packets.
const MIN_ARRIVED_PACKETS: usize = 16;
/// The least number of batches.
const MIN_BATCHES: usize = 8;
/// Packets that follow within this part of the usual gap belong to the same batch.
const MAX_BATCH_GAP_SHARE: f64 = 0.125;
/// A train that arrives at this share of its sending rate was not slowed down.
const MIN_UNSLOWED_SHARE: f64 = 0.8;
/// The largest deviation of a packet from a steady pace, relative to the train.
const MAX_PLACE_DEVIATION: f64 = 0.04;
/// The share of a steady train that may deviate, because a busy host took packets late.
const MAX_ASTRAY_SHARE: f64 = 0.2;
/// The largest difference between the halves of a steady part.
const MAX_HALVES_DIFFERENCE: f64 = 0.1;

/// The packets that had arrived by a time; a batch counts as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ArrivalPoint {
    ns: f64,
    bits: f64,
}

impl TrainArrivals {
    pub fn verdict(&self) -> TrainVerdict {
        let enough = self.arrived_ns.len() >= MIN_ARRIVED_PACKETS.max(self.packets as usize / 2);
        if !enough {
            return TrainVerdict::Unclear(Unclear::Lost);
        }
        let points = self.batches();
        if let Some(whole) = rate_between(&points)
            && let Some(least) = self.unslowed(whole)
        {
            return TrainVerdict::AtLeast(least);
        }
        if points.len() < MIN_BATCHES {
            return TrainVerdict::Unclear(Unclear::Batched);
        }
        let rate = steady(&points).and_then(halves_agree);
        match rate {
            None => TrainVerdict::Unclear(Unclear::Unsteady),
            Some(rate) => self
                .unslowed(rate)
                .map_or(TrainVerdict::Rate(rate), TrainVerdict::AtLeast),
        }
    }

    /// The lower bound, if packets arrived as fast as they were sent.
    fn unslowed(&self, rate: f64) -> Option<f64> {
        let offered = self.offered_bits_per_s?;
        (rate >= MIN_UNSLOWED_SHARE * offered).then_some(rate.min(offered))
    }

    fn batches(&self) -> Vec<ArrivalPoint> {
        let first = self.arrived_ns.first().copied().unwrap_or(0);
        let times: Vec<_> = self
            .arrived_ns
            .iter()
            .map(|at| at.saturating_sub(first) as f64)
            .collect();
        let span = times.last().copied().unwrap_or(0.0);
        let close = MAX_BATCH_GAP_SHARE * span / times.len().max(2) as f64;
        let mut points: Vec<ArrivalPoint> = vec![];
        for (number, &ns) in times.iter().enumerate() {
            let bits = (number + 1) as f64 * f64::from(self.frame_bytes) * 8.0;
            match points.last_mut() {
                Some(last) if ns - last.ns <= close => *last = ArrivalPoint { ns, bits },
                _ => points.push(ArrivalPoint { ns, bits }),
            }
        }
        points
    }
}

/// The rate from the first batch to the last.
fn rate_between(points: &[ArrivalPoint]) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    slope(first, last)
}

/// The slope in bits per second.
fn slope(from: &ArrivalPoint, to: &ArrivalPoint) -> Option<f64> {
    let ns = to.ns - from.ns;
    (ns > 0.0).then(|| (to.bits - from.bits) * 1e9 / ns)
}

/// The part of the train with the pace of its end. Before it, a token bucket may have passed a burst.
fn steady(points: &[ArrivalPoint]) -> Option<&[ArrivalPoint]> {
    let tail = &points[points.len() / 2..];
    let rate = pace(tail)?;
    let at_zero = |it: &ArrivalPoint| it.bits - rate * it.ns / 1e9;
    let usual = median(tail.iter().map(at_zero).collect())?;
    let allowed = MAX_PLACE_DEVIATION * points.last()?.bits;
    let is_astray = |it: &ArrivalPoint| (at_zero(it) - usual).abs() > allowed;
    let astray: Vec<_> = points.iter().map(is_astray).collect();
    let mostly_right = |begin: &usize| {
        let wrong = astray[*begin..].iter().filter(|it| **it).count();
        !astray[*begin] && wrong as f64 <= MAX_ASTRAY_SHARE * (astray.len() - begin) as f64
    };
    let part = &points[(0..points.len()).find(mostly_right)?..];
    (part.len() >= MIN_BATCHES.max(points.len() / 3)).then_some(part)
}

/// The pace of the whole part, unless its halves differ.
fn halves_agree(part: &[ArrivalPoint]) -> Option<f64> {
    let (early, late) = part.split_at(part.len() / 2);
    let (early, late) = (pace(early)?, pace(late)?);
    let rate = pace(part)?;
    ((early - late).abs() <= MAX_HALVES_DIFFERENCE * rate).then_some(rate)
}

/// The median slope of all pairs of points at least half of the part apart, which tolerates a few late ones
/// (Theil-Sen).
fn pace(part: &[ArrivalPoint]) -> Option<f64> {
    let apart = part.len() / 2;
    let far = |(at, from)| {
        let others = part.get(at + apart.max(1)..).unwrap_or(&[]);
        others.iter().filter_map(move |to| slope(from, to))
    };
    median(part.iter().enumerate().flat_map(far).collect())
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reweave_common::split_mix::SplitMix64;

    use super::*;

    const TEST_FRAME_BYTES: u32 = 1514;

    fn crossing(arrived_ns: Vec<u64>) -> TrainArrivals {
        TrainArrivals {
            frame_bytes: TEST_FRAME_BYTES,
            packets: arrived_ns.len() as u32,
            arrived_ns,
            offered_bits_per_s: Some(20e9),
        }
    }

    /// Arrivals behind a token bucket that passes `burst` packets at once.
    fn shaped(packets: u64, mbps: u64, burst: u64) -> Vec<u64> {
        behind_a_bucket(packets, mbps, burst, 700)
    }

    fn behind_a_bucket(packets: u64, mbps: u64, burst: u64, burst_apart: u64) -> Vec<u64> {
        let apart = u64::from(TEST_FRAME_BYTES) * 8 * 1000 / mbps;
        let at = |number: u64| match number.checked_sub(burst) {
            None => number * burst_apart,
            Some(late) => burst * burst_apart + late * apart,
        };
        (0..packets).map(at).collect()
    }

    fn rate(crossing: &TrainArrivals) -> f64 {
        match crossing.verdict() {
            TrainVerdict::Rate(rate) => rate / 1e6,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn slowest_link_sets_train_rate() {
        for mbps in [10, 100, 1000, 10_000] {
            let measured_rate = rate(&crossing(shaped(64, mbps, 0)));
            assert!(
                (measured_rate / mbps as f64 - 1.0).abs() < 0.005,
                "{measured_rate}"
            );
        }
    }

    #[test]
    fn token_bucket_burst_is_ignored() {
        let measured_rate = rate(&crossing(shaped(64, 100, 13)));
        assert!(
            (measured_rate / 100.0 - 1.0).abs() < 0.005,
            "{measured_rate}"
        );
        let measured_rate = rate(&crossing(shaped(256, 1000, 83)));
        assert!(
            (measured_rate / 1000.0 - 1.0).abs() < 0.005,
            "{measured_rate}"
        );
        // Even if the link before it is only three times as fast.
        let measured_rate = rate(&crossing(behind_a_bucket(256, 1000, 100, 4000)));
        assert!(
            (measured_rate / 1000.0 - 1.0).abs() < 0.005,
            "{measured_rate}"
        );
    }

    #[test]
    fn swallowed_train_gives_no_rate() {
        for burst in [9, 12, 13, 20, 40, 50, 60] {
            let verdict = crossing(shaped(64, 100, burst)).verdict();
            match verdict {
                TrainVerdict::Rate(rate) => {
                    assert!((rate / 1e8 - 1.0).abs() < 0.02, "{burst} {rate}");
                }
                TrainVerdict::Unclear(Unclear::Unsteady | Unclear::Batched) => {}
                _ => panic!("{burst}: {verdict:?}"),
            }
        }
        let swallowed = crossing(shaped(64, 100, 64)).verdict();
        assert!(
            matches!(swallowed, TrainVerdict::AtLeast(_)),
            "{swallowed:?}"
        );
    }

    #[test]
    fn jittered_arrivals_keep_rate() {
        let mut rng = SplitMix64::new(3);
        let mut arrived = shaped(128, 1000, 0);
        for at in &mut arrived {
            let late = rng.below_duration(Duration::from_micros(400)).as_nanos() as u64;
            if rng.next_u64().is_multiple_of(8) {
                *at += late;
            }
        }
        arrived.sort_unstable();
        let measured_rate = rate(&crossing(arrived));
        assert!(
            (measured_rate / 1000.0 - 1.0).abs() < 0.03,
            "{measured_rate}"
        );
    }

    #[test]
    fn batched_arrivals_need_enough_batches() {
        let in_batches = |of: u64| {
            let arrived = shaped(256, 1000, 0);
            let end = |number: u64| (number / of + 1) * of - 1;
            let last = arrived.len() as u64 - 1;
            let at = |number| arrived[end(number).min(last) as usize] + number % of * 300;
            (0..256).map(at).collect::<Vec<_>>()
        };
        let measured_rate = rate(&crossing(in_batches(8)));
        assert!(
            (measured_rate / 1000.0 - 1.0).abs() < 0.02,
            "{measured_rate}"
        );
        let few = crossing(in_batches(64)).verdict();
        assert_eq!(few, TrainVerdict::Unclear(Unclear::Batched));
    }

    #[test]
    fn unspread_train_is_lower_bound() {
        let mut train = crossing(shaped(64, 10_000, 0));
        train.offered_bits_per_s = Some(11e9);
        assert!(
            matches!(train.verdict(), TrainVerdict::AtLeast(rate) if (9.9e9..10.1e9).contains(&rate))
        );
        train.offered_bits_per_s = None;
        assert!((rate(&train) / 10_000.0 - 1.0).abs() < 0.005);
    }

    #[test]
    fn minor_losses_keep_rate() {
        let apart = u64::from(TEST_FRAME_BYTES) * 8;
        let mut train = crossing((0..48).map(|number| number * apart).collect());
        train.packets = 64;
        assert!((rate(&train) / 1000.0 - 1.0).abs() < 0.005);
        train.packets = 128;
        assert_eq!(train.verdict(), TrainVerdict::Unclear(Unclear::Lost));
    }

    #[test]
    fn train_of_changing_rate_is_unclear() {
        let apart = u64::from(TEST_FRAME_BYTES) * 8;
        let mut at = 0;
        let slower = |number: u64| {
            at += if number < 40 { apart } else { apart * 3 };
            at
        };
        let verdict = crossing((0..64).map(slower).collect()).verdict();
        assert_eq!(verdict, TrainVerdict::Unclear(Unclear::Unsteady));
    }
}
