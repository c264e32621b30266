//! How fast a peer is listened to. What it sends faster waits at its own side, where QUIC's flow
//! control keeps it.

use std::time::Duration;

use tokio::time::Instant;

/// What a frame counts for besides its bytes: it is work for whoever reads it.
const FRAME_COSTS_BYTES: f64 = 512.0;

/// A bucket of bytes that fills at a steady rate.
#[derive(Debug)]
pub(crate) struct Pace {
    rate_bytes_per_s: f64,
    burst_bytes: f64,
    /// Below nothing when more was taken than there was.
    left_bytes: f64,
    at: Instant,
}

impl Pace {
    pub(crate) fn new(rate_bytes_per_s: u32, burst_bytes: u32) -> Self {
        Self {
            rate_bytes_per_s: f64::from(rate_bytes_per_s),
            burst_bytes: f64::from(burst_bytes),
            left_bytes: f64::from(burst_bytes),
            at: Instant::now(),
        }
    }

    /// A frame of so many bytes was read.
    pub(crate) fn handle_frame(&mut self, length_bytes: usize) {
        self.fill();
        self.left_bytes -= length_bytes as f64 + FRAME_COSTS_BYTES;
    }

    /// How long to wait before the next frame is read.
    pub(crate) fn pause(&mut self) -> Duration {
        self.fill();
        let owed = (-self.left_bytes).max(0.0);
        Duration::from_secs_f64(owed / self.rate_bytes_per_s)
    }

    fn fill(&mut self) {
        let now = Instant::now();
        let filled = self.rate_bytes_per_s * (now - self.at).as_secs_f64();
        self.left_bytes = (self.left_bytes + filled).min(self.burst_bytes);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_a_burst_frames_come_at_the_rate() {
        let mut pace = Pace::new(1024, 2048);
        for _ in 0..2 {
            assert_eq!(pace.pause(), Duration::ZERO);
            pace.handle_frame(1024);
        }
        assert_eq!(pace.pause(), Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(pace.pause(), Duration::ZERO);
        pace.handle_frame(1024 - 512);
        assert_eq!(pace.pause(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_was_silent_has_one_burst_and_no_more() {
        let mut pace = Pace::new(1024, 2048);
        tokio::time::advance(Duration::from_hours(1)).await;
        pace.handle_frame(2048);
        assert_eq!(pace.pause(), Duration::from_millis(500));
    }
}
