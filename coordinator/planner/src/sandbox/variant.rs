//! What is to be otherwise than it was: another fabric, other ways, other hosts.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::{Fabric, FabricBuilder, Link, WiringError};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::input::{Document, InputError, Table};
use serde::Deserialize;
use toml::Spanned;

use crate::sim::ecmp::Ecmp;
use crate::workload::history::Routing;

/// A variant file, with all that it names.
#[derive(Debug)]
pub struct Variant {
    /// What the history speaks of.
    pub recorded: Fabric,
    pub fabric: Fabric,
    /// Nothing lets traffic go as it was seen to.
    pub routing: Option<Routing>,
    /// By the ends, over which nodes.
    pub ways: BTreeMap<(NodeId, NodeId), Vec<NodeId>>,
    /// By its name, where what it sent and received is now.
    pub hosts: BTreeMap<String, String>,
}

/// The text of a variant, and what it is called.
#[derive(Debug)]
pub struct VariantFile<'t> {
    document: Document<'t>,
    file: File,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    recorded: Spanned<String>,
    fabric: Option<Spanned<String>>,
    #[serde(default)]
    without: Vec<Spanned<String>>,
    routing: Option<Kind>,
    seed: Option<u32>,
    #[serde(default)]
    hosts: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default, rename = "way")]
    ways: Vec<WayEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Recorded,
    Even,
    Hashed,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WayEntry {
    nodes: Spanned<Vec<String>>,
}

impl<'t> VariantFile<'t> {
    pub fn parse(name: &'t str, text: &'t str) -> Result<Self, InputError> {
        let document = Document::new(name, text);
        let file = document.table().and_then(Table::finish)?;
        Ok(Self { document, file })
    }

    /// The files of the fabrics that it speaks of: that of the history, and its own.
    pub fn fabrics(&self) -> [&str; 2] {
        let File {
            recorded, fabric, ..
        } = &self.file;
        [recorded, fabric.as_ref().unwrap_or(recorded)].map(|name| name.get_ref().as_str())
    }

    /// The links that it does without.
    pub fn without(&self) -> Vec<String> {
        let names = self.file.without.iter();
        names.map(|name| name.get_ref().clone()).collect()
    }

    /// Which of its keys say what no plan can bring about: a plan leads traffic away from links, and neither
    /// gives switches another hash, nor jobs other hosts, nor the cluster other cables.
    pub fn beyond_plans(&self) -> Vec<&'static str> {
        let File {
            fabric,
            routing,
            hosts,
            ways,
            ..
        } = &self.file;
        let said = [
            ("fabric", fabric.is_some()),
            ("routing", routing.is_some()),
            ("hosts", !hosts.is_empty()),
            ("way", !ways.is_empty()),
        ];
        let said = said.into_iter().filter(|(_, is_said)| *is_said);
        said.map(|(key, _)| key).collect()
    }

    /// With those two.
    pub fn on(self, [recorded, fabric]: [Fabric; 2]) -> Result<Variant, InputError> {
        let Self { document, file } = self;
        let fabric = without(document, fabric, &file.without)?;
        let reading = Reading {
            document,
            recorded: &recorded,
            fabric: &fabric,
        };
        let hosts = reading.hosts(&file.hosts)?;
        let ways = reading.ways(&file.ways)?;
        // Ways that were seen are those of the fabric and the hosts that they were seen on.
        let as_it_was = file.fabric.is_none() && file.without.is_empty() && hosts.is_empty();
        let kind = file.routing.unwrap_or(match as_it_was {
            true => Kind::Recorded,
            false => Kind::Hashed,
        });
        let seed = u64::from(file.seed.unwrap_or(0));
        Ok(Variant {
            routing: match kind {
                Kind::Recorded => None,
                Kind::Even => Some(Routing::Even),
                Kind::Hashed => Some(Routing::Hashed(Ecmp::Mixed { seed })),
            },
            recorded,
            fabric,
            ways,
            hosts,
        })
    }
}

/// The fabric less some of its links; optical switches are not simulated.
fn without(
    document: Document<'_>,
    fabric: Fabric,
    names: &[Spanned<String>],
) -> Result<Fabric, InputError> {
    let link = |name: &Spanned<String>| {
        let link = fabric.find_link(name.get_ref());
        let problem = || format!("the fabric has no link named {:?}", name.get_ref());
        link.ok_or_else(|| document.error(name.span(), problem()))
    };
    let taken: Result<BTreeSet<_>, _> = names.iter().map(link).collect();
    let (taken, first) = (taken?, names.first());
    let Some(first) = first else {
        return Ok(fabric);
    };
    let left = less(&fabric, &taken);
    left.map_err(|error| document.error(first.span(), error.to_string()))
}

fn less(fabric: &Fabric, taken: &BTreeSet<LinkId>) -> Result<Fabric, WiringError> {
    let mut builder = FabricBuilder::new();
    for (_, node) in fabric.nodes() {
        builder.add_node(&node.name, node.role)?;
    }
    // Links between the same two are alike.
    let mut left: BTreeMap<[NodeId; 2], (u32, &Link)> = BTreeMap::new();
    for (_, link) in fabric.links().filter(|(id, _)| !taken.contains(id)) {
        let pair = link.ports().map(|port| port.node);
        left.entry(pair).or_insert((0, link)).0 += 1;
    }
    for (pair, (count, link)) in left {
        builder.connect(pair, count, link.rate, link.latency)?;
    }
    Ok(builder.build())
}

struct Reading<'r> {
    document: Document<'r>,
    recorded: &'r Fabric,
    fabric: &'r Fabric,
}

impl Reading<'_> {
    fn hosts(
        &self,
        hosts: &BTreeMap<Spanned<String>, Spanned<String>>,
    ) -> Result<BTreeMap<String, String>, InputError> {
        let moved = hosts.iter().map(|(from, to)| {
            self.endpoint(self.recorded, from)?;
            self.endpoint(self.fabric, to)?;
            Ok((from.get_ref().clone(), to.get_ref().clone()))
        });
        moved.collect()
    }

    fn endpoint(&self, fabric: &Fabric, name: &Spanned<String>) -> Result<NodeId, InputError> {
        let node = fabric.find(name.get_ref());
        let host = node.filter(|&node| fabric.node(node).role.is_endpoint());
        let problem = || format!("the fabric has no host named {:?}", name.get_ref());
        host.ok_or_else(|| self.document.error(name.span(), problem()))
    }

    fn ways(
        &self,
        entries: &[WayEntry],
    ) -> Result<BTreeMap<(NodeId, NodeId), Vec<NodeId>>, InputError> {
        let mut ways = BTreeMap::new();
        for WayEntry { nodes } in entries {
            let error = |problem: String| self.document.error(nodes.span(), problem);
            let find = |name: &String| {
                let node = self.fabric.find(name);
                node.ok_or_else(|| error(format!("the fabric has no node named {name:?}")))
            };
            let found: Result<Vec<_>, _> = nodes.get_ref().iter().map(find).collect();
            let found = found?;
            let ([first, .., last], true) = (&found[..], self.is_wired(&found)) else {
                return Err(error(
                    "two nodes that follow each other are not linked".to_owned(),
                ));
            };
            ways.insert((*first, *last), found);
        }
        Ok(ways)
    }

    fn is_wired(&self, nodes: &[NodeId]) -> bool {
        let mut pairs = nodes.windows(2);
        pairs.all(|pair| self.fabric.links_between(pair[0], pair[1]).next().is_some())
    }
}
