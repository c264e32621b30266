//! Why a job is slow, and how quick the ways between hosts were measured to be.

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Subject};
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
