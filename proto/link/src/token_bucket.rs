//! Rate limit for reading from a peer. The excess waits at the peer, by QUIC's flow control.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reweave_common::lock::lock;
use reweave_common::time_span::TimeSpan;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// The fixed cost of a frame besides its bytes, since reading it is work.
const FRAME_COST_BYTES: f64 = 512.0;

/// A bucket that fills at a steady rate, in bytes or any other unit. Clones share it.
#[derive(Debug, Clone)]
pub struct TokenBucket(Arc<Mutex<TokenLevel>>);

#[derive(Debug)]
struct TokenLevel {
    per_s: f64,
    burst: f64,
    /// The current level. It is negative if more was taken than there was.
    left: f64,
    at: Instant,
}

impl TokenBucket {
    pub fn new(per_s: u32, burst: u32) -> Self {
        Self(Arc::new(Mutex::new(TokenLevel {
            per_s: f64::from(per_s),
            burst: f64::from(burst),
            left: f64::from(burst),
            at: Instant::now(),
        })))
    }

    /// Waits until the level is no longer negative. If it is not, this only yields to other tasks: a sleep lasts until
    /// the next millisecond, however short it is.
    pub async fn wait(&self) {
        match self.pause() {
            Duration::ZERO => yield_now().await,
            owed => sleep(owed).await,
        }
    }

    /// Waits, and then takes one unit.
    pub async fn take_one(&self) {
        self.wait().await;
        self.take(1.0);
    }

    /// Returns whether the level is positive, and takes this number of units if it is.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let mut bucket = lock(&self.0);
        bucket.fill();
        let has_room = bucket.left > 0.0;
        if has_room {
            bucket.left -= count as f64;
        }
        has_room
    }

    /// Takes the cost of a frame of this length.
    pub(crate) fn handle_frame(&self, length_bytes: usize) {
        self.take(length_bytes as f64 + FRAME_COST_BYTES);
    }

    fn take(&self, amount: f64) {
        let mut bucket = lock(&self.0);
        bucket.fill();
        bucket.left -= amount;
    }

    fn pause(&self) -> Duration {
        let mut bucket = lock(&self.0);
        bucket.fill();
        let owed = (-bucket.left).max(0.0);
        TimeSpan::from_secs_f64(owed / bucket.per_s).get()
    }
}

impl TokenLevel {
    fn fill(&mut self) {
        let now = Instant::now();
        let filled = self.per_s * (now - self.at).as_secs_f64();
        self.left = (self.left + filled).min(self.burst);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn frames_follow_rate_after_burst() {
        let pace = TokenBucket::new(1024, 2048);
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
    async fn silence_earns_one_burst() {
        let pace = TokenBucket::new(1024, 2048);
        tokio::time::advance(Duration::from_hours(1)).await;
        pace.handle_frame(2048);
        assert_eq!(pace.pause(), Duration::from_millis(500));
    }

    #[tokio::test(start_paused = true)]
    async fn refused_room_takes_no_tokens() {
        let pace = TokenBucket::new(10, 4);
        assert!(pace.has_room(5));
        assert!(!pace.has_room(1));
        tokio::time::advance(Duration::from_millis(200)).await;
        assert!(pace.has_room(1));
        assert!(!pace.has_room(1));
    }

    #[tokio::test(start_paused = true)]
    async fn cloned_pace_shares_its_tokens() {
        let (one, other) = (TokenBucket::new(1, 1), TokenBucket::new(1, 1));
        let began = Instant::now();
        let same = one.clone();
        for pace in [&one, &other, &same, &one] {
            pace.take_one().await;
        }
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }
}
