//! A budget of bytes: a token bucket that fills at a steady rate.

use std::time::Duration;

use reweave_common::moment::Moment;

#[derive(Debug, Clone)]
pub struct ByteBudget {
    bytes_per_s: u64,
    most: u64,
    left: u64,
    /// The time of the last refill.
    at: Option<Moment>,
}

impl ByteBudget {
    /// A full bucket.
    pub fn new(bytes_per_s: u64, most: u64) -> Self {
        Self {
            bytes_per_s,
            most,
            left: most,
            at: None,
        }
    }

    /// An empty bucket.
    pub fn empty(now: Moment, bytes_per_s: u64, most: u64) -> Self {
        Self {
            left: 0,
            at: Some(now),
            ..Self::new(bytes_per_s, most)
        }
    }

    /// Takes this many bytes, if available.
    pub fn take(&mut self, now: Moment, bytes: u64) -> bool {
        self.fill(now);
        let enough = bytes <= self.left;
        if enough {
            self.left -= bytes;
        }
        enough
    }

    /// Returns unused bytes.
    pub fn give_back(&mut self, bytes: u64) {
        self.left = self.left.saturating_add(bytes).min(self.most);
    }

    /// The time until this many bytes are available; none if that never happens.
    pub fn wait(&mut self, now: Moment, bytes: u64) -> Option<Duration> {
        self.fill(now);
        let lacking = bytes.saturating_sub(self.left);
        let micros = lacking.saturating_mul(1_000_000);
        let wait = micros.div_ceil(self.bytes_per_s.max(1));
        (bytes <= self.most).then(|| Duration::from_micros(wait))
    }

    fn fill(&mut self, now: Moment) {
        let since = *self.at.get_or_insert(now);
        let micros = now.since(since).as_micros();
        let grown = micros * u128::from(self.bytes_per_s) / 1_000_000;
        // Time worth less than a byte is kept for the next refill.
        if grown > 0 {
            let grown = u64::try_from(grown).unwrap_or(u64::MAX);
            self.left = self.left.saturating_add(grown).min(self.most);
            self.at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    #[test]
    fn budget_limits_rate_and_burst() {
        let mut budget = ByteBudget::new(1000, 500);
        let mut gone = 0;
        for ms in 0..10_000 {
            gone += if budget.take(at(ms), 100) { 100 } else { 0 };
        }
        assert!((10_300..=10_500).contains(&gone), "{gone}");
    }

    #[test]
    fn budget_computes_wait_time() {
        let mut budget = ByteBudget::new(1000, 500);
        assert!(budget.take(at(0), 500) && !budget.take(at(0), 1));
        assert_eq!(budget.wait(at(0), 200), Some(Duration::from_millis(200)));
        assert!(!budget.take(at(199), 200) && budget.take(at(200), 200));
        assert_eq!(budget.wait(at(200), 501), None, "it never holds so much");
    }
}
