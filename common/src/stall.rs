//! Detects that the calling process was stalled while the machine's clock went on: without CPU time, stopped by a
//! signal, or in a virtual machine without CPU time. A suspended machine stops its clock as well.

use std::time::Duration;

use crate::moment::Moment;

/// Finds gaps between regular ticks.
#[derive(Debug, Clone)]
pub struct StallDetector {
    min_stall: Duration,
    last_tick: Option<Moment>,
}

impl StallDetector {
    pub const fn new(min_stall: Duration) -> Self {
        Self {
            min_stall,
            last_tick: None,
        }
    }

    /// Whether the process was stalled since the previous tick.
    pub fn tick(&mut self, now: Moment) -> bool {
        let last = self.last_tick.replace(now);
        last.is_some_and(|last| now.since(last) >= self.min_stall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stall_is_gap_between_ticks() {
        let mut detector = StallDetector::new(Duration::from_secs(1));
        let stalls = [5000, 5100, 6000, 7000, 7100, 99_000]
            .map(|ms: u64| detector.tick(Moment::from_micros(ms * 1000)));
        assert_eq!(stalls, [false, false, false, true, false, true]);
    }
}
