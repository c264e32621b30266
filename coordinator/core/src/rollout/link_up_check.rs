//! Checks that new circuits have stable light. A single reading may hit the moment in which a bad fibre has light, so
//! this requires light for some time, in every reading, without a counted loss in between.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::health::{CounterSource, Signal};
use reweave_common::moment::Moment;

use super::idle_proof::Port;
use crate::log::reason::Reason;
use crate::model::world::Measurements;

/// Fewer readings could miss a link that flaps.
const MIN_READINGS: u32 = 3;

#[derive(Debug, Clone)]
pub(crate) struct LinkUpCheck {
    since: Moment,
    ports: BTreeMap<Port, Seen>,
}

/// Light without a break until now.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    first: Option<Moment>,
    last: Option<Moment>,
    readings: u32,
    /// The interface's count of carrier losses, where it has one.
    falls: Option<u64>,
}

impl LinkUpCheck {
    /// Ignores readings before `since`, which are about other circuits.
    pub(crate) fn new(since: Moment) -> Self {
        Self {
            since,
            ports: BTreeMap::new(),
        }
    }

    pub(crate) fn handle_observations(
        &mut self,
        known: Measurements<'_>,
        ports: impl IntoIterator<Item = Port>,
    ) {
        for port in ports {
            let observed = known.ingest.observations().node(port.0);
            let counters = observed.and_then(|it| it.counters.get(&port.1));
            let falls = falls(known, &port);
            let seen = self.ports.entry(port).or_default();
            if let Some(counters) = counters.filter(|it| it.at > self.since) {
                seen.see(counters.at, counters.value.up);
            }
            if let Some((at, total)) = falls {
                seen.count(at, total);
            }
        }
    }

    /// The ports where light has not lasted for this time; a flapping link loses it sooner.
    pub(crate) fn missing(&self, lasts: Duration) -> Vec<Reason> {
        let missing = self.ports.iter().filter(|(_, seen)| !seen.lasts(lasts));
        let reason = |((node, interface), _): (&Port, _)| Reason::NoLight {
            node: *node,
            interface: interface.clone(),
        };
        missing.map(reason).collect()
    }
}

/// A port's count of carrier losses, and when it was read.
fn falls(known: Measurements<'_>, (node, interface): &Port) -> Option<(Moment, u64)> {
    let observed = known.ingest.observations().node(*node)?;
    let place = CounterSource::Interface(interface.clone());
    let health = observed.host.health.get(&place)?;
    let mut signals = health.value.signals.iter();
    let falls = signals.find(|it| it.signal == Signal::LinkDowns)?;
    Some((health.at, falls.total))
}

impl Seen {
    fn see(&mut self, at: Moment, up: bool) {
        if !up {
            *self = Self::default();
        } else if self.last.is_none_or(|last| at > last) {
            self.first = self.first.or(Some(at));
            self.last = Some(at);
            self.readings += 1;
        }
    }

    /// Ignores losses before the light came.
    fn count(&mut self, at: Moment, total: u64) {
        if self.first.is_none_or(|first| at < first) {
            return;
        }
        if self.falls.is_some_and(|falls| falls != total) {
            (self.first, self.last, self.readings) = (Some(at), Some(at), 1);
        }
        self.falls = Some(total);
    }

    fn lasts(&self, lasts: Duration) -> bool {
        let seen = self.first.zip(self.last);
        let is_seen_enough = self.readings >= MIN_READINGS;
        is_seen_enough && seen.is_some_and(|(first, last)| last.since(first) >= lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_LIGHT_TIME: Duration = Duration::from_secs(1);

    /// Whether light with these readings, one every 500 ms, counts as stable.
    fn lasts(readings: &[bool]) -> bool {
        let mut seen = Seen::default();
        for (at, up) in (0..).step_by(500).zip(readings) {
            seen.see(at_ms(at), *up);
        }
        seen.lasts(MIN_LIGHT_TIME)
    }

    fn at_ms(ms: u64) -> Moment {
        Moment::from_micros(1000 * ms)
    }

    #[test]
    fn stable_light_needs_one_second() {
        assert!(!lasts(&[false, true]));
        assert!(!lasts(&[false, true, true]));
        assert!(lasts(&[false, true, true, true]));
        assert!(!lasts(&[true, true, false, true, true]));
        assert!(!lasts(&[true, true, true, false]), "it has gone again");
    }

    #[test]
    fn few_readings_prove_no_light() {
        let mut seen = Seen::default();
        seen.see(at_ms(0), true);
        seen.see(at_ms(60_000), true);
        assert!(!seen.lasts(MIN_LIGHT_TIME));
        seen.see(at_ms(60_100), true);
        assert!(seen.lasts(MIN_LIGHT_TIME));
    }

    /// A loss of light between two readings is found by the counter.
    #[test]
    fn light_drops_between_readings_count() {
        let mut seen = Seen::default();
        seen.count(at_ms(0), 3);
        for (ms, falls) in [(500, 4), (1000, 5), (1500, 6), (2000, 7)] {
            seen.see(at_ms(ms), true);
            seen.count(at_ms(ms), falls);
            assert!(!seen.lasts(MIN_LIGHT_TIME), "at {ms} ms");
        }
        for ms in [2500, 3000] {
            seen.see(at_ms(ms), true);
            seen.count(at_ms(ms), 7);
        }
        assert!(seen.lasts(MIN_LIGHT_TIME));
    }
}
