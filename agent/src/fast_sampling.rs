//! While the coordinator waits for interface readings, the agent sends them many times between two reports.

use std::future::pending;
use std::time::Duration;

use reweave_common::instruction::FastSampling;
use tokio::time::{Instant, sleep_until};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// A longer wait needs another request.
const MAX_SAMPLING_TIME: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct FastSamplingTimer {
    next: Option<Instant>,
    until: Option<Instant>,
}

impl FastSamplingTimer {
    pub fn handle_asked(&mut self, now: Instant, closely: FastSampling) {
        let span = Duration::from_millis(closely.for_ms.into());
        self.until = Some(now + span.min(MAX_SAMPLING_TIME));
        self.next.get_or_insert(now);
    }

    /// Never, without a request.
    pub async fn due(&self) {
        match self.next {
            Some(next) => sleep_until(next).await,
            None => pending().await,
        }
    }

    pub fn handle_taken(&mut self, now: Instant) {
        let next = now + SAMPLE_INTERVAL;
        self.next = self.until.filter(|until| next <= *until).map(|_| next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After this many milliseconds each.
    fn taken(looks: &mut FastSamplingTimer, from: Instant) -> Vec<u128> {
        let mut taken = Vec::new();
        while let Some(next) = looks.next {
            taken.push((next - from).as_millis());
            looks.handle_taken(next);
        }
        taken
    }

    #[test]
    fn close_sampling_runs_at_fixed_interval() {
        let (mut looks, now) = (FastSamplingTimer::default(), Instant::now());
        looks.handle_asked(now, FastSampling { for_ms: 250 });
        assert_eq!(taken(&mut looks, now), [0, 100, 200]);
    }

    #[test]
    fn close_sampling_repeats_within_limit() {
        let (mut looks, now) = (FastSamplingTimer::default(), Instant::now());
        looks.handle_asked(now, FastSampling { for_ms: 100 });
        looks.handle_taken(now);
        let later = now + Duration::from_millis(50);
        looks.handle_asked(later, FastSampling { for_ms: u32::MAX });
        let taken = taken(&mut looks, now);
        assert_eq!((taken[0], taken.len()), (100, 100));
    }
}
