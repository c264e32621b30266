//! Round-trip time of packets.

use std::time::Duration;

/// Timeout before the first answer, and maximum timeout: after a blackout the flow continues within this time.
const MAX_RETRANSMIT_TIMEOUT: Duration = Duration::from_millis(200);
/// Shorter waits would mistake a busy processor for a loss.
const MIN_RETRANSMIT_TIMEOUT: Duration = Duration::from_millis(5);
/// The resolution of the timer clock.
const CLOCK_GRANULARITY: Duration = Duration::from_millis(1);

/// Smoothed as in RFC 6298.
#[derive(Debug, Default)]
pub(super) struct Rtt {
    /// Mean and mean deviation.
    smoothed: Option<(Duration, Duration)>,
    latest: Duration,
}

impl Rtt {
    pub(super) fn note(&mut self, sample: Duration) {
        self.latest = sample;
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, deviation)) => (
                (mean * 7 + sample) / 8,
                (deviation * 3 + mean.abs_diff(sample)) / 4,
            ),
        });
    }

    pub(super) fn mean(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }

    /// Returns the wait for an answer after `times` retries.
    pub(super) fn wait(&self, times: u32) -> Duration {
        let Some(usual) = self.usual() else {
            return MAX_RETRANSMIT_TIMEOUT;
        };
        let wait = usual
            .max(MIN_RETRANSMIT_TIMEOUT)
            .saturating_mul(1 << times.min(16));
        wait.min(MAX_RETRANSMIT_TIMEOUT.max(usual * 2))
    }

    /// After what time a packet that others have overtaken is lost, not late.
    pub(super) fn patience(&self) -> Duration {
        self.latest.max(self.usual().unwrap_or_default()) + CLOCK_GRANULARITY
    }

    /// Hardly any answer takes longer.
    fn usual(&self) -> Option<Duration> {
        let (mean, deviation) = self.smoothed?;
        Some(mean + 4 * deviation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn retransmit_timeout_follows_measured_rtt() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.wait(0), ms(200));
        rtt.note(ms(20));
        assert_eq!(rtt.wait(0), ms(60));
        for _ in 0..100 {
            rtt.note(ms(1));
        }
        assert_eq!(rtt.wait(0), ms(5));
        assert_eq!(rtt.wait(3), ms(40));
        assert_eq!(rtt.wait(9), ms(200));
        for _ in 0..100 {
            rtt.note(ms(300));
        }
        assert_eq!(rtt.mean().map(|mean| mean.as_millis()), Some(299));
        assert!(rtt.wait(5) > ms(300), "an answer can come");
    }
}
