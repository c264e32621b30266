//! What is to be otherwise than it was: another fabric, other ways, other hosts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::input::{Document, InputError};
use reweave_planner::sim::ecmp::Ecmp;
use reweave_planner::workload::history::Routing;
use serde::Deserialize;
use toml::Spanned;

use super::input;
use crate::error::CliError;

/// A variant file, with all that it names.
#[derive(Debug)]
pub(super) struct Variant {
    /// What the history speaks of.
    pub(super) recorded: Fabric,
    pub(super) fabric: Fabric,
    /// Where these two are from.
    pub(super) files: [PathBuf; 2],
    /// Nothing lets traffic go as it was seen to.
    pub(super) routing: Option<Routing>,
    /// By the ends, over which nodes.
    pub(super) ways: BTreeMap<(NodeId, NodeId), Vec<NodeId>>,
    /// By its name, where what it sent and received is now.
    pub(super) hosts: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    recorded: Spanned<String>,
    fabric: Option<Spanned<String>>,
    routing: Option<Kind>,
    seed: Option<u32>,
    #[serde(default)]
    hosts: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default, rename = "way")]
    ways: Vec<WayEntry>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Recorded,
    Even,
    Hashed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WayEntry {
    nodes: Spanned<Vec<String>>,
}

impl Variant {
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let (name, text) = (path.display().to_string(), input::text(path)?);
        let document = Document::new(&name, &text);
        let file: File = document
            .table()
            .and_then(reweave_common::input::Table::finish)
            .map_err(CliError::Input)?;
        let beside = |name: &Spanned<String>| -> PathBuf {
            path.parent().unwrap_or(Path::new("")).join(name.get_ref())
        };
        let files = [Some(&file.recorded), file.fabric.as_ref()];
        let files = files.map(|name| beside(name.unwrap_or(&file.recorded)));
        let recorded = input::fabric(&files[0])?;
        let fabric = input::fabric(&files[1])?;
        let reading = Reading {
            document,
            recorded: &recorded,
            fabric: &fabric,
        };
        let hosts = reading.hosts(&file.hosts).map_err(CliError::Input)?;
        let ways = reading.ways(&file.ways).map_err(CliError::Input)?;
        // Ways that were seen are those of the fabric and the hosts that they were seen on.
        let as_it_was = file.fabric.is_none() && hosts.is_empty();
        let kind = file.routing.unwrap_or(match as_it_was {
            true => Kind::Recorded,
            false => Kind::Hashed,
        });
        let seed = u64::from(file.seed.unwrap_or(0));
        Ok(Self {
            routing: match kind {
                Kind::Recorded => None,
                Kind::Even => Some(Routing::Even),
                Kind::Hashed => Some(Routing::Hashed(Ecmp::Mixed { seed })),
            },
            recorded,
            fabric,
            files,
            ways,
            hosts,
        })
    }
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
