//! The delay line of one direction of a wire, and the random choice of what it loses.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use reweave_common::split_mix::SplitMix64;

/// Frames in flight, in the order of arrival.
#[derive(Debug)]
pub(super) struct Line {
    latency: Duration,
    capacity_bytes: usize,
    bytes: usize,
    frames: VecDeque<(Instant, Box<[u8]>)>,
}

impl Line {
    pub(super) fn new(latency: Duration, capacity_bytes: usize) -> Self {
        Self {
            latency,
            capacity_bytes,
            bytes: 0,
            frames: VecDeque::new(),
        }
    }

    /// Whether there was room for the frame.
    pub(super) fn enter(&mut self, arrived: Instant, frame: &[u8]) -> bool {
        let fits = self.bytes + frame.len() <= self.capacity_bytes;
        if fits {
            self.bytes += frame.len();
            self.frames
                .push_back((arrived + self.latency, frame.into()));
        }
        fits
    }

    /// The next frame whose time has come by `now`, and that time.
    pub(super) fn leave(&mut self, now: Instant) -> Option<(Box<[u8]>, Instant)> {
        let (due, frame) = self.frames.pop_front_if(|(due, _)| *due <= now)?;
        self.bytes -= frame.len();
        Some((frame, due))
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.frames.front().map(|(due, _)| *due)
    }
}

/// Random losses, the same for the same seed.
#[derive(Debug)]
pub(super) struct RandomLoss(SplitMix64);

impl RandomLoss {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// True with the given probability.
    pub(super) fn loses(&mut self, probability: f64) -> bool {
        self.0.fraction() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_MS: Duration = Duration::from_millis(1);

    #[test]
    fn frames_leave_in_order_when_due() {
        let start = Instant::now();
        let mut line = Line::new(2 * ONE_MS, 100);
        assert!(line.enter(start, b"first"));
        assert!(line.enter(start + ONE_MS, b"second"));
        assert_eq!(line.next_due(), Some(start + 2 * ONE_MS));
        assert_eq!(line.leave(start + ONE_MS), None);
        let (frame, due) = line.leave(start + 3 * ONE_MS).unwrap();
        assert_eq!((&*frame, due), (&b"first"[..], start + 2 * ONE_MS));
        let (frame, due) = line.leave(start + 3 * ONE_MS).unwrap();
        assert_eq!((&*frame, due), (&b"second"[..], start + 3 * ONE_MS));
        assert_eq!(line.leave(start + 9 * ONE_MS), None);
    }

    #[test]
    fn full_line_drops_until_frame_leaves() {
        let start = Instant::now();
        let mut line = Line::new(ONE_MS, 10);
        assert!(line.enter(start, &[0; 6]));
        assert!(!line.enter(start, &[0; 5]));
        assert!(line.enter(start, &[0; 4]));
        assert!(line.leave(start + ONE_MS).is_some());
        assert!(line.enter(start + ONE_MS, &[0; 6]));
    }

    #[test]
    fn random_loss_is_fair_and_reproducible() {
        let count = |seed, probability| {
            let mut loss = RandomLoss::new(seed);
            (0..100_000).filter(|_| loss.loses(probability)).count()
        };
        for seed in [0, 1, u64::MAX] {
            assert_eq!(count(seed, 0.0), 0);
            assert_eq!(count(seed, 1.0), 100_000);
            // Four standard deviations.
            assert!(count(seed, 0.1).abs_diff(10_000) < 380, "seed {seed}");
        }
        assert_eq!(count(7, 0.3), count(7, 0.3));
    }
}
