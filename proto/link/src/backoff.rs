//! Delays between retries. Pure: randomness is an argument.

use std::time::Duration;

use reweave_common::time_span::TimeSpan;

const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Doubles from try to try, up to a limit. Each delay is shortened by up to half at random, so that peers that lost
/// their sessions together do not reconnect together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next delay; `random` is uniform between 0 and 1.
    pub fn next_delay(&mut self, random: f64) -> Duration {
        let doubled = MIN_BACKOFF.saturating_mul(2_u32.saturating_pow(self.tries));
        self.tries = self.tries.saturating_add(1);
        let share = 0.5 + random.clamp(0.0, 1.0) / 2.0;
        TimeSpan::new(doubled.min(MAX_BACKOFF)).scaled(share).get()
    }

    /// Resets the delay after a success.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(backoff: &mut Backoff, random: f64, count: usize) -> Vec<u128> {
        let delays = std::iter::repeat_with(|| backoff.next_delay(random).as_millis());
        delays.take(count).collect()
    }

    #[test]
    fn backoff_doubles_up_to_limit() {
        let expected = [100, 200, 400, 800, 1600, 3200, 5000, 5000];
        assert_eq!(delays(&mut Backoff::default(), 1.0, 8), expected);
    }

    #[test]
    fn backoff_jitter_halves_at_most() {
        assert_eq!(delays(&mut Backoff::default(), 0.0, 3), [50, 100, 200]);
        assert_eq!(delays(&mut Backoff::default(), 0.5, 3), [75, 150, 300]);
        assert_eq!(delays(&mut Backoff::default(), 7.0, 3), [100, 200, 400]);
    }

    #[test]
    fn backoff_resets_on_success() {
        let mut backoff = Backoff::default();
        delays(&mut backoff, 1.0, 100);
        assert_eq!(delays(&mut backoff, 1.0, 1), [5000]);
        backoff.reset();
        assert_eq!(delays(&mut backoff, 1.0, 1), [100]);
    }
}
