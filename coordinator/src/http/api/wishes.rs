//! Plans on request, other than repairs of findings.

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
    #[schema(nullable = false)]
    drain: Option<Vec<String>>,
    /// What switches send each of several equal ways.
    #[schema(inline, nullable = false)]
    weights: Option<Weights>,
    /// All that these optical switches should hold, by their names; others stay as they are. None: those circuits that
    /// surely speed up what is sent now.
    #[schema(value_type = Option<BTreeMap<String, CircuitSet>>, nullable = false)]
    circuits: Option<BTreeMap<OpticalName, CircuitSet>>,
    /// The job that is registered by this name starts in a better order of its ranks the next time.
    #[schema(nullable = false)]
    ranks: Option<String>,
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
        let Wish {
            drain,
            weights,
            circuits,
            ranks,
        } = wish;
        match (drain, weights, circuits, ranks) {
            (Some(links), None, None, None) => Ok(Self::Drain { links }),
            (None, Some(weights), None, None) => Ok(Self::Weigh {
                by_worth: matches!(weights, Weights::ByWorth),
            }),
            (None, None, Some(circuits), None) => Ok(Self::Rewire { circuits }),
            (None, None, None, Some(job)) => Ok(Self::Reorder { job }),
            _ => Err(Problem::bad_request(
                "give exactly one of drain, weights, circuits and ranks",
            )),
        }
    }
}
