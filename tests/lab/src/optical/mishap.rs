//! Simulated faults of the switch.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Each fault lasts until another one, or none, is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mishap {
    /// Moves as instructed, and never answers
    Silent,
    /// Leads to the next free port instead of the instructed one
    WrongPort,
    /// Carries out every second order, and says the same of the others
    Partial,
    /// Sets the circuit, which stays dark
    StaysDark,
    /// The light flaps
    Flap,
    /// The circuit is gone a while after it was made
    Vanish,
}

/// Lifetime of a circuit that vanishes.
pub(super) const VANISHED_TIME: Duration = Duration::from_secs(5);
/// Number and duration of the interruptions of a flapping circuit.
pub(super) const FLAP_COUNT: u32 = 5;
pub(super) const FLAP_INTERVAL: Duration = Duration::from_millis(200);
