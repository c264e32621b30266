//! Plans on request, other than repairs of findings.

use std::collections::BTreeMap;

use reweave_common::circuit::{CircuitSet, OpticalName};
use reweave_common::operator::Request;
use serde::Deserialize;
use utoipa::ToSchema;

use super::problem::Problem;

/// Kind of the requested plan: exactly one field.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(min_properties = 1, max_properties = 1)]
pub(super) struct Wish {
    /// All links to drain. A switch or an optical switch stands for all its links. An empty list ends all drains.
    #[schema(nullable = false)]
    drain: Option<Vec<String>>,
    /// How switches weight equal-cost paths.
    #[schema(inline, nullable = false)]
    weights: Option<Weights>,
    /// All circuits of these optical switches; other switches stay unchanged. Without a switch, the plan has circuits
    /// that speed up the current traffic.
    #[schema(value_type = Option<BTreeMap<String, CircuitSet>>, nullable = false)]
    circuits: Option<BTreeMap<OpticalName, CircuitSet>>,
    /// Registered job whose next start gets a better rank order.
    #[schema(nullable = false)]
    ranks: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Weights {
    /// By their capacity.
    ByWorth,
    /// Equally.
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
