//! Why a job is slow, and the measured bandwidth between hosts.

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Subject};
use crate::plan::Generation;
use crate::units::Rate;

/// From what a job does, by its slowest collective, to the slowest pair of its hosts, their way, the link
/// that a finding is about, and that finding. What was not measured is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Explanation {
    pub job: String,
    /// How long an iteration takes.
    pub iteration_ms: Option<f64>,
    pub collective: Option<String>,
    pub collective_ms: Option<f64>,
    /// Of the slowest pair, where it is known who has which.
    pub ranks: Option<[usize; 2]>,
    /// Who sends, and to whom.
    pub hosts: [String; 2],
    pub pair_ms: Option<f64>,
    /// The median of the other pairs.
    pub others_ms: Option<f64>,
    /// While they send.
    pub pair_bits_per_s: Option<Rate>,
    pub others_bits_per_s: Option<Rate>,
    /// Empty when it is not known.
    pub path: Vec<String>,
    pub link: Option<Subject>,
    pub cause: Option<Cause>,
    /// What is not known, and was not guessed.
    pub doubts: Vec<String>,
}

/// Hosts that exchange large flows, directly or through others. What was not measured is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobStatus {
    /// After its hosts.
    pub job: String,
    pub hosts: Vec<String>,
    /// Its large flows, and how many of them send now.
    pub flows: usize,
    pub sending: usize,
    /// Of these together, and the slowest of them.
    pub rate_bits_per_s: Rate,
    pub slowest_bits_per_s: Option<Rate>,
    /// How long an iteration takes, and in which part of it wires rest.
    pub iteration_ms: Option<f64>,
    pub rest_share: Option<f64>,
    /// Since the first of its flows sent much, as far as this leader has seen.
    pub seen_for_ms: u64,
    pub promise: Option<Promise>,
}

/// What the last plan that was kept promised flows of a job that send now, and what they have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Promise {
    pub generation: Generation,
    pub flows: usize,
    /// The slowest of these: least and most of what was predicted, and what the slowest has now.
    pub predicted_bits_per_s: [Rate; 2],
    pub achieved_bits_per_s: Rate,
}

/// Pairs of hosts between which bandwidth was measured, each direction by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MeasuredPairs {
    /// Those first that are farthest below their peers.
    pub pairs: Vec<MeasuredPair>,
}

/// One pair beside its peers: those on the same rail that are as near to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MeasuredPair {
    pub from: String,
    pub to: String,
    pub rail: u32,
    /// Whether both hang on one switch.
    pub in_rack: bool,
    pub rate_bits_per_s: Rate,
    /// The median of the pair and its peers.
    pub usual_bits_per_s: Rate,
    /// How many there are, this one among them.
    pub peers: usize,
    /// So far below them that it is a finding.
    pub is_slow: bool,
    pub age_ms: u64,
}
