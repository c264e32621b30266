//! From a plan by name, as it was printed, back to one by ids.

use std::collections::BTreeMap;
use std::fmt;

use super::plan::{Plan, Via};
use crate::course::Tables;
use crate::fabric::Fabric;
use crate::forwarding::{ForwardingTable, NextHop};
use crate::ids::{LinkId, NodeId};
use crate::plan;
use crate::units::Rate;

/// What a plan names and the fabric does not have.
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
    /// All that will hold afterwards. What it promises, and why it was made, is left behind.
    pub fn resolve(&self, fabric: &Fabric) -> Result<plan::Plan, Unknown> {
        let names = Names::of(fabric);
        let nothing = Rate::from_bits_per_s(0);
        let circuits = self.circuits.iter().map(|(name, set)| {
            let unknown = || Unknown::Optical { name: name.clone() };
            let optical = fabric.find_optical(name).ok_or_else(unknown)?;
            Ok((optical, set.clone()))
        });
        let pins = self.pins.iter().map(|pin| {
            Ok(plan::Pin {
                flow: pin.flow,
                at: names.node(&pin.hop.from)?,
                link: names.link(&pin.hop.link)?,
            })
        });
        Ok(plan::Plan {
            generation: self.generation,
            parent: self.parent,
            takes_back: self.takes_back,
            pins: pins.collect::<Result<_, _>>()?,
            tables: self.resolve_tables(&names)?,
            circuits: circuits.collect::<Result<_, _>>()?,
            moves: Vec::new(),
            predictions: Vec::new(),
            report: plan::Report {
                findings: Vec::new(),
                slowest_before: nothing,
                slowest_after: nothing,
                alternatives: Vec::new(),
            },
        })
    }

    fn resolve_tables(&self, names: &Names<'_>) -> Result<Tables, Unknown> {
        let table = |(at, routes): (&String, &BTreeMap<String, Vec<Via>>)| {
            let at = names.node(at)?;
            let towards = routes.iter().map(|(to, hops)| {
                let hops: Result<Vec<_>, _> = hops.iter().map(|via| names.hop(via)).collect();
                Ok((names.node(to)?, hops?))
            });
            let towards = towards.collect::<Result<_, _>>()?;
            let raises = Vec::new();
            Ok((
                at,
                ForwardingTable {
                    at,
                    towards,
                    raises,
                },
            ))
        };
        self.tables.iter().map(table).collect()
    }
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
        self.links.get(name).copied().ok_or_else(unknown)
    }

    fn hop(&self, via: &Via) -> Result<NextHop, Unknown> {
        let (link, weight) = (self.link(&via.link)?, via.weight);
        Ok(NextHop { link, weight })
    }
}
