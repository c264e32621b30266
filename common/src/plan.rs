//! A plan and its reason: the value that goes from `plan` through `check` to `apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::circuit::CircuitSet;
use crate::fabric::Circuits;
use crate::finding::Finding;
use crate::flow::FlowKey;
use crate::forwarding::ForwardingTable;
use crate::ids::{LinkId, NodeId};
use crate::migration_plan::Tables;
use crate::snapshot::Hop;
use crate::time_span::TimeSpan;
use crate::units::{Bytes, Rate};

/// Number of a state of the routes. Each plan creates one and names its parent.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// At this switch, the flow leaves over this link, regardless of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pin {
    pub flow: FlowKey,
    pub at: NodeId,
    pub link: LinkId,
}

/// All pins, tables and circuits after the plan, not a difference. Nodes without a table use the network's own routes.
/// A plan is immutable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub generation: Generation,
    pub parent: Generation,
    /// Change that it rolls back at an operator's request.
    pub takes_back: Option<Generation>,
    pub pins: Vec<Pin>,
    pub tables: Tables,
    pub circuits: Circuits,
    /// New rank orders of jobs for their next start; running jobs are unchanged.
    pub orders: Vec<RankOrder>,
    pub moves: Vec<Move>,
    pub predictions: Vec<Prediction>,
    /// Predictions for jobs with an iteration period.
    pub iterations: Vec<Iteration>,
    pub report: Report,
}

impl Plan {
    /// Returns a plan without changes and predictions.
    pub fn empty(generation: Generation, parent: Generation) -> Self {
        let nothing = Rate::from_bits_per_s(0);
        Self {
            generation,
            parent,
            takes_back: None,
            pins: Vec::new(),
            tables: Tables::new(),
            circuits: Circuits::new(),
            orders: Vec::new(),
            moves: Vec::new(),
            predictions: Vec::new(),
            iterations: Vec::new(),
            report: Report {
                findings: Vec::new(),
                slowest_before: nothing,
                slowest_after: nothing,
                alternatives: Vec::new(),
            },
        }
    }

    /// Returns the pins in force that the plan keeps.
    pub fn kept_of(&self, in_force: &[Pin]) -> Vec<Pin> {
        let planned: BTreeSet<_> = self.pins.iter().collect();
        let kept = in_force.iter().filter(|pin| planned.contains(pin));
        kept.copied().collect()
    }

    /// Returns the number of entries of tables and other parts that grow with the cluster.
    pub fn entries(&self) -> usize {
        let hops = |table: &ForwardingTable| {
            let towards: usize = table.towards.values().map(Vec::len).sum();
            towards + table.raises.len()
        };
        let report = &self.report;
        self.tables.values().map(hops).sum::<usize>()
            + self.circuits.values().map(CircuitSet::len).sum::<usize>()
            + sum_of(&self.orders, |it| it.before.len() + it.after.len())
            + sum_of(&report.alternatives, |it| it.moves.len())
            + report.findings.len()
            + self.pins.len()
            + self.moves.len()
            + self.predictions.len()
    }

    /// Whether it predicts iterations of every job for which the other does.
    pub fn predicts_all_of(&self, other: &Self) -> bool {
        let says = |job: &str| self.iterations.iter().any(|it| it.job == job);
        other.iterations.iter().all(|it| says(&it.job))
    }

    /// Whether it only removes useless pins.
    pub fn only_lifts(&self) -> bool {
        self.moves.is_empty() && self.takes_back.is_none() && self.orders.is_empty()
    }

    /// Whether nothing can be measured to verify it: its effect comes with the next start of a job.
    pub fn only_reorders(&self) -> bool {
        self.moves.is_empty() && !self.orders.is_empty()
    }
}

fn sum_of<T>(all: &[T], each: impl Fn(&T) -> usize) -> usize {
    all.iter().map(each).sum()
}

/// The best order of a registered job's ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankOrder {
    pub job: String,
    /// Previous order; if the current order differs, the measurement is useless.
    pub before: Vec<NodeId>,
    pub after: Vec<NodeId>,
    /// Rate from each host to the next around a ring, in the previous and in the new order.
    pub ring: Option<[Rate; 2]>,
}

/// A flow that changes its path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Move {
    pub flow: FlowKey,
    pub from: Hop,
    pub to: Hop,
}

/// Predicted rate of a flow. The measured value is expected in `low..high`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    pub flow: FlowKey,
    pub before: Rate,
    pub after: Rate,
    pub low: Rate,
    pub high: Rate,
}

/// Present and predicted iteration time of a job. The measured value is expected in `low..high`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iteration {
    pub job: String,
    /// Bytes that each host with periodic traffic exchanges in an iteration.
    pub exchanged: BTreeMap<NodeId, Bytes>,
    pub before: TimeSpan,
    pub after: TimeSpan,
    pub low: TimeSpan,
    pub high: TimeSpan,
}

/// Why this plan was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// Rate of the slowest affected flow, before and after.
    pub slowest_before: Rate,
    pub slowest_after: Rate,
    pub alternatives: Vec<Alternative>,
}

/// A rejected plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    pub moves: Vec<Move>,
    pub slowest_after: Rate,
    pub lost_because: LostBecause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LostBecause {
    /// An affected flow would be slower than under the plan.
    Slower,
    /// Equally good, but with more moved flows.
    MoreMoves,
}
