//! Changes of a variant: another fabric, other paths, other hosts, another job.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::input::{Document, InputError, Table};
use reweave_repair::paths::ecmp::Ecmp;
use serde::Deserialize;
use toml::Spanned;

use super::{SandboxError, changed};
use crate::workload::history::Routing;
use crate::workload::job::JobFile;

const NO_JOB_ERROR: &str = "the input is not a job: leave it out, or use a job file";

/// A variant file, with all that it names.
#[derive(Debug)]
pub struct Variant {
    /// Original fabric; for past traffic, the recorded one.
    pub recorded: Fabric,
    pub fabric: Fabric,
    pub routes: Routes,
    /// Nodes on the path of each pair.
    pub ways: BTreeMap<(NodeId, NodeId), Vec<NodeId>>,
    /// Replacement of each host, by name.
    hosts: BTreeMap<String, Moved>,
}

/// A replacement of a host.
#[derive(Debug)]
struct Moved {
    to: String,
    /// Error for a replacement that takes part itself and keeps its place.
    crowded: InputError,
}

/// Routing of traffic without a path in the variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routes {
    /// As observed.
    Recorded,
    /// By the hash of the switches; observed paths may no longer apply.
    Rehashed,
    Chosen(Routing),
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
    recorded: Option<Spanned<String>>,
    fabric: Option<Spanned<String>>,
    #[serde(default)]
    without: Vec<Spanned<String>>,
    routing: Option<Kind>,
    seed: Option<u32>,
    #[serde(default)]
    hosts: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default, rename = "way")]
    ways: Vec<WayEntry>,
    job: Option<toml::Table>,
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

    /// The file of the fabric that it is compared with, which a caller may replace.
    pub fn recorded(&self) -> Result<&str, InputError> {
        match &self.file.recorded {
            Some(name) => Ok(name.get_ref()),
            None => Err(self.document.table()?.lacks("recorded")),
        }
    }

    /// The file of its own fabric; that which it is compared with where it names none.
    pub fn fabric(&self) -> Option<&str> {
        let name = self.file.fabric.as_ref();
        name.map(|name| name.get_ref().as_str())
    }

    /// Returns the job file with the changes of the variant; none if it changes nothing. Errors are errors of the
    /// change.
    pub fn job(&mut self, file: &str, text: &str) -> Result<Option<JobFile>, InputError> {
        match self.file.job.take() {
            None => Ok(None),
            Some(changes) => changed::job(self.document, &changes, file, text).map(Some),
        }
    }

    /// The links that it does without.
    pub fn without(&self) -> Vec<String> {
        let names = self.file.without.iter();
        names.map(|name| name.get_ref().clone()).collect()
    }

    /// Returns the keys that no plan can implement: a plan moves traffic away from links, but does not change hashes,
    /// hosts of jobs, or cables.
    pub fn beyond_plans(&self) -> Vec<&'static str> {
        let File {
            fabric,
            routing,
            hosts,
            ways,
            job,
            ..
        } = &self.file;
        let said = [
            ("fabric", fabric.is_some()),
            ("routing", routing.is_some()),
            ("hosts", !hosts.is_empty()),
            ("way", !ways.is_empty()),
            ("job", job.is_some()),
        ];
        let said = said.into_iter().filter(|(_, is_said)| *is_said);
        said.map(|(key, _)| key).collect()
    }

    /// Returns the variant with these two fabrics.
    pub fn on(self, [recorded, fabric]: [Fabric; 2]) -> Result<Variant, InputError> {
        let Self { document, file } = self;
        if file.job.is_some() {
            return Err(changed::error(document, "job", NO_JOB_ERROR));
        }
        let fabric = without(document, &fabric, &file.without)?;
        let reading = Reading {
            document,
            recorded: &recorded,
            fabric: &fabric,
        };
        let hosts = reading.hosts(&file.hosts)?;
        let ways = reading.ways(&file.ways)?;
        // Observed paths are valid only on the fabric and the hosts of the observation.
        let as_it_was = file.fabric.is_none() && file.without.is_empty() && hosts.is_empty();
        let hashed = |seed: u32| {
            let seed = u64::from(seed);
            Routes::Chosen(Routing::Hashed(Ecmp::Mixed { seed }))
        };
        Ok(Variant {
            routes: match (file.routing, file.seed) {
                (Some(Kind::Recorded), _) => Routes::Recorded,
                (Some(Kind::Even), _) => Routes::Chosen(Routing::Even),
                (Some(Kind::Hashed), seed) => hashed(seed.unwrap_or(0)),
                (None, _) if as_it_was => Routes::Recorded,
                (None, Some(seed)) => hashed(seed),
                (None, None) => Routes::Rehashed,
            },
            recorded,
            fabric,
            ways,
            hosts,
        })
    }
}

