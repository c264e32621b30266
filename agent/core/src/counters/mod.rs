//! What the counters of NICs, RDMA ports and the kernel say: by which name each goes, how much it
//! grew, and of how much that is a part.

mod growth;
mod meaning;
pub mod texts;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use reweave_common::health::{Health, Place, Signal, SignalReading};
use reweave_common::moment::Moment;

use growth::grown;
pub use meaning::{Meaning, Origin, Whole, meaning};

/// All counters of one place, as they stand. Of several with the same meaning the first counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    pub place: Place,
    pub counts: Vec<(Meaning, u64)>,
}

/// Follows the counters of all places.
#[derive(Debug, Default)]
pub struct HealthBook {
    last: BTreeMap<Place, Last>,
}

#[derive(Debug)]
struct Last {
    at: Moment,
    signals: BTreeMap<Signal, u64>,
    wholes: BTreeMap<Whole, u64>,
}

/// A counter's place among the signals, and where it stops to count.
type Standing = BTreeMap<Signal, (u64, Option<u64>)>;

impl HealthBook {
    /// `places` are all there are now; one that vanished and came back begins anew. Of counters
    /// that never counted anything nothing is said.
    pub fn handle_counts(&mut self, now: Moment, places: &[Counts]) -> Vec<Health> {
        self.last
            .retain(|place, _| places.iter().any(|it| it.place == *place));
        let health = places.iter().map(|it| self.handle_place(now, it));
        health.filter(|it| !it.signals.is_empty()).collect()
    }

    fn handle_place(&mut self, now: Moment, counts: &Counts) -> Health {
        let (standing, wholes) = sorted(counts);
        let last = self.last.get(&counts.place);
        let reading = |(&signal, &(total, most)): (&Signal, &(u64, Option<u64>))| {
            let before = last.and_then(|last| last.signals.get(&signal));
            let grown = before.and_then(|&before| grown(before, total, most));
            SignalReading {
                signal,
                total,
                grown,
                of: whole_of(signal, grown, last, &wholes),
            }
        };
        let counted = standing.iter().filter(|(_, (total, _))| *total > 0);
        let health = Health {
            place: counts.place.clone(),
            over: last.map_or_else(Default::default, |last| now.since(last.at)),
            signals: counted.map(reading).collect(),
        };
        let signals = standing
            .into_iter()
            .map(|(signal, (total, _))| (signal, total));
        let last = Last {
            at: now,
            signals: signals.collect(),
            wholes,
        };
        self.last.insert(counts.place.clone(), last);
        health
    }
}

fn sorted(counts: &Counts) -> (Standing, BTreeMap<Whole, u64>) {
    let (mut standing, mut wholes) = (Standing::new(), BTreeMap::new());
    for &(meaning, value) in &counts.counts {
        match meaning {
            Meaning::Signal { signal, most } => {
                standing.entry(signal).or_insert((value, most));
            }
            Meaning::Whole(whole) => {
                wholes.entry(whole).or_insert(value);
            }
        }
    }
    (standing, wholes)
}

/// How many packets or bits there were meanwhile, those in trouble among them.
fn whole_of(
    signal: Signal,
    part: Option<u64>,
    last: Option<&Last>,
    now: &BTreeMap<Whole, u64>,
) -> Option<u64> {
    let whole = Whole::of(signal)?;
    let before = *last?.wholes.get(&whole)?;
    let good = grown(before, *now.get(&whole)?, None)?;
    Some(if whole.has_parts() {
        good
    } else {
        good.saturating_add(part?)
    })
}
