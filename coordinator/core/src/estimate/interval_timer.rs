//! Limits work to once per interval, instead of once per turn.

use std::time::Duration;

use reweave_common::moment::Moment;

#[derive(Debug, Clone, Default)]
pub(crate) struct IntervalTimer {
    last: Option<Moment>,
}

impl IntervalTimer {
    /// Whether the interval `every` has passed since the last time that this returned true.
    pub(crate) fn is_due(&mut self, now: Moment, every: Duration) -> bool {
        let due = self.last.is_none_or(|last| now.since(last) >= every);
        if due {
            self.last = Some(now);
        }
        due
    }

    /// Makes the timer due at once.
    pub(crate) fn hurry(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_timer_is_due_after_hurry() {
        let mut pace = IntervalTimer::default();
        let due = |pace: &mut IntervalTimer, ms: u64| {
            pace.is_due(Moment::from_micros(ms * 1000), Duration::from_millis(500))
        };
        let dues = [0, 499, 500, 999, 1000].map(|ms| due(&mut pace, ms));
        assert_eq!(dues, [true, false, true, false, true]);
        pace.hurry();
        assert!(due(&mut pace, 1001));
        assert!(!due(&mut pace, 1500));
    }
}
