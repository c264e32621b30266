//! Timestamps on clocks that may be set at any moment.

use reweave_common::probing::Stamps;

use super::ResponderDelay;

/// Both of a host's clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// The monotonic clock.
    pub steady_ns: u64,
    /// The clock of kernel timestamps, which may be set.
    pub wall_ns: u64,
}

impl Clocks {
    /// The clocks are read at slightly different moments.
    const MAX_READ_GAP_NS: u64 = 50_000;
    /// A disciplined clock is faster or slower by at most one part in this.
    const MIN_SLEW_DIVISOR: u64 = 1000;

    /// Whether the wall clock was not set between this moment and `later`.
    pub fn agree(&self, later: &Self) -> bool {
        let Some(steady) = later.steady_ns.checked_sub(self.steady_ns) else {
            return false;
        };
        let Some(wall) = later.wall_ns.checked_sub(self.wall_ns) else {
            return false;
        };
        wall.abs_diff(steady) <= Self::MAX_READ_GAP_NS + steady / Self::MIN_SLEW_DIVISOR
    }
}

/// When a packet left or arrived, if recorded. The NIC has a clock of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    pub kernel_ns: Option<u64>,
    pub hardware_ns: Option<u64>,
}

impl Stamp {
    /// Adds the other timestamp of the packet: the kernel's and the NIC's arrive separately.
    pub(crate) fn add(&mut self, other: Self) {
        self.kernel_ns = self.kernel_ns.or(other.kernel_ns);
        self.hardware_ns = self.hardware_ns.or(other.hardware_ns);
    }

    /// The time from this timestamp to a later one, on the best clock that has both. None if that clock went
    /// backwards. Without a timestamp, the program's own time counts.
    pub(super) fn until(&self, later: &Self, turns: [&Clocks; 2]) -> Option<ResponderDelay> {
        if let (Some(from), Some(to)) = (self.hardware_ns, later.hardware_ns) {
            let nanos = to.checked_sub(from)?;
            let stamps = Stamps::Hardware;
            return Some(ResponderDelay { nanos, stamps });
        }
        let stamps = match (self.kernel_ns, later.kernel_ns) {
            (Some(_), Some(_)) => Stamps::Kernel,
            _ => Stamps::Program,
        };
        let from = self.kernel_ns.unwrap_or(turns[0].wall_ns);
        let to = later.kernel_ns.unwrap_or(turns[1].wall_ns);
        let nanos = to.checked_sub(from)?;
        turns[0]
            .agree(turns[1])
            .then_some(ResponderDelay { nanos, stamps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(steady_ns: u64, wall_ns: u64) -> Clocks {
        Clocks { steady_ns, wall_ns }
    }

    fn kernel(ns: u64) -> Stamp {
        Stamp {
            kernel_ns: Some(ns),
            hardware_ns: None,
        }
    }

    fn both(kernel_ns: u64, hardware_ns: u64) -> Stamp {
        Stamp {
            kernel_ns: Some(kernel_ns),
            hardware_ns: Some(hardware_ns),
        }
    }

    #[test]
    fn clock_step_noticed_slewing_ignored() {
        let before = at(0, 1_000_000_000);
        assert!(before.agree(&at(1_000_000, 1_001_040_000)));
        assert!(before.agree(&at(1_000_000_000, 2_000_500_000)), "500 ppm");
        assert!(!before.agree(&at(1_000_000, 1_002_000_000)), "set forward");
        assert!(!before.agree(&at(1_000_000, 999_000_000)), "set back");
        assert!(
            !before.agree(&at(1_000_000, 1_000_000_000)),
            "set back a bit"
        );
    }

    #[test]
    fn best_common_timestamp_is_used() {
        let turns = [&at(0, 100), &at(900, 1000)];
        let held = |nanos, stamps| Some(ResponderDelay { nanos, stamps });
        let [early, late] = [both(200, 7_000), both(800, 7_550)];
        assert_eq!(early.until(&late, turns), held(550, Stamps::Hardware));
        let late = kernel(800);
        assert_eq!(early.until(&late, turns), held(600, Stamps::Kernel));
        let none = Stamp::default();
        assert_eq!(early.until(&none, turns), held(800, Stamps::Program));
        assert_eq!(none.until(&late, turns), held(700, Stamps::Program));
    }

    #[test]
    fn clock_step_invalidates_duration() {
        let set_back = [&at(0, 10_000_000), &at(1_000_000, 5_000_000)];
        assert_eq!(kernel(10_100_000).until(&kernel(4_900_000), set_back), None);
        assert_eq!(kernel(4_100_000).until(&kernel(4_900_000), set_back), None);
        let hardware = both(10_100_000, 50).until(&both(4_900_000, 70), set_back);
        assert_eq!(hardware.map(|held| held.nanos), Some(20), "it has its own");
        assert_eq!(both(0, 70).until(&both(0, 50), set_back), None);
    }
}
