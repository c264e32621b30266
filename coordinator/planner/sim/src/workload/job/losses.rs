//! Parts of a model that are lost with the ranks of failed hosts.

use std::collections::BTreeSet;
use std::fmt;

use reweave_common::ids::Rank;
use serde::Serialize;

use super::operators::{Model, Split};

/// Data that the remaining ranks lack.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Losses {
    /// Parts of the model that no other rank holds, until they are loaded from where they were saved.
    pub only_copies: Vec<String>,
    /// The part of the batch that the training no longer learns from.
    pub batch: f64,
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} % of the batch is lost", self.batch * 100.0)?;
        match &self.only_copies[..] {
            [] => Ok(()),
            [first, .., last] if self.only_copies.len() > MAX_NAMED_OPERATORS => write!(
                f,
                ", and the only copies of {} parts, from {first} to {last}: it cannot continue \
                 before these are loaded elsewhere",
                self.only_copies.len()
            ),
            some => write!(
                f,
                ", and the only copy of {}: it cannot continue before that is loaded elsewhere",
                some.join(", of ")
            ),
        }
    }
}

/// Maximum number of operators that are named.
const MAX_NAMED_OPERATORS: usize = 4;

impl Model {
    /// An operator's part of the batch is gone with each of its servers, and the operator with the last
    /// of them.
    pub fn losses(&self, splits: &[Split], dead: &BTreeSet<Rank>) -> Losses {
        let lost = |split: &Split| split.iter().filter(|rank| dead.contains(rank)).count();
        let part = |split: &Split| lost(split) as f64 / split.len().max(1) as f64;
        let operators = self.operators.iter().zip(splits);
        let gone = operators.filter(|(_, split)| lost(split) == split.len());
        Losses {
            only_copies: gone.map(|(operator, _)| operator.name.clone()).collect(),
            batch: splits.iter().map(part).fold(0.0, f64::max),
        }
    }
}
