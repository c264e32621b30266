//! Why a job is slow, and the measured bandwidth between hosts.

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Subject};
use crate::plan::Generation;
use crate::units::Rate;

/// Explanation of a job's speed: its slowest collective, the slowest pair of hosts, their path, the link with a
/// finding, and that finding. Values that were not measured are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Explanation {
    pub job: String,
    /// Iteration time.
    pub iteration_ms: Option<f64>,
    pub collective: Option<String>,
    pub collective_ms: Option<f64>,
    /// Ranks of the slowest pair, if the ranks of the hosts are known.
    pub ranks: Option<[usize; 2]>,
    /// Sender and receiver.
    pub hosts: [String; 2],
    pub pair_ms: Option<f64>,
    /// Median of the other pairs.
    pub others_ms: Option<f64>,
    /// Rate while the pair sends.
    pub pair_bits_per_s: Option<Rate>,
    pub others_bits_per_s: Option<Rate>,
    /// Empty if it is unknown.
    pub path: Vec<String>,
    pub link: Option<Subject>,
    pub cause: Option<Cause>,
    /// Unknown facts, which were not guessed.
    pub doubts: Vec<String>,
}

/// Hosts that exchange large flows, directly or through others. Values that were not measured are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobStatus {
    /// Name, derived from the hosts.
    pub job: String,
    pub hosts: Vec<String>,
    /// Number of large flows, and of those that send now.
    pub flows: usize,
    pub sending: usize,
    /// Total rate of these flows, and rate of the slowest.
    pub rate_bits_per_s: Rate,
    pub slowest_bits_per_s: Option<Rate>,
    /// Iteration time, and share of it without network traffic.
    pub iteration_ms: Option<f64>,
    pub rest_share: Option<f64>,
    /// Time since its first large flow, as far as this leader has seen.
    pub seen_for_ms: u64,
    pub promise: Option<Promise>,
}

/// Predicted and present rate of a job's flows that send now, by the last plan that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Promise {
    pub generation: Generation,
    pub flows: usize,
    /// Predicted range of the slowest of these flows, and the present rate of the slowest.
    pub predicted_bits_per_s: [Rate; 2],
    pub achieved_bits_per_s: Rate,
}

/// Measured bandwidth of pairs of hosts, per direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MeasuredPairs {
    /// Pairs farthest below their peers first.
    pub pairs: Vec<MeasuredPair>,
}

/// One pair compared with its peers: pairs on the same rail at the same distance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MeasuredPair {
    pub from: String,
    pub to: String,
    pub rail: u32,
    /// Whether both hosts are at the same switch.
    pub in_rack: bool,
    pub rate_bits_per_s: Rate,
    /// Median of the pair and its peers.
    pub usual_bits_per_s: Rate,
    /// Number of peers, including this pair.
    pub peers: usize,
    /// Whether it is far enough below them to be a finding.
    pub is_slow: bool,
    pub age_ms: u64,
}
