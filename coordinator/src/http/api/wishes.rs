//! What a plan shall bring about, where that is not to mend what is found.

use std::collections::BTreeMap;

use reweave_common::circuit::{CircuitSet, OpticalName};
use reweave_common::operator::Request;
use serde::Deserialize;
use utoipa::ToSchema;

/// What is wanted of a plan.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Wish {
    /// These links carry nothing, those of these switches, or those through these optical switches, and all others
    /// what would go there by itself. None: all carry again.
    Drain(Vec<String>),
    /// What switches send each of several equal ways.
    Weights(Worth),
    /// All that these optical switches shall hold, by their names; others stay as they are. None: those circuits
    /// that surely speed up what is sent now.
    #[schema(value_type = BTreeMap<String, CircuitSet>)]
    Circuits(BTreeMap<OpticalName, CircuitSet>),
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Worth {
    /// Each gets what it is worth.
    ByWorth,
    /// All get the same.
    Even,
}

impl From<Wish> for Request {
    fn from(wish: Wish) -> Self {
        match wish {
            Wish::Drain(links) => Self::Drain { links },
            Wish::Weights(worth) => Self::Weigh {
                by_worth: matches!(worth, Worth::ByWorth),
            },
            Wish::Circuits(circuits) => Self::Rewire { circuits },
        }
    }
}
