//! Resolves a printed plan: names become ids.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use super::plan::{BEHIND_PREFIX, Base, NamedMigration, Pin, Plan, Via, Wave};
use crate::circuit::CircuitSet;
use crate::fabric::{Circuits, Fabric};
use crate::forwarding::{ForwardingTable, NextHop};
use crate::ids::{LinkId, NodeId};
use crate::migration_plan::{self, Tables};
use crate::plan;
use crate::units::Rate;

/// Forwarding of nodes, by name.
type ByName = BTreeMap<String, BTreeMap<String, Vec<Via>>>;

/// A name in a plan that the fabric does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    Node { name: String },
    Link { name: String },
    Optical { name: String },
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node { name } => write!(f, "the fabric has no node {name:?}"),
            Self::Link { name } => write!(f, "the fabric has no link {name:?}"),
            Self::Optical { name } => write!(f, "the fabric has no optical switch {name:?}"),
        }
    }
}

impl std::error::Error for Unknown {}

impl Plan {
    /// Resolves the state after the plan. Predictions and reasons are left out.
    pub fn resolve(&self, fabric: &Fabric) -> Result<plan::Plan, Unknown> {
        let names = Names::of(fabric);
        let nothing = Rate::from_bits_per_s(0);
        Ok(plan::Plan {
            generation: self.generation,
            parent: self.parent,
            takes_back: self.takes_back,
            pins: names.pins(&self.pins)?,
            tables: names.tables(&self.tables)?,
            circuits: names.circuits(&self.circuits)?,
            orders: Vec::new(),
            moves: Vec::new(),
            predictions: Vec::new(),
            iterations: Vec::new(),
            report: plan::Report {
                findings: Vec::new(),
                slowest_before: nothing,
                slowest_after: nothing,
                alternatives: Vec::new(),
            },
        })
    }
}

impl NamedMigration {
    /// Resolves the migration plan, with the tables and circuits from which it starts.
    pub fn resolve(
        &self,
        fabric: &Fabric,
    ) -> Result<(Tables, Circuits, migration_plan::MigrationPlan), Unknown> {
        let names = Names::of(fabric);
        let rounds = |rounds: &[ByName]| -> Result<Vec<Tables>, Unknown> {
            rounds.iter().map(|round| names.tables(round)).collect()
        };
        let wave = |wave: &Wave| {
            Ok(migration_plan::Wave {
                drain: rounds(&wave.drain)?,
                circuits: names.circuits(&wave.circuits)?,
                undrain: rounds(&wave.undrain)?,
            })
        };
        let waves = self.waves.iter().map(wave).collect::<Result<_, _>>()?;
        let tables = names.tables(&self.tables_before)?;
        let circuits = names.circuits(&self.circuits_before)?;
        Ok((tables, circuits, migration_plan::MigrationPlan { waves }))
    }
}

/// Pins, tables and circuits in force, and links that are down.
type ResolvedBase = (Vec<plan::Pin>, Tables, Circuits, BTreeSet<LinkId>);

impl Base {
    pub fn resolve(&self, fabric: &Fabric) -> Result<ResolvedBase, Unknown> {
        let names = Names::of(fabric);
        Ok((
            names.pins(&self.pins)?,
            names.tables(&self.tables)?,
            names.circuits(&self.circuits)?,
            links_named(&self.down, fabric)?,
        ))
    }

    /// Returns the owner of each address, or nothing if the plan does not record owners.
    pub fn owners(&self, fabric: &Fabric) -> Result<Option<BTreeMap<Ipv4Addr, NodeId>>, Unknown> {
        let names = Names::of(fabric);
        let owner = |(&address, name): (&Ipv4Addr, &String)| Ok((address, names.node(name)?));
        let owners = self.addresses.as_ref();
        owners
            .map(|all| all.iter().map(owner).collect())
            .transpose()
    }
}

/// Resolves names of links.
pub fn links_named(names: &[String], fabric: &Fabric) -> Result<BTreeSet<LinkId>, Unknown> {
    let known = Names::of(fabric);
    names.iter().map(|name| known.link(name)).collect()
}

struct Names<'f> {
    fabric: &'f Fabric,
    links: BTreeMap<String, LinkId>,
}

impl<'f> Names<'f> {
    fn of(fabric: &'f Fabric) -> Self {
        let links = fabric
            .links()
            .map(|(link, _)| (fabric.link_name(link), link));
        let links = links.collect();
        Self { fabric, links }
    }

    fn node(&self, name: &str) -> Result<NodeId, Unknown> {
        let unknown = || Unknown::Node {
            name: name.to_owned(),
        };
        self.fabric.find(name).ok_or_else(unknown)
    }

    fn link(&self, name: &str) -> Result<LinkId, Unknown> {
        let unknown = || Unknown::Link {
            name: name.to_owned(),
        };
        let named = self.links.get(name).copied();
        // The ends may be in the other order in what people write.
        let found = named.or_else(|| self.fabric.find_link(name));
        found.ok_or_else(unknown)
    }

    fn pins(&self, pins: &[Pin]) -> Result<Vec<plan::Pin>, Unknown> {
        let pins = pins.iter().map(|pin| {
            Ok(plan::Pin {
                flow: pin.flow,
                at: self.node(&pin.hop.from)?,
                link: self.link(&pin.hop.link)?,
            })
        });
        pins.collect()
    }

    fn circuits(&self, circuits: &BTreeMap<String, CircuitSet>) -> Result<Circuits, Unknown> {
        let circuits = circuits.iter().map(|(name, set)| {
            let unknown = || Unknown::Optical { name: name.clone() };
            let optical = self.fabric.find_optical(name).ok_or_else(unknown)?;
            Ok((optical, set.clone()))
        });
        circuits.collect()
    }

    fn tables(&self, tables: &ByName) -> Result<Tables, Unknown> {
        let table = |(at, routes): (&String, &BTreeMap<String, Vec<Via>>)| {
            let at = self.node(at)?;
            let towards = routes.iter().map(|(to, hops)| {
                let hops: Result<Vec<_>, _> = hops.iter().map(|via| self.hop(via)).collect();
                let to = to.strip_prefix(BEHIND_PREFIX).unwrap_or(to);
                Ok((self.node(to)?, hops?))
            });
            let towards = towards.collect::<Result<_, _>>()?;
            let raises = Vec::new();
            let table = ForwardingTable {
                at,
                towards,
                raises,
            };
            Ok((at, table))
        };
        tables.iter().map(table).collect()
    }

    fn hop(&self, via: &Via) -> Result<NextHop, Unknown> {
        let (link, weight) = (self.link(&via.link)?, via.weight);
        Ok(NextHop { link, weight })
    }
}
