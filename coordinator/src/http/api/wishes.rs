//! What a plan shall bring about, where that is not to mend what is found.

use std::collections::BTreeMap;

use reweave_common::circuit::{CircuitSet, OpticalName};
use reweave_common::operator::Request;
use serde::Deserialize;
use utoipa::ToSchema;

use super::problem::Problem;

/// What is wanted of a plan: one of these.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(min_properties = 1, max_properties = 1)]
pub(super) struct Wish {
    /// These links carry nothing, those of these switches, or those through these optical switches, and all others
    /// what would go there by itself. None: all carry again.
    drain: Option<Vec<String>>,
    /// What switches send each of several equal ways.
    #[schema(inline)]
    weights: Option<Weights>,
    /// All that these optical switches shall hold, by their names; others stay as they are. None: those circuits
    /// that surely speed up what is sent now.
    #[schema(value_type = Option<BTreeMap<String, CircuitSet>>)]
    circuits: Option<BTreeMap<OpticalName, CircuitSet>>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Weights {
    /// Each gets what it is worth.
    ByWorth,
    /// All get the same.
    Even,
}

impl TryFrom<Wish> for Request {
    type Error = Problem;

    fn try_from(wish: Wish) -> Result<Self, Problem> {
        match wish {
            Wish {
                drain: Some(links),
                weights: None,
                circuits: None,
            } => Ok(Self::Drain { links }),
            Wish {
                drain: None,
                weights: Some(weights),
                circuits: None,
            } => Ok(Self::Weigh {
                by_worth: matches!(weights, Weights::ByWorth),
            }),
            Wish {
                drain: None,
                weights: None,
                circuits: Some(circuits),
            } => Ok(Self::Rewire { circuits }),
            _ => Err(Problem::bad_request(
                "name one of drain, weights and circuits, and no other beside it",
            )),
        }
    }
}
