//! Timestamps: of the program's clock, or of the NIC's.

use std::time::{Duration, Instant};

/// Two of the same clock can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    Program(Instant),
    Nic { ticks: u64 },
}

/// How a NIC counts time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicClock {
    pub khz: u64,
    /// The bits it counts with.
    pub mask: u64,
}

impl Stamp {
    pub fn now() -> Self {
        Self::Program(Instant::now())
    }

    /// The time from this stamp to a later one. None where they are not of the same clock.
    pub fn until(self, later: Self, clock: Option<NicClock>) -> Option<Duration> {
        match (self, later) {
            (Self::Program(from), Self::Program(to)) => Some(to.saturating_duration_since(from)),
            (Self::Nic { ticks: from }, Self::Nic { ticks: to }) => {
                clock?.duration(to.wrapping_sub(from))
            }
            _ => None,
        }
    }
}

impl NicClock {
    /// None where the NIC does not say how fast it counts.
    pub fn new(khz: u64, mask: u64) -> Option<Self> {
        (khz > 0 && mask > 0).then_some(Self { khz, mask })
    }

    fn duration(self, ticks: u64) -> Option<Duration> {
        let nanos = u128::from(ticks & self.mask) * 1_000_000 / u128::from(self.khz);
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nic_clock_may_wrap() {
        let clock = NicClock::new(156_250, (1 << 32) - 1);
        let [from, to] = [u64::from(u32::MAX) - 311, 313].map(|ticks| Stamp::Nic { ticks });
        assert_eq!(from.until(to, clock), Some(Duration::from_micros(4)));
    }

    #[test]
    fn stamps_of_different_clocks_incomparable() {
        let [program, nic] = [Stamp::now(), Stamp::Nic { ticks: 7 }];
        assert_eq!(program.until(nic, NicClock::new(1, 1)), None);
        assert_eq!(nic.until(nic, None), None);
        assert_eq!(NicClock::new(0, u64::MAX), None);
    }
}
