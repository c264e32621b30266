//! A plan and its reason, with names of nodes and links.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::circuit::CircuitSet;
use crate::fabric::{Circuits, Fabric, Role};
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
    /// Generation of the change that the plan rolls back.
    pub takes_back: Option<Generation>,
    /// All pins after the plan.
    pub pins: Vec<Pin>,
    /// Links over which each node with a table sends, by destination host. `behind leaf1` stands for all NICs that hang
    /// on this switch.
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, BTreeMap<String, Vec<Via>>>))]
    pub tables: Tables,
    /// All circuits of optical switches that were ever moved.
    pub circuits: BTreeMap<String, CircuitSet>,
    /// Changes against the parent, if that is in force.
    pub changes: Vec<Line>,
    /// Hash of the offered plan as shown, without the number of a job's flows that send now and without `base`. An
    /// approval with this seal approves exactly this plan.
    pub seal: String,
    /// Reasons, from frozen jobs, why it cannot be applied now.
    pub hindered_by: Vec<String>,
    /// Jobs that it affects, the most affected first.
    pub touched: Vec<TouchedJob>,
    /// Order in which tables and circuits change, if it could start now.
    pub migration: Option<NamedMigration>,
    /// State of the network when the plan was offered.
    pub base: Option<Base>,
    pub moves: Vec<Move>,
    pub predictions: Vec<Prediction>,
    /// Present and predicted iteration time of jobs with a known period.
    pub iterations: Vec<Iteration>,
    pub report: Report,
}

/// The measured value is expected in `low..high`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Iteration {
    pub job: String,
    pub before_ms: f64,
    pub after_ms: f64,
    pub low_ms: f64,
    pub high_ms: f64,
}

/// Number of a job's flows that a plan may affect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TouchedJob {
    pub job: String,
    /// All flows of the job.
    pub flows: usize,
    /// Flows whose path may change.
    pub moved: usize,
    /// Flows whose links gain or lose other flows.
    pub slowed: usize,
}

/// Inputs of the plan check, so that others can repeat it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Base {
    /// Pins in force, like the tables and circuits.
    pub pins: Vec<Pin>,
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, BTreeMap<String, Vec<Via>>>))]
    pub tables: Tables,
    pub circuits: BTreeMap<String, CircuitSet>,
    /// Links that are down.
    pub down: Vec<String>,
    /// Share of its capacity that every node keeps while circuits move.
    pub capacity_floor: f64,
    /// Lossless network: no packet is dropped, and a full node pauses its upstream neighbour.
    pub lossless: bool,
    /// Owner of each address to which a pin in force or of the plan leads, if it is known: fabric files need not have
    /// addresses. Absent in plans of earlier versions.
    #[cfg_attr(feature = "schema", schema(value_type = Option<BTreeMap<String, String>>))]
    pub addresses: Option<BTreeMap<Ipv4Addr, String>>,
}

/// The fields of a [`Base`], by numbers in place of names.
#[derive(Debug, Clone, Copy)]
pub struct BaseInputs<'a> {
    pub pins: &'a [plan::Pin],
    pub tables: &'a migration_plan::Tables,
    pub circuits: &'a Circuits,
    pub down: &'a BTreeSet<LinkId>,
    pub capacity_floor: f64,
    pub lossless: bool,
    pub addresses: &'a BTreeMap<Ipv4Addr, NodeId>,
}

impl Base {
    pub fn named(inputs: BaseInputs<'_>, fabric: &Fabric) -> Self {
        let owner =
            |(&address, &node): (&Ipv4Addr, &NodeId)| (address, fabric.name(node).to_owned());
        let pins = inputs.pins.iter();
        let down = inputs.down.iter();
        Self {
            pins: pins.map(|pin| Pin::named(pin, fabric)).collect(),
            tables: tables(inputs.tables, fabric),
            circuits: circuits(inputs.circuits, fabric),
            down: down.map(|&link| fabric.link_name(link)).collect(),
            capacity_floor: inputs.capacity_floor,
            lossless: inputs.lossless,
            addresses: Some(inputs.addresses.iter().map(owner).collect()),
        }
    }
}

/// Before the name of a switch that stands for all NICs that hang on it. No name of a node has a space.
pub const BEHIND_PREFIX: &str = "behind ";

/// Forwarding of nodes, by name.
type Tables = BTreeMap<String, BTreeMap<String, Vec<Via>>>;

/// Changes from the present state, wave by wave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NamedMigration {
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, BTreeMap<String, Vec<Via>>>))]
    pub tables_before: Tables,
    pub circuits_before: BTreeMap<String, CircuitSet>,
    pub waves: Vec<Wave>,
}

/// A wave. Tables of a round may change in any order; circuits move between the rounds before and after.
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
        tables_before: &migration_plan::Tables,
        circuits_before: &Circuits,
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

/// A link over which a node forwards, with its weight.
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
    /// Lower bound of the expected measured value.
    pub low_bits_per_s: Rate,
    pub high_bits_per_s: Rate,
}

/// Why this plan was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Report {
    pub findings: Vec<Finding>,
    pub slowest_before_bits_per_s: Rate,
    pub slowest_after_bits_per_s: Rate,
    pub alternatives: Vec<Alternative>,
}

/// An alternative plan that was rejected.
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
    let destination = |to: &NodeId| match fabric.node(*to).role {
        Role::Switch => format!("{BEHIND_PREFIX}{}", name(to)),
        Role::Host | Role::Relay => name(to),
    };
    let routes = |table: &ForwardingTable| {
        let routes = table.towards.iter();
        let routes = routes.map(|(to, hops)| (destination(to), hops.iter().map(via).collect()));
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
