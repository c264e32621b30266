//! Values for every pair of hosts.

use serde::{Deserialize, Serialize};

/// What hosts measured of the way to each other, each direction by itself. Pairs that do not probe each
/// other are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Matrix {
    /// In the order of the fabric.
    pub hosts: Vec<String>,
    pub cells: Vec<MatrixCell>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MatrixCell {
    /// Which of the hosts, counted from zero.
    pub from: u32,
    pub to: u32,
    /// There and back, without the hosts' own time; absent when nothing came back.
    pub median_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Of the probes of the last minute; absent when none is decided.
    pub lost_share: Option<f64>,
    /// By trains of packets, over the narrowest of their ways; absent when none went there.
    pub rate_bits_per_s: Option<u64>,
}
