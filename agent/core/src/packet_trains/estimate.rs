//! The bandwidth estimate of several trains.

use std::collections::{BTreeMap, VecDeque};

use reweave_common::bandwidth::{Bandwidth, Unclear};
use reweave_common::units::Rate;

use super::TrainVerdict;

/// The number of trains that are kept.
const MAX_VERDICTS: usize = 64;
/// With fewer trains, no interval covers the median with 95 percent confidence.
const MIN_RATES: usize = 6;
/// A wider interval, relative to the rate, is no result.
const MAX_INTERVAL_WIDTH: f64 = 0.2;

/// The last trains of one flow.
#[derive(Debug, Clone, Default)]
pub struct BandwidthEstimate {
    verdicts: VecDeque<TrainVerdict>,
}

impl BandwidthEstimate {
    pub fn handle_verdict(&mut self, verdict: TrainVerdict) {
        if self.verdicts.len() == MAX_VERDICTS {
            self.verdicts.pop_front();
        }
        self.verdicts.push_back(verdict);
    }

    /// The number of trains that are kept.
    pub fn trains(&self) -> u32 {
        self.verdicts.len() as u32
    }

    pub fn bandwidth(&self) -> Bandwidth {
        let mut rates: Vec<_> = self.rates().collect();
        rates.sort_by(f64::total_cmp);
        let trains = self.trains();
        let is_estimate = rates.len() >= MIN_RATES && rates.len() * 2 > self.verdicts.len();
        match bounds(&rates).filter(|_| is_estimate) {
            None => self.lower_bound(trains),
            Some([least, most]) => known(&rates, least, most),
        }
    }

    fn rates(&self) -> impl Iterator<Item = f64> {
        self.verdicts.iter().filter_map(|it| match it {
            TrainVerdict::Rate(rate) => Some(*rate),
            _ => None,
        })
    }

    fn lower_bound(&self, trains: u32) -> Bandwidth {
        let least = self.verdicts.iter().filter_map(|it| match it {
            TrainVerdict::AtLeast(rate) => Some(*rate),
            _ => None,
        });
        let mut least: Vec<_> = least.collect();
        if least.len() >= MIN_RATES && least.len() * 2 > self.verdicts.len() {
            let middle = (least.len() - 1) / 2;
            let rate = *least.select_nth_unstable_by(middle, f64::total_cmp).1;
            let rate = in_whole_bits(rate);
            return Bandwidth::AtLeast { rate, trains };
        }
        let why = self.mostly_unclear().unwrap_or(Unclear::Few);
        Bandwidth::Unknown { why, trains }
    }

    fn mostly_unclear(&self) -> Option<Unclear> {
        let mut counts: BTreeMap<Unclear, usize> = BTreeMap::new();
        for verdict in &self.verdicts {
            if let TrainVerdict::Unclear(why) = verdict {
                *counts.entry(*why).or_default() += 1;
            }
        }
        let (why, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        (count * 2 >= self.verdicts.len()).then_some(why)
    }
}

/// `rates` are sorted.
fn known(rates: &[f64], least: f64, most: f64) -> Bandwidth {
    let rate = rates[(rates.len() - 1) / 2];
    let trains = rates.len() as u32;
    if most - least > MAX_INTERVAL_WIDTH * rate {
        let why = Unclear::Unsteady;
        return Bandwidth::Unknown { why, trains };
    }
    let [rate, least, most] = [rate, least, most].map(in_whole_bits);
    Bandwidth::Known {
        rate,
        least,
        most,
        trains,
    }
}

/// The interval that contains the median of all possible trains with 95 percent confidence, for any distribution, by
/// the binomial distribution.
fn bounds(rates: &[f64]) -> Option<[f64; 2]> {
    let count = rates.len();
    let mut chance = (0..count).fold(1.0, |chance, _| chance / 2.0);
    let (mut below, mut rank) = (chance, 0);
    while below <= 0.025 {
        rank += 1;
        chance *= (count + 1 - rank) as f64 / rank as f64;
        below += chance;
    }
    let least = rank.checked_sub(1)?;
    Some([*rates.get(least)?, *rates.get(count - 1 - least)?])
}

fn in_whole_bits(bits_per_s: f64) -> Rate {
    Rate::from_bits_per_s(bits_per_s.round().max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate_of(verdicts: impl IntoIterator<Item = TrainVerdict>) -> Bandwidth {
        let mut estimate = BandwidthEstimate::default();
        for verdict in verdicts {
            estimate.handle_verdict(verdict);
        }
        estimate.bandwidth()
    }

    #[test]
    fn bounds_match_sign_test() {
        // Ranks from tables of distribution-free confidence intervals of the median.
        for (count, rank) in [(6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (25, 8), (50, 18)] {
            let rates: Vec<_> = (1..=count).map(f64::from).collect();
            let expected = [f64::from(rank), f64::from(count + 1 - rank)];
            assert_eq!(bounds(&rates), Some(expected), "{count}");
        }
        assert_eq!(bounds(&[1.0; 5]), None);
        assert_eq!(bounds(&[]), None);
    }

    #[test]
    fn outliers_do_not_shift_median() {
        let rates = (0..20).map(|it| match it % 7 {
            0 => TrainVerdict::Rate(3e9),
            it => TrainVerdict::Rate(1e9 + it as f64 * 1e6),
        });
        let Bandwidth::Known {
            rate, least, most, ..
        } = estimate_of(rates)
        else {
            panic!("it is known");
        };
        assert!((1000.0..1010.0).contains(&rate.mbps()), "{rate}");
        assert!(least < rate && rate < most && most.mbps() < 1010.0);
    }

    #[test]
    fn few_or_disagreeing_trains_are_unknown() {
        let five = estimate_of([TrainVerdict::Rate(1e9); 5]);
        let few = |trains| Bandwidth::Unknown {
            why: Unclear::Few,
            trains,
        };
        assert_eq!((estimate_of([]), five), (few(0), few(5)));
        let spread = (0..20).map(|it| TrainVerdict::Rate(5e8 + f64::from(it) * 5e7));
        let why = Unclear::Unsteady;
        assert_eq!(estimate_of(spread), Bandwidth::Unknown { why, trains: 20 });
        let why = Unclear::Batched;
        let mostly = [TrainVerdict::Unclear(why); 15]
            .into_iter()
            .chain([TrainVerdict::Rate(1e9); 9]);
        assert_eq!(estimate_of(mostly), Bandwidth::Unknown { why, trains: 24 });
    }

    #[test]
    fn unspread_trains_give_lower_bound() {
        let rate = Rate::from_bits_per_s(7_000_000_000);
        let trains = 9;
        assert_eq!(
            estimate_of([TrainVerdict::AtLeast(7e9); 9]),
            Bandwidth::AtLeast { rate, trains }
        );
    }
}
