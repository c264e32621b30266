//! A plan and its reason, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::circuit::CircuitSet;
use crate::fabric::{Circuits, Fabric};
use crate::flow::FlowKey;
use crate::forwarding::{ForwardingTable, NextHop};
use crate::ids::{LinkId, NodeId};
use crate::migration_plan;
use crate::plan::{self, Generation, LostBecause};
use crate::snapshot;
use crate::time_span::TimeSpan;
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
    /// The change that it rolls back.
    pub takes_back: Option<Generation>,
    /// All that will be pinned afterwards.
    pub pins: Vec<Pin>,
    /// All that each node that has a table sends over which links, by the host that it is for.
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, BTreeMap<String, Vec<Via>>>))]
    pub tables: Tables,
    /// All circuits of optical switches that were ever moved.
    pub circuits: BTreeMap<String, CircuitSet>,
    /// What differs from its parent, where that is in force.
    pub changes: Vec<Line>,
    /// Stands for all that is shown of a plan on offer, but for how many flows of a job it touches and what it was
    /// judged on: an approval that names it approves nothing else.
    pub seal: String,
    /// Why it cannot be carried out just now, as far as jobs are frozen.
    pub hindered_by: Vec<String>,
    /// Jobs that it touches, those first of which it touches most.
    pub touched: Vec<TouchedJob>,
    /// The order in which tables and circuits change, where it could begin now.
    pub migration: Option<NamedMigration>,
    /// What there was when it was shown on offer.
    pub base: Option<Base>,
    pub moves: Vec<Move>,
    pub predictions: Vec<Prediction>,
    /// For jobs with a known iteration period: its present and its predicted value.
    pub iterations: Vec<Iteration>,
    pub report: Report,
}

/// `low..high` is where a measurement is expected to fall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Iteration {
    pub job: String,
    pub before_ms: f64,
    pub after_ms: f64,
    pub low_ms: f64,
    pub high_ms: f64,
}

/// How many of a job's flows a plan may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TouchedJob {
    pub job: String,
    /// All that it has.
    pub flows: usize,
    /// They may go another way.
    pub moved: usize,
    /// Others come to their links, or go.
    pub slowed: usize,
}

/// What a plan was judged on, so that others can judge it by the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Base {
    /// In force, as the tables and circuits are.
    pub pins: Vec<Pin>,
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, BTreeMap<String, Vec<Via>>>))]
    pub tables: Tables,
    pub circuits: BTreeMap<String, CircuitSet>,
    /// Links that are down.
    pub down: Vec<String>,
    /// The share of its capacity that every node keeps while circuits move.
    pub capacity_floor: f64,
    /// Nothing is dropped: who has no room makes the one before it wait.
    pub lossless: bool,
    /// Which node has each address that a pin in force or of the plan leads to, where an owner is known: fabric files
    /// need not say so. Plans that were written down earlier do not have this.
    #[cfg_attr(feature = "schema", schema(value_type = Option<BTreeMap<String, String>>))]
    pub addresses: Option<BTreeMap<Ipv4Addr, String>>,
}

impl Base {
    pub fn named(
        (pins, tables_in_force, circuits_in_force): (
            &[plan::Pin],
            &migration_plan::Tables,
            &Circuits,
        ),
        down: &BTreeSet<LinkId>,
        (capacity_floor, lossless): (f64, bool),
        addresses: &BTreeMap<Ipv4Addr, NodeId>,
        fabric: &Fabric,
    ) -> Self {
        let named =
            |(&address, &node): (&Ipv4Addr, &NodeId)| (address, fabric.name(node).to_owned());
        Self {
            pins: pins.iter().map(|pin| Pin::named(pin, fabric)).collect(),
            tables: tables(tables_in_force, fabric),
            circuits: circuits(circuits_in_force, fabric),
            down: down.iter().map(|&link| fabric.link_name(link)).collect(),
            capacity_floor,
            lossless,
            addresses: Some(addresses.iter().map(named).collect()),
        }
    }
}

/// What nodes send where, by their names.
type Tables = BTreeMap<String, BTreeMap<String, Vec<Via>>>;

/// From what there is, wave by wave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NamedMigration {
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, BTreeMap<String, Vec<Via>>>))]
    pub tables_before: Tables,
    pub circuits_before: BTreeMap<String, CircuitSet>,
    pub waves: Vec<Wave>,
}

/// Tables of a round may be taken in any order; circuits move between the rounds before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Wave {
    #[cfg_attr(feature = "schema", schema(value_type = Vec<BTreeMap<String, BTreeMap<String, Vec<Via>>>>))]
    pub drain: Vec<Tables>,
    pub circuits: BTreeMap<String, CircuitSet>,
    #[cfg_attr(feature = "schema", schema(value_type = Vec<BTreeMap<String, BTreeMap<String, Vec<Via>>>>))]
    pub undrain: Vec<Tables>,
}

impl NamedMigration {
    pub fn named(
        migration: &migration_plan::MigrationPlan,
        (tables_before, circuits_before): (&migration_plan::Tables, &Circuits),
        fabric: &Fabric,
    ) -> Self {
        let rounds =
            |rounds: &[migration_plan::Round]| rounds.iter().map(|it| tables(it, fabric)).collect();
        let waves = migration.waves.iter().map(|wave| Wave {
            drain: rounds(&wave.drain),
            circuits: circuits(&wave.circuits, fabric),
            undrain: rounds(&wave.undrain),
        });
        Self {
            tables_before: tables(tables_before, fabric),
            circuits_before: circuits(circuits_before, fabric),
            waves: waves.collect(),
        }
    }
}

fn circuits(circuits: &Circuits, fabric: &Fabric) -> BTreeMap<String, CircuitSet> {
    let name = |optical| fabric.optical(optical).name.clone();
    let all = circuits.iter();
    all.map(|(&optical, set)| (name(optical), set.clone()))
        .collect()
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
            circuits: circuits(&plan.circuits, fabric),
            changes: Vec::new(),
            seal: String::new(),
            hindered_by: Vec::new(),
            touched: Vec::new(),
            migration: None,
            base: None,
            moves: moves(&plan.moves, fabric),
            predictions: plan.predictions.iter().map(Prediction::from).collect(),
            iterations: plan.iterations.iter().map(Iteration::from).collect(),
            report: Report::named(&plan.report, fabric),
        }
    }
}

fn tables(tables: &migration_plan::Tables, fabric: &Fabric) -> Tables {
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

impl From<&plan::Iteration> for Iteration {
    fn from(iteration: &plan::Iteration) -> Self {
        let plan::Iteration {
            before,
            after,
            low,
            high,
            ..
        } = iteration;
        let [before_ms, after_ms, low_ms, high_ms] = [before, after, low, high].map(millis);
        Self {
            job: iteration.job.clone(),
            before_ms,
            after_ms,
            low_ms,
            high_ms,
        }
    }
}

fn millis(time: &TimeSpan) -> f64 {
    time.as_secs_f64() * 1e3
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
