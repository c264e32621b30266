//! Event queue of a simulation whose clock jumps from one event to the next.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::moment::Moment;

/// Events wait in order of time; those of one moment, in the order in which they were put here.
#[derive(Debug)]
pub struct Schedule<E> {
    now: Moment,
    waiting: BTreeMap<(Moment, u64), E>,
    last: u64,
}

impl<E> Schedule<E> {
    pub fn starting_at(now: Moment) -> Self {
        Self {
            now,
            waiting: BTreeMap::new(),
            last: 0,
        }
    }

    pub fn now(&self) -> Moment {
        self.now
    }

    pub fn next_due(&self) -> Option<Moment> {
        let ((at, _), _) = self.waiting.first_key_value()?;
        Some(*at)
    }

    /// Advances time without an event; none may be due before.
    pub fn pass(&mut self, to: Moment) {
        self.now = self.now.max(to);
    }

    pub fn after(&mut self, delay: Duration, event: E) {
        self.at(self.now + delay, event);
    }

    /// Adds an event. An event in the past happens now.
    pub fn at(&mut self, at: Moment, event: E) {
        self.last += 1;
        self.waiting.insert((at.max(self.now), self.last), event);
    }

    /// Advances time to the next event.
    pub fn go_on(&mut self) -> Option<E> {
        let ((at, _), event) = self.waiting.pop_first()?;
        self.now = at;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_follows_events_monotonically() {
        let mut schedule = Schedule::starting_at(Moment::from_micros(5));
        schedule.after(Duration::from_micros(9), "late");
        schedule.after(Duration::from_micros(2), "early");
        schedule.after(Duration::from_micros(2), "early too");
        schedule.at(Moment::default(), "overdue");
        let order = std::iter::from_fn(|| Some((schedule.go_on()?, schedule.now().as_micros())));
        let expected = [("overdue", 5), ("early", 7), ("early too", 7), ("late", 14)];
        assert_eq!(order.collect::<Vec<_>>(), expected);
    }
}
