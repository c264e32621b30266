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

/// Counts the states that routes have been in; each plan makes one and names the one before.
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

/// At this switch, this flow leaves over this link, regardless of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pin {
    pub flow: FlowKey,
    pub at: NodeId,
    pub link: LinkId,
}

/// Immutable and complete: all pins, tables and circuits afterwards, not a difference. Nodes without a table use the
/// network's own routes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub generation: Generation,
    pub parent: Generation,
    /// The change that it rolls back, which a person wants for reasons of their own.
    pub takes_back: Option<Generation>,
    pub pins: Vec<Pin>,
    pub tables: Tables,
    pub circuits: Circuits,
    /// Of jobs that are to start in another order of their ranks; running ones go on as they are.
    pub orders: Vec<RankOrder>,
    pub moves: Vec<Move>,
    pub predictions: Vec<Prediction>,
    /// Of jobs whose traffic has a beat.
    pub iterations: Vec<Iteration>,
    pub report: Report,
}

impl Plan {
    /// Holds nothing, and promises nothing.
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

    /// Those of the pins in force that it keeps.
    pub fn kept_of(&self, in_force: &[Pin]) -> Vec<Pin> {
        let planned: BTreeSet<_> = self.pins.iter().collect();
        let kept = in_force.iter().filter(|pin| planned.contains(pin));
        kept.copied().collect()
    }

    /// How many entries it has, of tables and all else that grows with the cluster.
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

    /// Whether it says how long iterations will take of all jobs of which the other does.
    pub fn predicts_all_of(&self, other: &Self) -> bool {
        let says = |job: &str| self.iterations.iter().any(|it| it.job == job);
        other.iterations.iter().all(|it| says(&it.job))
    }

    /// Whether it moves nothing, and only takes pins away that serve no more.
    pub fn only_lifts(&self) -> bool {
        self.moves.is_empty() && self.takes_back.is_none() && self.orders.is_empty()
    }

    /// Whether there is nothing to measure by which it could be judged: what it is for comes with the next start
    /// of a job.
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
    /// Its last order; where the current one differs, this measurement is of no use.
    pub before: Vec<NodeId>,
    pub after: Vec<NodeId>,
    /// What each host can send the next around a ring, by the one order and by the other.
    pub ring: Option<[Rate; 2]>,
}

/// A flow that changes its path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Move {
    pub flow: FlowKey,
    pub from: Hop,
    pub to: Hop,
}

/// What a flow's rate will be. `low..high` is where a measurement is expected to fall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    pub flow: FlowKey,
    pub before: Rate,
    pub after: Rate,
    pub low: Rate,
    pub high: Rate,
}

/// How long an iteration of a job takes now, and how long it will. `low..high` is where a measurement is
/// expected to fall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iteration {
    pub job: String,
    /// What its hosts each exchange in an iteration, as far as their traffic has a beat.
    pub exchanged: BTreeMap<NodeId, Bytes>,
    pub before: TimeSpan,
    pub after: TimeSpan,
    pub low: TimeSpan,
    pub high: TimeSpan,
}

/// Why this plan and not another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// The slowest flow of those concerned, as it is and as it will be.
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
    /// A flow that matters would be slower than under the plan.
    Slower,
    /// As good, but it would move more flows.
    MoreMoves,
}
