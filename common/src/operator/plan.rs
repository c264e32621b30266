//! What shall change and why, by name.

use std::collections::BTreeMap;

use crate::circuit::CircuitSet;
use crate::course::Tables;
use crate::fabric::Fabric;
use crate::flow::FlowKey;
use crate::forwarding::{ForwardingTable, NextHop};
use crate::ids::NodeId;
use crate::plan::{self, Generation, LostBecause};
use crate::snapshot;
use crate::units::Rate;
use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::line::Line;
use super::place::Hop;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Plan {
    pub generation: Generation,
    pub parent: Generation,
    /// The change that it takes back.
    pub takes_back: Option<Generation>,
    /// All that will be pinned afterwards.
    pub pins: Vec<Pin>,
    /// All that each node that has a table sends over which links, by the host that it is for.
    pub tables: BTreeMap<String, BTreeMap<String, Vec<Via>>>,
    /// All circuits of optical switches that were ever moved.
    pub circuits: BTreeMap<String, CircuitSet>,
    /// What differs from its parent, where that is in force.
    pub changes: Vec<Line>,
    /// Why it cannot be carried out just now, as far as jobs are frozen.
    pub hindered_by: Vec<String>,
    pub moves: Vec<Move>,
    pub predictions: Vec<Prediction>,
    pub report: Report,
}

/// One of the links over which a node sends on, and how much against the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Via {
    pub link: String,
    pub weight: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pin {
    pub flow: FlowKey,
    pub hop: Hop,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Move {
    pub flow: FlowKey,
    pub from: Hop,
    pub to: Hop,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Prediction {
    pub flow: FlowKey,
    pub before_bits_per_s: Rate,
    pub after_bits_per_s: Rate,
    /// Where a measurement is expected to fall.
    pub low_bits_per_s: Rate,
    pub high_bits_per_s: Rate,
}

/// Why this plan and not another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Report {
    pub findings: Vec<Finding>,
    pub slowest_before_bits_per_s: Rate,
    pub slowest_after_bits_per_s: Rate,
    pub alternatives: Vec<Alternative>,
}

/// A plan that was weighed and lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Alternative {
    pub moves: Vec<Move>,
    pub slowest_after_bits_per_s: Rate,
    pub lost_because: LostBecause,
}

impl Plan {
    pub fn named(plan: &plan::Plan, fabric: &Fabric) -> Self {
        Self {
            generation: plan.generation,
            parent: plan.parent,
            takes_back: plan.takes_back,
            pins: plan
                .pins
                .iter()
                .map(|pin| Pin::named(pin, fabric))
                .collect(),
            tables: tables(&plan.tables, fabric),
            circuits: plan
                .circuits
                .iter()
                .map(|(&optical, set)| (fabric.optical(optical).name.clone(), set.clone()))
                .collect(),
            changes: Vec::new(),
            hindered_by: Vec::new(),
            moves: moves(&plan.moves, fabric),
            predictions: plan.predictions.iter().map(Prediction::from).collect(),
            report: Report::named(&plan.report, fabric),
        }
    }
}

fn tables(tables: &Tables, fabric: &Fabric) -> BTreeMap<String, BTreeMap<String, Vec<Via>>> {
    let name = |node: &NodeId| fabric.name(*node).to_owned();
    let via = |hop: &NextHop| Via {
        link: fabric.link_name(hop.link),
        weight: hop.weight,
    };
    let routes = |table: &ForwardingTable| {
        let routes = table.towards.iter();
        let routes = routes.map(|(to, hops)| (name(to), hops.iter().map(via).collect()));
        routes.collect()
    };
    let tables = tables.iter();
    tables
        .map(|(at, table)| (name(at), routes(table)))
        .collect()
}

impl Pin {
    pub fn named(pin: &plan::Pin, fabric: &Fabric) -> Self {
        let hop = snapshot::Hop {
            from: pin.at,
            link: pin.link,
        };
        Self {
            flow: pin.flow,
            hop: Hop::named(hop, fabric),
        }
    }
}

fn moves(moves: &[plan::Move], fabric: &Fabric) -> Vec<Move> {
    let named = moves.iter().map(|made| Move {
        flow: made.flow,
        from: Hop::named(made.from, fabric),
        to: Hop::named(made.to, fabric),
    });
    named.collect()
}

impl From<&plan::Prediction> for Prediction {
    fn from(prediction: &plan::Prediction) -> Self {
        Self {
            flow: prediction.flow,
            before_bits_per_s: prediction.before,
            after_bits_per_s: prediction.after,
            low_bits_per_s: prediction.low,
            high_bits_per_s: prediction.high,
        }
    }
}

impl Report {
    fn named(report: &plan::Report, fabric: &Fabric) -> Self {
        let finding = |found| Finding::named(found, fabric);
        let alternative = |lost| Alternative::named(lost, fabric);
        Self {
            findings: report.findings.iter().map(finding).collect(),
            slowest_before_bits_per_s: report.slowest_before,
            slowest_after_bits_per_s: report.slowest_after,
            alternatives: report.alternatives.iter().map(alternative).collect(),
        }
    }
}

impl Alternative {
    fn named(lost: &plan::Alternative, fabric: &Fabric) -> Self {
        Self {
            moves: moves(&lost.moves, fabric),
            slowest_after_bits_per_s: lost.slowest_after,
            lost_because: lost.lost_because,
        }
    }
}
