//! Recent results of probes.

use std::time::Duration;

use super::{Large, LossByDirection, ProbeTally, Routers, Unsent};
use crate::moment::Moment;

/// Merged tallies of the last 30 s to 60 s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeWindow {
    earlier: ProbeTally,
    current: ProbeTally,
    began: Moment,
    heard: Moment,
}

impl ProbeWindow {
    pub const HALF_WINDOW: Duration = Duration::from_secs(30);

    pub fn new(now: Moment) -> Self {
        Self {
            earlier: ProbeTally::default(),
            current: ProbeTally::default(),
            began: now,
            heard: now,
        }
    }

    pub fn add(&mut self, now: Moment, tally: &ProbeTally) {
        self.handle_time(now);
        self.heard = now;
        self.current.merge(tally);
    }

    pub fn tally(&self) -> ProbeTally {
        let mut tally = self.earlier.clone();
        tally.merge(&self.current);
        tally
    }

    /// Returns the number of answered probes, and the lost ones, without times.
    pub fn outcome(&self) -> (u64, LossByDirection) {
        let [earlier, current] = [&self.earlier, &self.current];
        let mut lost = earlier.lost;
        lost.merge(current.lost);
        (
            u64::from(earlier.answered) + u64::from(current.answered),
            lost,
        )
    }

    /// Returns the same for the previous half of the window.
    pub fn before(&self) -> (u64, LossByDirection) {
        (self.earlier.answered.into(), self.earlier.lost)
    }

    pub fn large(&self) -> Large {
        let mut large = self.earlier.large;
        large.merge(self.current.large);
        large
    }

    pub fn unsent(&self) -> Unsent {
        let mut unsent = self.earlier.unsent;
        unsent.merge(self.current.unsent);
        unsent
    }

    /// Returns the routers on the path of the last answer.
    pub fn routers(&self) -> Option<Routers> {
        self.current.routers.or(self.earlier.routers)
    }

    /// Adds the window to a tally of its pair.
    pub fn add_to(&self, all: &mut ProbeTally) {
        all.merge(&self.earlier);
        all.merge(&self.current);
    }

    /// Removes old tallies. Returns whether any are left.
    pub fn handle_time(&mut self, now: Moment) -> bool {
        if now.since(self.began) >= Self::HALF_WINDOW {
            self.earlier = std::mem::take(&mut self.current);
            self.began = now;
        }
        now.since(self.heard) < 2 * Self::HALF_WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_window_covers_30_to_60s() {
        let at = |s: u64| Moment::from_micros(s * 1_000_000);
        let mut window = ProbeWindow::new(at(0));
        let one = ProbeTally {
            answered: 1,
            ..ProbeTally::default()
        };
        for second in 0..200 {
            window.add(at(second), &one);
            let held = window.tally().sent();
            let whole = if second < 30 { 0 } else { 30 };
            assert_eq!(window.before().0, whole, "{second}");
            assert!(
                (30.min(second + 1)..=60).contains(&held),
                "{held} at {second}"
            );
        }
        assert!(window.handle_time(at(230)) && !window.handle_time(at(260)));
        assert_eq!(window.tally(), ProbeTally::default());
    }
}
