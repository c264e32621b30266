//! Reasons for a number of channels.

use std::fmt;

use super::simulated::Simulated;
use super::{Calibrations, MAX_WORTHWHILE_RATIO, Weighed};

/// Disadvantage of another number of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// Fewer do not copy as fast as the wires take it.
    Copying,
    /// Fewer flows are spread less evenly.
    Collisions,
    /// Each step has more transfers to start.
    Starts,
    /// It is not slower, but not worth the processors.
    NoGain,
}

impl Because {
    pub fn words(self) -> &'static str {
        match self {
            Self::Copying => "they copy less than the wires take",
            Self::Collisions => "fewer flows collide more",
            Self::Starts => "each step starts more transfers",
            Self::NoGain => "not worth the processors",
        }
    }
}

/// The next lower or higher number of channels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rival {
    pub channels: u32,
    /// Negative if it is faster, but by less than the threshold.
    pub longer_percent: f64,
    pub because: Because,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Why {
    pub channels: u32,
    /// Share of the time that is independent of the size.
    pub latency_percent: f64,
    /// Bytes of a channel below which this is more than half.
    pub least_bytes_per_channel: f64,
    /// Ratio of the transfer time to that of evenly spread flows.
    pub collisions: f64,
    pub fewer: Option<Rival>,
    pub more: Option<Rival>,
}

impl Why {
    /// Covers the variants that differ by channels alone, in rising order.
    pub(super) fn of(
        bytes: f64,
        channels: u32,
        alike: &[(&Simulated, &Weighed)],
        calibrations: &Calibrations,
    ) -> Option<Self> {
        let place = alike.iter().position(|(it, _)| it.channels == channels)?;
        let (chosen, best) = alike[place];
        let calibration = calibrations.of(chosen.combination);
        let parts = chosen.parts(bytes, calibration);
        let wire_us = calibration.wire * parts.wire_us;
        let before_us = best.time_us - wire_us;
        let copied = chosen.copied_us_per_byte.max(chosen.even_us_per_byte);
        let rival = |place: usize| {
            let (it, weighed) = alike.get(place)?;
            Some(rival(chosen, best, it, weighed))
        };
        Some(Self {
            channels,
            latency_percent: 100.0 * before_us / best.time_us,
            least_bytes_per_channel: bytes * before_us / wire_us / f64::from(channels),
            collisions: chosen.us_per_byte / copied,
            fewer: place.checked_sub(1).and_then(rival),
            more: rival(place + 1),
        })
    }
}

fn rival(chosen: &Simulated, best: &Weighed, it: &Simulated, weighed: &Weighed) -> Rival {
    let longer = weighed.time_us / best.time_us;
    let because = if it.channels >= chosen.channels {
        let is_longer = 100.0 * (longer - 1.0) >= MIN_REPORTED_PERCENT;
        if is_longer {
            Because::Starts
        } else {
            Because::NoGain
        }
    } else if it.copied_us_per_byte >= MAX_WORTHWHILE_RATIO * it.us_per_byte {
        Because::Copying
    } else {
        Because::Collisions
    };
    Rival {
        channels: it.channels,
        longer_percent: 100.0 * (longer - 1.0),
        because,
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "latency is {:.0} % of the time", self.latency_percent)?;
        for rival in [&self.fewer, &self.more].into_iter().flatten() {
            write!(f, "; {rival}")?;
        }
        Ok(())
    }
}

/// A smaller difference is not reported.
const MIN_REPORTED_PERCENT: f64 = 0.05;

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.channels {
            1 => write!(f, "1 channel would be ")?,
            channels => write!(f, "{channels} would be ")?,
        }
        let longer = self.longer_percent;
        match longer {
            _ if longer.abs() < MIN_REPORTED_PERCENT => write!(f, "as quick")?,
            _ if longer > 0.0 => write!(f, "{longer:.1} % slower")?,
            _ => write!(f, "{:.1} % quicker", -longer)?,
        }
        write!(f, ": {}", self.because.words())
    }
}
