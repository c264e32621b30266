//! Counters of NICs, RDMA ports and the kernel: their names, their growth, and their shares of totals.

mod meaning;
pub mod texts;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use reweave_common::health::{CounterSource, Health, Signal, SignalReading};
use reweave_common::moment::Moment;

use crate::counter_delta::CounterState;
pub use meaning::{Meaning, Origin, Whole, meaning};

/// All counters of one interface, port or host. Of several with the same meaning, the first counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    pub place: CounterSource,
    pub counts: Vec<(Meaning, u64)>,
}

/// Tracks all counters.
#[derive(Debug, Default)]
pub struct HealthBook {
    last: BTreeMap<CounterSource, Last>,
}

#[derive(Debug)]
struct Last {
    at: Moment,
    signals: BTreeMap<Signal, CounterState>,
    wholes: BTreeMap<Whole, CounterState>,
}

/// The value of each signal's counter, and the largest value of its field.
type Signals = BTreeMap<Signal, (u64, Option<u64>)>;

impl HealthBook {
    /// `places` are all that exist now; one that vanished and returned starts again. Counters that never counted
    /// anything are not reported.
    pub fn handle_counts(&mut self, now: Moment, places: &[Counts]) -> Vec<Health> {
        self.last
            .retain(|place, _| places.iter().any(|it| it.place == *place));
        let health = places.iter().map(|it| self.handle_place(now, it));
        health.filter(|it| !it.signals.is_empty()).collect()
    }

    fn handle_place(&mut self, now: Moment, counts: &Counts) -> Health {
        let (signals, wholes) = sorted(counts);
        let last = self.last.get(&counts.place);
        let next = Last::after(last, now, &signals, &wholes);
        let reading = |(&signal, &(total, most)): (&Signal, &(u64, Option<u64>))| {
            let standing = next.signals.get(&signal);
            // A counter that stops at the end of its field has no certain growth there.
            let is_sure = |grown: &u64| most.is_none_or(|most| total < most && *grown <= total);
            let grown = standing.and_then(|it| it.grown).filter(is_sure);
            SignalReading {
                signal,
                total,
                grown,
                of: whole_of(signal, grown, &next.wholes),
            }
        };
        let counted = signals.iter().filter(|(_, (total, _))| *total > 0);
        let health = Health {
            place: counts.place.clone(),
            over: last.map_or_else(Default::default, |last| now.since(last.at).into()),
            signals: counted.map(reading).collect(),
        };
        self.last.insert(counts.place.clone(), next);
        health
    }
}

impl Last {
    fn after(
        last: Option<&Self>,
        at: Moment,
        signals: &Signals,
        wholes: &BTreeMap<Whole, u64>,
    ) -> Self {
        let signals = signals.iter().map(|(&signal, &(total, _))| (signal, total));
        let wholes = wholes.iter().map(|(&whole, &count)| (whole, count));
        Self {
            at,
            signals: standings(last.map(|last| &last.signals), signals),
            wholes: standings(last.map(|last| &last.wholes), wholes),
        }
    }
}

fn standings<K: Ord>(
    last: Option<&BTreeMap<K, CounterState>>,
    counts: impl Iterator<Item = (K, u64)>,
) -> BTreeMap<K, CounterState> {
    let standing = |(key, count)| {
        let before = last.and_then(|last| last.get(&key));
        let now = before.map_or_else(|| CounterState::first(count), |before| before.next(count));
        (key, now)
    };
    counts.map(standing).collect()
}

fn sorted(counts: &Counts) -> (Signals, BTreeMap<Whole, u64>) {
    let (mut signals, mut wholes) = (Signals::new(), BTreeMap::new());
    for &(meaning, value) in &counts.counts {
        match meaning {
            Meaning::Signal { signal, most } => {
                signals.entry(signal).or_insert((value, most));
            }
            Meaning::Whole(whole) => {
                wholes.entry(whole).or_insert(value);
            }
        }
    }
    (signals, wholes)
}

/// The total meanwhile, including the part in trouble.
fn whole_of(
    signal: Signal,
    part: Option<u64>,
    wholes: &BTreeMap<Whole, CounterState>,
) -> Option<u64> {
    let whole = Whole::of(signal)?;
    let good = wholes.get(&whole)?.grown?;
    Some(if whole.has_parts() {
        good
    } else {
        good.saturating_add(part?)
    })
}
