//! Whether this coordinator has had its turns.
//!
//! On a machine that is taken for something else, or suspended, a coordinator stands still without knowing. When it
//! goes on, all limits seem to be over and all readings too old, and nothing of that says anything about the cluster.

use std::time::Duration;

use reweave_common::moment::Moment;

/// Turns are a tenth of a second apart.
const STOOD_STILL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default)]
pub(crate) struct Wakefulness {
    last_turn: Option<Moment>,
    awake_since: Moment,
}

impl Wakefulness {
    pub(crate) fn handle_turn(&mut self, now: Moment) {
        let last = self.last_turn.replace(now);
        if last.is_none_or(|last| now.since(last) >= STOOD_STILL) {
            self.awake_since = now;
        }
    }

    /// When the last standstill ended, or when this coordinator had its first turn.
    pub(crate) fn awake_since(&self) -> Moment {
        self.awake_since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_turn_that_is_long_overdue_ends_a_standstill() {
        let at = |ms: u64| Moment::from_micros(ms * 1000);
        let mut turns = Wakefulness::default();
        let since = [5000, 5100, 6000, 7000, 7100, 99_000].map(|ms| {
            turns.handle_turn(at(ms));
            turns.awake_since()
        });
        assert_eq!(since, [5000, 5000, 5000, 7000, 7000, 99_000].map(at));
    }
}
