//! How well a flow is served, told from when its bytes arrive. Pure: time is an argument.

use std::time::Duration;

/// Watches one incoming flow, message by message.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: u64,
    busy: Duration,
    longest_stall: Duration,
    /// While a message is under way: when it was sent, and when it last made progress.
    under_way: Option<UnderWay>,
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    sent: Duration,
    progress: Duration,
}

impl Meter {
    /// The head of a message has arrived, which says when it was sent. Waiting for a peer that is
    /// not sending is no stall, so the clock runs from there.
    pub(crate) fn message_began(&mut self, sent: Duration) {
        self.under_way = Some(UnderWay {
            sent,
            progress: sent,
        });
    }

    pub(crate) fn progress(&mut self, now: Duration, bytes: u64) {
        self.bytes += bytes;
        self.note_stall(now);
        if let Some(under_way) = &mut self.under_way {
            under_way.progress = now;
        }
    }

    pub(crate) fn message_ended(&mut self, now: Duration) {
        if let Some(under_way) = self.under_way.take() {
            self.busy += now.saturating_sub(under_way.sent);
        }
    }

    /// The flow will bring nothing more; a message that was under way has stalled until now.
    pub(crate) fn interrupted(&mut self, now: Duration) {
        self.note_stall(now);
        self.message_ended(now);
    }

    fn note_stall(&mut self, now: Duration) {
        if let Some(under_way) = self.under_way {
            let stall = now.saturating_sub(under_way.progress);
            self.longest_stall = self.longest_stall.max(stall);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    pub(crate) fn longest_stall(&self) -> Duration {
        self.longest_stall
    }

    /// The mean rate while messages were under way.
    pub(crate) fn rate_bits_per_s(&self) -> u64 {
        let bits = u128::from(self.bytes) * 8 * 1_000_000_000;
        bits.checked_div(self.busy.as_nanos()).unwrap_or(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn only_time_with_a_message_under_way_counts() {
        let mut meter = Meter::default();
        meter.message_began(ms(100));
        meter.progress(ms(110), 500);
        meter.progress(ms(120), 500);
        meter.message_ended(ms(120));
        // Nothing was sent for a second.
        meter.message_began(ms(1120));
        meter.progress(ms(1150), 1000);
        meter.message_ended(ms(1150));
        assert_eq!(meter.busy(), ms(50));
        assert_eq!(meter.longest_stall(), ms(30));
        assert_eq!(meter.rate_bits_per_s(), 2000 * 8 * 20);
    }

    #[test]
    fn a_stall_that_never_ends_counts_until_the_end() {
        let mut meter = Meter::default();
        meter.message_began(ms(0));
        meter.progress(ms(1), 10);
        meter.interrupted(ms(5001));
        assert_eq!(meter.longest_stall(), ms(5000));
    }
}
