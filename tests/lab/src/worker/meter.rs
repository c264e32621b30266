//! How well a flow is served, told from when its bytes arrive. Pure: time is an argument.

use std::time::Duration;

/// Watches one end of a flow, message by message.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: u64,
    busy: Duration,
    longest_stall: Duration,
    message: Message,
}

#[derive(Debug, Clone, Copy, Default)]
enum Message {
    #[default]
    None,
    /// This end is ready for it, and nothing has arrived.
    Awaited {
        since: Duration,
    },
    UnderWay {
        began: Duration,
        progress: Duration,
    },
}

impl Meter {
    /// This end is ready for a message.
    pub(crate) fn message_awaited(&mut self, now: Duration) {
        self.message = Message::Awaited { since: now };
    }

    /// The head of a message has arrived, which says when it was sent. Waiting for a peer that is
    /// not yet sending, or not yet receiving, is no stall: the clock runs from when both were ready.
    pub(crate) fn message_began(&mut self, sent: Duration) {
        let began = match self.message {
            Message::Awaited { since } => sent.max(since),
            Message::None | Message::UnderWay { .. } => sent,
        };
        self.message = Message::UnderWay {
            began,
            progress: began,
        };
    }

    pub(crate) fn progress(&mut self, now: Duration, bytes: u64) {
        self.bytes += bytes;
        if let Message::UnderWay { progress, .. } = &mut self.message {
            let stall = now.saturating_sub(*progress);
            self.longest_stall = self.longest_stall.max(stall);
            *progress = now;
        }
    }

    pub(crate) fn message_ended(&mut self, now: Duration) {
        if let Message::UnderWay { began, .. } = self.message {
            self.busy += now.saturating_sub(began);
        }
        self.message = Message::None;
    }

    /// The flow will bring nothing more. A message that was under way has stalled until now, and so
    /// has one that was awaited: nobody will ever know whether it had been sent.
    pub(crate) fn interrupted(&mut self, now: Duration) {
        if let Message::Awaited { since } = self.message {
            self.longest_stall = self.longest_stall.max(now.saturating_sub(since));
        }
        self.progress(now, 0);
        self.message_ended(now);
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
    fn waiting_for_the_peer_is_neither_busy_nor_stalled() {
        let mut meter = Meter::default();
        meter.message_awaited(ms(0));
        // The sender is late.
        meter.message_began(ms(800));
        meter.progress(ms(810), 1000);
        meter.message_ended(ms(810));
        // The receiver is late.
        meter.message_awaited(ms(2000));
        meter.message_began(ms(1000));
        meter.progress(ms(2020), 1000);
        meter.message_ended(ms(2020));
        assert_eq!((meter.busy(), meter.longest_stall()), (ms(30), ms(20)));
    }

    #[test]
    fn a_message_that_never_came_has_stalled() {
        let mut meter = Meter::default();
        meter.message_awaited(ms(100));
        meter.interrupted(ms(400));
        assert_eq!((meter.busy(), meter.longest_stall()), (ms(0), ms(300)));
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
