//! The five TOML forms of a fabric.

use std::collections::BTreeSet;
use std::time::Duration;

use nics::GraphNic;
use optics::{GraphFibre, Optical};
use serde::Deserialize;
use toml::Spanned;

use super::{Fabric, FabricBuilder, Role, WiringError};
use crate::ids::NodeId;
use crate::input::{Document, InputError, Table};

mod nics;
mod optics;
mod rails;

/// Maximum size of a fabric.
#[derive(Debug, Clone, Copy)]
pub struct MaxSize {
    pub nodes: u64,
    pub links: u64,
}

impl MaxSize {
    /// Limit for all files: more is a typing error.
    const UNTRUSTED_LIMIT: Self = Self {
        nodes: 1 << 20,
        links: 1 << 22,
    };
}

/// Ten times the latency of a cable around the Earth.
const MAX_LATENCY: Duration = Duration::from_secs(2);

impl Fabric {
    /// Reads a fabric file; `file` is the name in error messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, InputError> {
        Self::parse_within(file, text, MaxSize::UNTRUSTED_LIMIT)
    }

    /// Reads a fabric file of limited size, because a short text may need much memory.
    pub fn parse_within(file: &str, text: &str, max: MaxSize) -> Result<Self, InputError> {
        Self::read(Document::new(file, text).table()?, max)
    }

    /// Reads a fabric from a table inside another file.
    pub(crate) fn from_table(table: Table<'_>) -> Result<Self, InputError> {
        Self::read(table, MaxSize::UNTRUSTED_LIMIT)
    }

    fn read(mut table: Table<'_>, max: MaxSize) -> Result<Self, InputError> {
        let reader = Reader(table.document(), max);
        let kind: Spanned<String> = table.require("kind")?;
        match kind.get_ref().as_str() {
            "ideal" => table.finish().and_then(|file| reader.ideal(&file)),
            "leaf-spine" => table.finish().and_then(|file| reader.leaf_spine(&file)),
            "direct" => table.finish().and_then(|file| reader.direct(file)),
            "rails" => table.finish().and_then(|file| reader.rails(&file)),
            "graph" => table.finish().and_then(|file| reader.graph(&file)),
            other => {
                let problem = format!(
                    "{other:?} is not a kind of fabric; use \"ideal\", \"leaf-spine\", \"direct\", \
                     \"rails\" or \"graph\""
                );
                Err(reader.0.error(kind.span(), problem))
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ideal {
    hosts: Spanned<i64>,
    nic_gbps: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeafSpine {
    leaves: Spanned<i64>,
    spines: Spanned<i64>,
    hosts_per_leaf: Spanned<i64>,
    host_gbps: Spanned<f64>,
    uplink_gbps: Spanned<f64>,
    latency_us: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Direct {
    hosts: Spanned<i64>,
    link_gbps: Spanned<f64>,
    strides: Option<Spanned<Vec<Spanned<i64>>>>,
    links: Option<Vec<Spanned<Vec<i64>>>>,
    latency_us: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Graph {
    node: Vec<GraphNode>,
    #[serde(default)]
    link: Vec<GraphLink>,
    #[serde(default)]
    nic: Vec<GraphNic>,
    #[serde(default)]
    optical: Vec<Optical>,
    #[serde(default)]
    fibre: Vec<GraphFibre>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphNode {
    name: Spanned<String>,
    role: Role,
    address: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphLink {
    a: Spanned<String>,
    b: Spanned<String>,
    gbps: Spanned<f64>,
    latency_us: Option<Spanned<f64>>,
    count: Option<Spanned<i64>>,
}

struct Reader<'t>(Document<'t>, MaxSize);

impl Reader<'_> {
    fn ideal(&self, file: &Ideal) -> Result<Fabric, InputError> {
        let rate = self.0.rate(&file.nic_gbps)?;
        let hosts = self.count(&file.hosts)?;
        let mut builder = FabricBuilder::new();
        let switch = self.fit(&file.hosts, builder.add_node("switch", Role::Switch))?;
        for host in self.numbered(&mut builder, "h", Role::Host, hosts, &file.hosts)? {
            self.fit(
                &file.hosts,
                builder.connect([host, switch], 1, rate, Duration::ZERO),
            )?;
        }
        Ok(builder.build())
    }

    fn leaf_spine(&self, file: &LeafSpine) -> Result<Fabric, InputError> {
        let [leaves, spines] = [self.count(&file.leaves)?, self.count(&file.spines)?];
        let per_leaf = self.count(&file.hosts_per_leaf)?;
        let [host_rate, uplink_rate] = [
            self.0.rate(&file.host_gbps)?,
            self.0.rate(&file.uplink_gbps)?,
        ];
        let latency = self.latency(file.latency_us.as_ref())?;
        self.affordable([leaves * spines, self.1.links], "links", &file.spines)?;

        let (mut builder, at) = (FabricBuilder::new(), &file.hosts_per_leaf);
        let hosts = self.numbered(&mut builder, "h", Role::Host, leaves * per_leaf, at)?;
        let leaves = self.numbered(&mut builder, "leaf", Role::Switch, leaves, &file.leaves)?;
        let spines = self.numbered(&mut builder, "spine", Role::Switch, spines, &file.spines)?;
        for (hosts, &leaf) in hosts.chunks(per_leaf as usize).zip(&leaves) {
            for &host in hosts {
                self.fit(at, builder.connect([host, leaf], 1, host_rate, latency))?;
            }
        }
        for &leaf in &leaves {
            for &spine in &spines {
                self.fit(
                    &file.spines,
                    builder.connect([leaf, spine], 1, uplink_rate, latency),
                )?;
            }
        }
        Ok(builder.build())
    }

    fn direct(&self, file: Direct) -> Result<Fabric, InputError> {
        let rate = self.0.rate(&file.link_gbps)?;
        let latency = self.latency(file.latency_us.as_ref())?;
        let hosts = self.count(&file.hosts)?;
        if hosts < 2 {
            let problem = "a direct fabric needs at least two hosts";
            return Err(self.0.error(file.hosts.span(), problem));
        }
        let pairs = match (file.strides, file.links) {
            (Some(strides), None) => self.circulant(hosts, &strides)?,
            (None, Some(links)) => {
                let links = links.into_iter().map(|link| self.0.pair(link));
                links.collect::<Result<_, _>>()?
            }
            _ => {
                let problem = "a direct fabric has either `strides` or `links`";
                return Err(self.0.error(file.hosts.span(), problem));
            }
        };
        let mut builder = FabricBuilder::new();
        let ids = self.numbered(&mut builder, "h", Role::Relay, hosts, &file.hosts)?;
        for pair in &pairs {
            let ends = self.host_pair(&ids, pair)?;
            self.fit(pair, builder.connect(ends, 1, rate, latency))?;
        }
        Ok(builder.build())
    }

    /// Adds the links i - i+stride (modulo `hosts`) of every stride, each once.
    fn circulant(
        &self,
        hosts: u64,
        strides: &Spanned<Vec<Spanned<i64>>>,
    ) -> Result<Vec<Spanned<[i64; 2]>>, InputError> {
        let links = hosts * strides.get_ref().len() as u64;
        self.affordable([links, self.1.links], "links", strides)?;
        let (hosts, mut seen, mut pairs) = (hosts as i64, BTreeSet::new(), Vec::new());
        if strides.get_ref().is_empty() {
            return Err(self.0.error(strides.span(), "name at least one stride"));
        }
        for stride in strides.get_ref() {
            let step = *stride.get_ref();
            if !(1..hosts).contains(&step) {
                let problem = format!("stride {step} is not between 1 and {}", hosts - 1);
                return Err(self.0.error(stride.span(), problem));
            }
            if !seen.insert(step.min(hosts - step)) {
                let problem = format!("stride {step} repeats the links of stride {}", hosts - step);
                return Err(self.0.error(stride.span(), problem));
            }
            // Half-way round, i and i+step name the same link twice.
            let starts = if step * 2 == hosts { step } else { hosts };
            let link = |i| Spanned::new(stride.span(), [i, (i + step) % hosts]);
            pairs.extend((0..starts).map(link));
        }
        Ok(pairs)
    }

    fn host_pair(
        &self,
        ids: &[NodeId],
        pair: &Spanned<[i64; 2]>,
    ) -> Result<[NodeId; 2], InputError> {
        let host = |index: i64| {
            let id = usize::try_from(index)
                .ok()
                .and_then(|index| ids.get(index))
                .copied();
            id.ok_or_else(|| self.0.error(pair.span(), format!("no host h{index}")))
        };
        let [a, b] = *pair.get_ref();
        Ok([host(a)?, host(b)?])
    }

    fn graph(&self, file: &Graph) -> Result<Fabric, InputError> {
        let mut builder = FabricBuilder::new();
        for node in &file.node {
            let added = builder.add_node(node.name.get_ref(), node.role);
            let id = self.fit(&node.name, added)?;
            if let Some(address) = &node.address {
                self.add_address(&mut builder, id, address)?;
            }
        }
        let mut links = 0;
        for link in &file.link {
            let ends = [self.node(&builder, &link.a)?, self.node(&builder, &link.b)?];
            let latency = self.latency(link.latency_us.as_ref())?;
            let count = link
                .count
                .as_ref()
                .map_or(Ok(1), |count| self.count(count))?;
            links += count;
            self.affordable([links, self.1.links], "links", &link.a)?;
            let rate = self.0.rate(&link.gbps)?;
            self.fit(&link.a, builder.connect(ends, count as u32, rate, latency))?;
        }
        self.add_nics(&mut builder, &file.nic, links)?;
        self.add_optics(&mut builder, &file.optical, &file.fibre)?;
        let fabric = builder.build();
        self.rails_lead_somewhere(&fabric, &file.nic)?;
        Ok(fabric)
    }

    fn node(&self, builder: &FabricBuilder, name: &Spanned<String>) -> Result<NodeId, InputError> {
        let problem = || format!("no node named {:?}", name.get_ref());
        let node = builder.find(name.get_ref());
        node.ok_or_else(|| self.0.error(name.span(), problem()))
    }

    /// Adds `prefix`0, `prefix`1, ...; `at` is the value that asked for this many.
    fn numbered<V>(
        &self,
        builder: &mut FabricBuilder,
        prefix: &str,
        role: Role,
        count: u64,
        at: &Spanned<V>,
    ) -> Result<Vec<NodeId>, InputError> {
        self.affordable([count, self.1.nodes], "nodes", at)?;
        let add = |index| self.fit(at, builder.add_node(&format!("{prefix}{index}"), role));
        (0..count).map(add).collect()
    }

    /// Refuses sizes that must be a typing error, before anything is built; `at` is the value with the size.
    fn affordable<V>(
        &self,
        [count, most]: [u64; 2],
        what: &str,
        at: &Spanned<V>,
    ) -> Result<(), InputError> {
        let problem = || format!("{count} {what} are more than {most}");
        let fits = (count <= most).then_some(());
        fits.ok_or_else(|| self.0.error(at.span(), problem()))
    }

    fn count(&self, value: &Spanned<i64>) -> Result<u64, InputError> {
        self.0
            .whole(value, 1..=MaxSize::UNTRUSTED_LIMIT.nodes.cast_signed())
    }

    fn latency(&self, micros: Option<&Spanned<f64>>) -> Result<Duration, InputError> {
        let time = |micros| self.0.time(micros, Duration::from_micros(1), MAX_LATENCY);
        micros.map_or(Ok(Duration::ZERO), time)
    }

    /// Adds the place in the file to a wiring error.
    fn fit<T, V>(&self, at: &Spanned<V>, result: Result<T, WiringError>) -> Result<T, InputError> {
        result.map_err(|error| self.0.error(at.span(), error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LinkId;
    use crate::units::Rate;

    fn fabric(text: &str) -> Fabric {
        Fabric::parse("fabric.toml", text).unwrap()
    }

    fn error(text: &str) -> String {
        Fabric::parse("fabric.toml", text).unwrap_err().to_string()
    }

    fn size(fabric: &Fabric) -> (usize, usize) {
        (fabric.nodes().len(), fabric.links().len())
    }

    #[test]
    fn fabric_above_given_size_is_refused() {
        let refused = |nodes, links| {
            let max = MaxSize { nodes, links };
            let fabric = Fabric::parse_within("f.toml", LEAF_SPINE, max);
            fabric
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert!(refused(7, 6).contains("8 nodes are more than 7"));
        assert!(refused(8, 5).contains("6 links are more than 5"));
        assert_eq!(refused(8, 6), "");
    }

    const LEAF_SPINE: &str = r#"
        kind = "leaf-spine"
        leaves = 2
        spines = 3
        hosts_per_leaf = 4
        host_gbps = 0.4
        uplink_gbps = 0.2
        latency_us = 2.5
    "#;

    #[test]
    fn every_form_gives_its_graph() {
        assert_eq!(
            size(&fabric("kind = \"ideal\"\nhosts = 5\nnic_gbps = 100")),
            (6, 5)
        );
        assert_eq!(size(&fabric(LEAF_SPINE)), (8 + 2 + 3, 8 + 6));
        let rings = "kind = \"direct\"\nhosts = 12\nlink_gbps = 25\nstrides = [1, 5]";
        assert_eq!(size(&fabric(rings)), (12, 24));
        let half = "kind = \"direct\"\nhosts = 4\nlink_gbps = 25\nstrides = [2]";
        assert_eq!(size(&fabric(half)), (4, 2));
        let graph = r#"
            kind = "graph"
            node = [{ name = "a", role = "relay" }, { name = "b", role = "switch" }]
            link = [{ a = "a", b = "b", gbps = 1, count = 2 }]
        "#;
        let graph = fabric(graph);
        let second = LinkId::from_index(1);
        assert_eq!(graph.link_name(second), "a-b.1");
        let found = ["a-b.1", "b-a.1", "b-a.2"].map(|name| graph.find_link(name));
        assert_eq!(found, [Some(second), Some(second), None]);
        assert!(graph.links().all(|(link, _)| graph.is_parallel(link)));
        assert!(!fabric(half).is_parallel(LinkId::from_index(1)));
        assert_eq!(graph.link(LinkId::from_index(1)).b.index, 1);
    }

    #[test]
    fn hosts_are_named_leaf_by_leaf() {
        let fabric = fabric(LEAF_SPINE);
        let leaf_of = |name| {
            let host = fabric.find(name).unwrap();
            fabric.name(fabric.link(fabric.links_of(host)[0]).far(host).node)
        };
        assert_eq!(
            ["h0", "h3", "h4", "h7"].map(leaf_of),
            ["leaf0", "leaf0", "leaf1", "leaf1"]
        );
        let uplink = fabric.links().last().unwrap().1;
        assert_eq!(uplink.rate, Rate::from_bits_per_s(200_000_000));
        assert_eq!(uplink.latency, Duration::from_nanos(2500));
    }

    #[test]
    fn errors_name_their_place() {
        let replaced = |from, to| error(&LEAF_SPINE.replace(from, to));
        let said = replaced("spines = 3", "spines = 0");
        assert_eq!(
            said,
            "fabric.toml:4: spines: 0 is not between 1 and 1048576"
        );
        let said = replaced("0.2", "-0.2");
        assert_eq!(
            said,
            "fabric.toml:7: uplink_gbps: -0.2 Gb/s is not a rate a link can have: 0.000001 to 1000000"
        );
        let said = replaced("leaves", "leafs");
        assert!(
            said.starts_with("fabric.toml:3: leafs: this key is unknown"),
            "{said}"
        );
        let said = replaced("leaf-spine", "torus");
        assert!(
            said.starts_with("fabric.toml:2: kind: \"torus\" is not a kind"),
            "{said}"
        );
        let said = replaced("hosts_per_leaf = 4", "hosts_per_leaf = 1000000");
        assert!(
            said.contains(":5: hosts_per_leaf: 2000000 nodes are more"),
            "{said}"
        );
        let said = replaced("2.5", "-1.0");
        assert!(said.contains(":8: latency_us: -1 is not a time"), "{said}");
        assert!(error("hosts = 3").starts_with("fabric.toml:1: kind: this key is missing"));
    }

    #[test]
    fn invalid_links_are_refused() {
        let direct = |rest: &str| {
            error(&format!(
                "kind = \"direct\"\nhosts = 12\nlink_gbps = 25\n{rest}"
            ))
        };
        let said = direct("strides = [1, 5, 7]");
        assert_eq!(
            said,
            "fabric.toml:4: strides: stride 7 repeats the links of stride 5"
        );
        assert!(direct("strides = [12]").contains("stride 12 is not between 1 and 11"));
        assert!(
            direct("links = [[0, 1],\n [1, 0]]").starts_with("fabric.toml:5: links: \"h1\" and")
        );
        assert!(direct("links = [[0, 12]]").contains("no host h12"));
        assert!(direct("links = [[3, 3]]").contains("\"h3\" is linked to itself"));
        assert!(direct("").contains("either `strides` or `links`"));
        let surplus = direct("links = [[0, 1],\n [0, 1, 2]]");
        assert_eq!(
            surplus,
            "fabric.toml:5: links: a pair has two elements, this has 3"
        );
        let alone = error("kind = \"direct\"\nhosts = 1\nlink_gbps = 25\nstrides = [1]");
        assert_eq!(
            alone,
            "fabric.toml:2: hosts: a direct fabric needs at least two hosts"
        );
    }

    #[test]
    fn too_many_links_are_refused() {
        let spines = LEAF_SPINE.replace("spines = 3", "spines = 1000000");
        let leaves = spines.replace("leaves = 2", "leaves = 100000");
        let said = error(&leaves);
        let expected = "fabric.toml:4: spines: 100000000000 links are more than 4194304";
        assert_eq!(said, expected);
        let said =
            error("kind = \"direct\"\nhosts = 1000000\nlink_gbps = 1\nstrides = [1, 2, 3, 4, 5]");
        assert!(
            said.starts_with("fabric.toml:4: strides: 5000000 links"),
            "{said}"
        );
    }

    #[test]
    fn invalid_node_names_are_refused() {
        let graph = |name: &str, end: &str| {
            error(&format!(
                "kind = \"graph\"\n[[node]]\nname = \"a\"\nrole = \"host\"\n\
                 [[node]]\nname = \"{name}\"\nrole = \"switch\"\n\
                 [[link]]\na = \"a\"\nb = \"{end}\"\ngbps = 1\n"
            ))
        };
        assert!(graph("a", "a").contains(":6: name: there are two nodes named \"a\""));
        assert!(graph("../b", "a").contains(":6: name: \"../b\" is not a valid name for a node"));
        assert!(graph("localhost", "a").contains(":6: name: \"localhost\" is ambiguous"));
        assert!(graph("b", "c").contains(":10: b: no node named \"c\""));
    }
}
