//! How the switch goes wrong.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Each goes on until another is chosen, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mishap {
    /// Moves as instructed, and never answers
    Silent,
    /// Leads to the next free port instead of the instructed one
    WrongPort,
    /// Carries out every second order, and says the same of the others
    Partial,
    /// Makes the circuit, through which no light comes
    StaysDark,
    /// The light comes and goes
    Flap,
    /// The circuit is gone a while after it was made
    Vanish,
}

/// How long a circuit that vanishes lasts.
pub(super) const VANISHED_TIME: Duration = Duration::from_secs(5);
/// How often the light goes when it flaps, and for how long each time.
pub(super) const FLAP_COUNT: u32 = 5;
pub(super) const FLAP_INTERVAL: Duration = Duration::from_millis(200);
