//! Measures the rate of a flow from the arrival times of its bytes. Pure: time is an argument.

use std::time::Duration;

/// Watches one end of a flow, message by message.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: u64,
    busy: Duration,
    longest_stall: Duration,
    message: Message,
    /// Bytes that the links pass at once.
    burst_bytes: u64,
    /// Bytes that arrived at the rate of the network, and the time that this took.
    paced_bytes: u64,
    paced: Duration,
}

/// A rate needs this many bursts: a timer of the kernel that is late lets another part of one pass.
const MIN_BURSTS: u64 = 20;

#[derive(Debug, Clone, Copy, Default)]
enum Message {
    #[default]
    None,
    /// This end is ready for it, and nothing has arrived.
    Awaited { since: Duration },
    UnderWay {
        began: Duration,
        progress: Duration,
        pace: Pace,
    },
}

/// Whether the bytes of a message come as fast as the network brings them.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// They may have lain here before this end was ready.
    Unknown,
    /// This end waits for each of them; this many more may have been let pass at once.
    Burst {
        left: u64,
    },
    Network {
        since: Duration,
        bytes: u64,
    },
}

impl Pace {
    fn advance(&mut self, now: Duration, new: u64) {
        match self {
            Self::Unknown => {}
            Self::Burst { left } if new < *left => *left -= new,
            Self::Burst { .. } => {
                *self = Self::Network {
                    since: now,
                    bytes: 0,
                }
            }
            Self::Network { bytes, .. } => *bytes += new,
        }
    }
}

impl Meter {
    pub(crate) fn new(burst_bytes: u64) -> Self {
        Self {
            burst_bytes,
            ..Self::default()
        }
    }

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
            pace: Pace::Unknown,
        };
    }

    /// Called when all received bytes of the message are read, and this end waits for more.
    pub(crate) fn waits(&mut self) {
        if let Message::UnderWay { pace, .. } = &mut self.message
            && matches!(pace, Pace::Unknown)
        {
            *pace = Pace::Burst {
                left: self.burst_bytes,
            };
        }
    }

    pub(crate) fn progress(&mut self, now: Duration, bytes: u64) {
        self.bytes += bytes;
        if let Message::UnderWay { progress, pace, .. } = &mut self.message {
            let stall = now.saturating_sub(*progress);
            self.longest_stall = self.longest_stall.max(stall);
            *progress = now;
            pace.advance(now, bytes);
        }
    }

    pub(crate) fn message_ended(&mut self, now: Duration) {
        if let Message::UnderWay { began, pace, .. } = self.message {
            self.busy += now.saturating_sub(began);
            if let Pace::Network { since, bytes } = pace {
                self.paced += now.saturating_sub(since);
                self.paced_bytes += bytes;
            }
        }
        self.message = Message::None;
    }

    /// Called when the flow ends. A message in flight has stalled until now, and so has an expected one: whether it was
    /// sent is unknown.
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

    /// Returns the mean rate of the network while messages were in flight, without the burst at the start of each.
    /// Absent if that was too little for a measurement.
    pub(crate) fn rate_bits_per_s(&self) -> Option<u64> {
        if self.paced_bytes < (MIN_BURSTS * self.burst_bytes).max(1) {
            return None;
        }
        let bits = u128::from(self.paced_bytes) * 8 * 1_000_000_000;
        Some(bits.checked_div(self.paced.as_nanos())? as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn only_transfer_time_counts_as_busy() {
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
    }

    fn paced(packets: u64) -> Duration {
        Duration::from_micros(100 * packets.saturating_sub(10))
    }

    /// Brings a message over a link of 8 Mb/s with a bucket of 1000 bytes, in packets of 100.
    fn bring(meter: &mut Meter, sent: u64, packets: u64) {
        meter.message_began(ms(sent));
        for packet in 0..packets {
            meter.waits();
            meter.progress(ms(sent) + paced(packet + 1), 100);
        }
        meter.message_ended(ms(sent) + paced(packets));
    }

    #[test]
    fn burst_of_bucket_is_no_rate() {
        let mut meter = Meter::new(1000);
        for message in 0..20 {
            bring(&mut meter, 1000 * message, 120);
        }
        assert_eq!(meter.rate_bits_per_s(), Some(8_000_000));
    }

    #[test]
    fn short_messages_give_no_rate() {
        let mut meter = Meter::new(1000);
        for message in 0..1000 {
            bring(&mut meter, 1000 * message, 9);
        }
        assert_eq!(meter.rate_bits_per_s(), None);
    }

    #[test]
    fn bytes_before_waiting_are_no_rate() {
        let mut meter = Meter::new(0);
        meter.message_began(ms(0));
        meter.progress(ms(1), 1_000_000);
        meter.progress(ms(2), 1_000_000);
        meter.waits();
        meter.progress(ms(3), 1000);
        meter.progress(ms(4), 1000);
        meter.message_ended(ms(4));
        assert_eq!(meter.rate_bits_per_s(), Some(8_000_000));
    }

    #[test]
    fn waiting_for_peer_is_no_stall() {
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
    fn missing_message_is_stall() {
        let mut meter = Meter::default();
        meter.message_awaited(ms(100));
        meter.interrupted(ms(400));
        assert_eq!((meter.busy(), meter.longest_stall()), (ms(0), ms(300)));
    }

    #[test]
    fn unfinished_stall_counts_until_end() {
        let mut meter = Meter::default();
        meter.message_began(ms(0));
        meter.progress(ms(1), 10);
        meter.interrupted(ms(5001));
        assert_eq!(meter.longest_stall(), ms(5000));
    }
}
