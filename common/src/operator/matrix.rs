//! Values for every pair of hosts.

use serde::{Deserialize, Serialize};

/// Measurements between hosts, per direction. Pairs that do not probe each other are left out.
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
    /// Index of the host, from zero.
    pub from: u32,
    pub to: u32,
    /// Round-trip time without processing time of the hosts; absent without an answer.
    pub median_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Share of lost probes in the last minute; absent if no probe is decided.
    pub lost_share: Option<f64>,
    /// Rate of the narrowest path, measured by packet trains; absent if there was none.
    pub rate_bits_per_s: Option<u64>,
}