impl Variant {
    /// Returns the replacement of a host of the recorded fabric.
    pub(super) fn host(&self, name: &str) -> Result<NodeId, SandboxError> {
        let name = self.hosts.get(name).map_or(name, |it| &it.to);
        let node = self.fabric.find(name);
        let node = node.filter(|&node| self.fabric.node(node).role.is_endpoint());
        node.ok_or_else(|| SandboxError::NotInFabric {
            name: name.to_owned(),
        })
    }

    /// Whether each participating host has a place of its own.
    pub(super) fn parts_all(&self, who: &BTreeSet<&str>) -> Result<(), SandboxError> {
        let stays = |name: &str| self.hosts.get(name).is_none_or(|it| it.to == name);
        let mut moved = self.hosts.iter().filter(|(from, _)| who.contains(&***from));
        let crowded =
            moved.find(|(from, it)| it.to != **from && who.contains(&*it.to) && stays(&it.to));
        crowded.map_or(Ok(()), |(_, it)| {
            Err(SandboxError::OnePlace(it.crowded.clone()))
        })
    }
}

/// The fabric less some of its links.
fn without(
    document: Document<'_>,
    fabric: &Fabric,
    names: &[Spanned<String>],
) -> Result<Fabric, InputError> {
    let link = |name: &Spanned<String>| {
        let link = fabric.find_link(name.get_ref());
        link.ok_or_else(|| {
            let problem = format!("the fabric has no link named {:?}", name.get_ref());
            document.error(name.span(), problem)
        })
    };
    let taken: BTreeSet<_> = names.iter().map(link).collect::<Result<_, _>>()?;
    Ok(fabric.less(&taken))
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
    ) -> Result<BTreeMap<String, Moved>, InputError> {
        let mut takers = BTreeMap::new();
        let moved = hosts.iter().map(|(from, to)| {
            self.endpoint(self.recorded, from)?;
            self.endpoint(self.fabric, to)?;
            let (who, place) = (from.get_ref(), to.get_ref());
            if let Some(other) = takers.insert(place, who) {
                let problem = format!("{other} and {who} take one place, that of {place}");
                return Err(self.document.error(from.span(), problem));
            }
            let problem = format!(
                "{place} takes part itself and stays where it is, so two have one place: say where \
                 it goes, as {place} = {who:?}"
            );
            let crowded = self.document.error(from.span(), problem);
            let to = place.clone();
            Ok((who.clone(), Moved { to, crowded }))
        });
        moved.collect()
    }

    fn endpoint(&self, fabric: &Fabric, name: &Spanned<String>) -> Result<NodeId, InputError> {
        let node = fabric.find(name.get_ref());
        let host = node.filter(|&node| fabric.node(node).role.is_endpoint());
        host.ok_or_else(|| {
            let problem = format!("the fabric has no host named {:?}", name.get_ref());
            self.document.error(name.span(), problem)
        })
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
            let (ends, found) = self.way(found?).map_err(error)?;
            if ways.insert(ends, found).is_some() {
                let [from, to] = [ends.0, ends.1].map(|node| self.fabric.name(node));
                return Err(error(format!("a path from {from} to {to} exists already")));
            }
        }
        Ok(ways)
    }

    /// Returns the path with its ends.
    fn way(&self, nodes: Vec<NodeId>) -> Result<((NodeId, NodeId), Vec<NodeId>), String> {
        let name = |node: &NodeId| self.fabric.name(*node);
        let role = |node: &NodeId| self.fabric.node(*node).role;
        let [from, between @ .., to] = &nodes[..] else {
            return Err("a path has two ends".to_owned());
        };
        if let Some(end) = [from, to].into_iter().find(|it| !role(it).is_endpoint()) {
            let end = name(end);
            return Err(format!(
                "{end} is not a host, and paths lead from one host to another"
            ));
        }
        let mut passed = BTreeSet::new();
        if let Some(twice) = nodes.iter().find(|it| !passed.insert(**it)) {
            return Err(format!("it passes {} twice", name(twice)));
        }
        if let Some(last) = between.iter().find(|it| !role(it).forwards()) {
            return Err(format!("{} forwards nothing", name(last)));
        }
        if !self.is_wired(&nodes) {
            return Err("two nodes that follow each other are not linked".to_owned());
        }
        Ok(((*from, *to), nodes))
    }

    fn is_wired(&self, nodes: &[NodeId]) -> bool {
        let mut pairs = nodes.windows(2);
        pairs.all(|pair| self.fabric.links_between(pair[0], pair[1]).next().is_some())
    }
}
