//! Flow tables with paths: the table that the simulator reads, with three more columns.
//!
//! ```text
//! src,dst,bytes,start_us,path,sport,dport,proto,end_us,job,move
//! h0,h5,1000000,0,h0>leaf0>spine1>leaf1>h5,7400,4791,udp,2000,train,pin
//! ```
//!
//! If switches hash addresses by a known function, `src_ip` and `dst_ip` are the addresses.
//!
//! `end_us` is the end of the flow, if there is one; `job` is its job; `move` says how it can be moved: by a `pin` at
//! switches (the default), by another source `port`, or `never`. In a path, `*` stands for a hop that did not answer. A
//! flow with an unknown path is not counted, and is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::input::InputError;
use reweave_common::snapshot::Hop;

use super::ecmp::{Ecmp, Fields};
use super::{Atlas, Destination, flow_row};
use crate::columns::{CsvColumns, CsvRow};

const KNOWN_COLUMNS: [&str; 14] = [
    "src", "dst", "bytes", "start_us", "after", "path", "sport", "dport", "proto", "end_us", "job",
    "move", "src_ip", "dst_ip",
];
const REQUIRED_COLUMNS: [&str; 3] = ["src", "dst", "bytes"];
const ADDRESS_COLUMNS: [&str; 2] = ["src_ip", "dst_ip"];
/// More bytes than any flow has, or all of a table: more could not be added up.
const MAX_TABLE_BYTES: f64 = 1e18;
const UNKNOWN_NODE: &str = "*";

/// A flow with a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Index in the table, from 0.
    pub id: usize,
    pub ends: [NodeId; 2],
    /// The link of the NIC to which it is addressed, if that is known.
    pub nic: Option<LinkId>,
    pub fields: Fields,
    pub bytes: u64,
    pub path: Vec<Hop>,
    /// Whether the path was traced, and not predicted.
    pub traced: bool,
    pub job: Option<String>,
    pub movable: Movable,
    /// When it starts and when it ends, if it does.
    pub during_us: [Option<f64>; 2],
}

impl Listed {
    pub fn destination(&self) -> Destination {
        let [_, node] = self.ends;
        Destination {
            node,
            nic: self.nic,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Movable {
    #[default]
    Pin,
    Port,
    Never,
}

/// Reason why a flow is left out, or its path may be wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Doubt {
    UnknownHop {
        flow: usize,
        after: String,
    },
    NoWay {
        flow: usize,
        from: String,
        to: String,
    },
    NotLinked {
        flow: usize,
        nodes: [String; 2],
    },
    /// The path visits a node twice, or leads through a host.
    NoRoute {
        flow: usize,
        by: String,
    },
    /// The same five fields were traced over different paths.
    Contradiction {
        flows: Vec<usize>,
    },
    /// The hash predicts other paths than were traced.
    OtherHash {
        traced: usize,
        otherwise: usize,
    },
}

#[derive(Debug, Default)]
pub struct Table {
    pub flows: Vec<Listed>,
    pub doubts: Vec<Doubt>,
}

/// Parses flows; `file` is the name in error messages. Missing paths are predicted by the hash.
pub fn parse(
    file: &str,
    text: &str,
    atlas: &mut Atlas<'_>,
    ecmp: &Ecmp,
) -> Result<Table, InputError> {
    let addresses = ecmp.hashes_addresses().then_some(ADDRESS_COLUMNS);
    let required = [&REQUIRED_COLUMNS[..], addresses.as_slice().as_flattened()].concat();
    let columns = CsvColumns::parse(file, text, &KNOWN_COLUMNS, &required)?;
    let mut reader = Reader {
        atlas,
        ecmp,
        table: Table::default(),
        rows: 0,
        bytes: 0,
    };
    for row in columns.rows(text) {
        reader.add(&row?)?;
    }
    let mut table = reader.table;
    table.leave_out_contradictions();
    table.follow_traces();
    table.predict_cables(atlas.fabric);
    table.doubt_hash(atlas, ecmp);
    Ok(table)
}

struct Reader<'a, 'f> {
    atlas: &'a mut Atlas<'f>,
    ecmp: &'a Ecmp,
    table: Table,
    rows: usize,
    /// Bytes of all flows so far.
    bytes: u64,
}

impl Reader<'_, '_> {
    fn add(&mut self, row: &CsvRow<'_>) -> Result<(), InputError> {
        let id = self.rows;
        self.rows += 1;
        let ends = flow_row::ends(self.atlas.fabric, row)?;
        if ends[0] == ends[1] {
            return Err(row.error(
                "dst",
                "it is src: what a host sends to itself crosses nothing",
            ));
        }
        if self.ecmp.hashes_addresses() {
            ADDRESS_COLUMNS
                .iter()
                .try_for_each(|name| row.text(name).map(drop))?;
        }
        let flow = Listed {
            id,
            ends,
            // A table names hosts.
            nic: None,
            fields: flow_row::fields(row, ends, id)?,
            bytes: bytes(row)?,
            path: Vec::new(),
            traced: row.optional("path").is_some(),
            job: row.optional("job").map(str::to_owned),
            movable: movable(row)?,
            during_us: during_us(row)?,
        };
        self.bytes += flow.bytes;
        if self.bytes as f64 > MAX_TABLE_BYTES {
            let problem =
                format!("with it the flows have more than {MAX_TABLE_BYTES:e} bytes together");
            return Err(row.error("bytes", problem));
        }
        match self.path(row, &flow)? {
            Ok(path) => self.table.flows.push(Listed { path, ..flow }),
            Err(doubt) => self.table.doubts.push(doubt),
        }
        Ok(())
    }

    fn path(
        &mut self,
        row: &CsvRow<'_>,
        flow: &Listed,
    ) -> Result<Result<Vec<Hop>, Doubt>, InputError> {
        if let Some(names) = row.optional("path") {
            return self.traced(row, names, flow);
        }
        let hashed = self
            .atlas
            .hashed(flow.ends, self.ecmp, self.ecmp.label(flow.fields));
        let [from, to] = flow
            .ends
            .map(|node| self.atlas.fabric.name(node).to_owned());
        let flow = flow.id;
        Ok(hashed.ok_or(Doubt::NoWay { flow, from, to }))
    }

    fn traced(
        &self,
        row: &CsvRow<'_>,
        names: &str,
        flow: &Listed,
    ) -> Result<Result<Vec<Hop>, Doubt>, InputError> {
        let names: Vec<_> = names.split('>').map(str::trim).collect();
        if let Some(place) = names.iter().position(|&name| name == UNKNOWN_NODE) {
            let after = names[..place].last().unwrap_or(&"src").to_string();
            return Ok(Err(Doubt::UnknownHop {
                flow: flow.id,
                after,
            }));
        }
        let fabric = self.atlas.fabric;
        let node = |name: &&str| {
            let missing = || row.error("path", format!("the fabric has no node named {name:?}"));
            fabric.find(name).ok_or_else(missing)
        };
        let nodes = names.iter().map(node).collect::<Result<Vec<_>, _>>()?;
        if [nodes[0], nodes[nodes.len() - 1]] != flow.ends {
            return Err(row.error("path", "it does not lead from src to dst"));
        }
        if let Some(by) = no_route(fabric, &nodes) {
            let by = fabric.name(by).to_owned();
            return Ok(Err(Doubt::NoRoute { flow: flow.id, by }));
        }
        let label = self.ecmp.label(flow.fields);
        Ok(nodes
            .windows(2)
            .map(|pair| {
                self.step(pair, flow.id, |at, links| {
                    self.ecmp.choose(at.index() as u32, label, links)
                })
            })
            .collect())
    }

    /// Between neighbours with parallel links, hashing picks one.
    fn step(
        &self,
        pair: &[NodeId],
        flow: usize,
        choose: impl Fn(NodeId, usize) -> usize,
    ) -> Result<Hop, Doubt> {
        let fabric = self.atlas.fabric;
        let parallel: Vec<_> = fabric.links_between(pair[0], pair[1]).collect();
        let link = parallel.get(choose(pair[0], parallel.len()));
        let nodes = || [pair[0], pair[1]].map(|node| fabric.name(node).to_owned());
        let link = link.ok_or_else(|| Doubt::NotLinked {
            flow,
            nodes: nodes(),
        })?;
        Ok(Hop {
            from: pair[0],
            link: *link,
        })
    }
}

/// Returns the first node that makes the path impossible: a repeated node, or a host on the path.
fn no_route(fabric: &Fabric, nodes: &[NodeId]) -> Option<NodeId> {
    let mut inner = nodes.iter().enumerate().skip(1);
    let strange = |&(place, node): &(usize, &NodeId)| {
        let passes = place + 1 < nodes.len();
        nodes[..place].contains(node) || passes && !fabric.node(*node).role.forwards()
    };
    inner.find(strange).map(|(_, node)| *node)
}

fn during_us(row: &CsvRow<'_>) -> Result<[Option<f64>; 2], InputError> {
    let during: [Option<f64>; 2] = [moment_us(row, "start_us")?, moment_us(row, "end_us")?];
    if during[1].is_some_and(|end| end < during[0].unwrap_or(0.0)) {
        Err(row.error("end_us", "it ends before it starts"))
    } else {
        Ok(during)
    }
}

fn moment_us(row: &CsvRow<'_>, key: &str) -> Result<Option<f64>, InputError> {
    let moment: Option<f64> = row.parsed(key)?;
    match moment.filter(|us| !(us.is_finite() && *us >= 0.0)) {
        Some(us) => Err(row.error(key, format!("{us:?} is not a time"))),
        None => Ok(moment),
    }
}

fn bytes(row: &CsvRow<'_>) -> Result<u64, InputError> {
    let bytes: f64 = row.require("bytes")?;
    if (0.0..MAX_TABLE_BYTES).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(row.error("bytes", format!("{bytes:?} is not a flow size")))
    }
}

fn movable(row: &CsvRow<'_>) -> Result<Movable, InputError> {
    match row.optional("move") {
        None | Some("pin") => Ok(Movable::Pin),
        Some("port") => Ok(Movable::Port),
        Some("never") => Ok(Movable::Never),
        Some(other) => Err(row.error(
            "move",
            format!("it is pin, port or never, and not {other:?}"),
        )),
    }
}

impl Table {
    fn leave_out_contradictions(&mut self) {
        let mut by_fields: BTreeMap<Fields, Vec<&Listed>> = BTreeMap::new();
        for flow in &self.flows {
            by_fields.entry(flow.fields).or_default().push(flow);
        }
        let differ = |same: &Vec<&Listed>| {
            let mut paths = same.iter().filter(|it| it.traced).map(|it| &it.path);
            let first = paths.next();
            paths.any(|path| Some(path) != first)
        };
        let contradicting = by_fields.into_values().filter(differ);
        let ids = contradicting.map(|same| same.iter().map(|it| it.id).collect());
        let contradicting: Vec<Vec<usize>> = ids.collect();
        let out: BTreeSet<_> = contradicting.iter().flatten().copied().collect();
        let doubts = contradicting.into_iter();
        let doubts = doubts.map(|flows| Doubt::Contradiction { flows });
        self.doubts.extend(doubts);
        self.flows.retain(|flow| !out.contains(&flow.id));
    }

    /// Uses traced paths of packets with the same fields instead of predictions.
    fn follow_traces(&mut self) {
        let traced = self.flows.iter().filter(|flow| flow.traced);
        let known = traced.map(|flow| (flow.fields, flow.path.clone()));
        let known: BTreeMap<_, _> = known.collect();
        for flow in self.flows.iter_mut().filter(|flow| !flow.traced) {
            if let Some(path) = known.get(&flow.fields) {
                (flow.path, flow.traced) = (path.clone(), true);
            }
        }
    }

    /// The traced flows show how good the prediction is for untraced ones.
    fn doubt_hash(&mut self, atlas: &mut Atlas<'_>, ecmp: &Ecmp) {
        let (traced, predicted): (Vec<_>, Vec<_>) = self.flows.iter().partition(|it| it.traced);
        let otherwise = traced.iter().filter(|flow| {
            let hashed = atlas.hashed(flow.ends, ecmp, ecmp.label(flow.fields));
            hashed.is_none_or(|hashed| hashed != flow.path)
        });
        let otherwise = otherwise.count();
        if otherwise > 0 && !predicted.is_empty() {
            let traced = traced.len();
            self.doubts.push(Doubt::OtherHash { traced, otherwise });
        }
    }

    /// A path says which nodes a flow passes, and not by which of parallel links: so far hashing predicts it.
    fn predict_cables(&mut self, fabric: &Fabric) {
        for flow in &mut self.flows {
            let mut hops = flow.path.iter();
            flow.traced &= !hops.any(|hop| fabric.is_parallel(hop.link));
        }
    }
}

/// Formats a list such as `0, 1 and 2`.
fn listing(flows: &[usize]) -> String {
    let flows: Vec<_> = flows.iter().map(usize::to_string).collect();
    match flows.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => flows.concat(),
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownHop { flow, after } => {
                write!(
                    f,
                    "flow {flow} is left out: the hop after {after} did not answer"
                )
            }
            Self::NoWay { flow, from, to } => {
                write!(f, "flow {flow} is left out: no path from {from} to {to}")
            }
            Self::NotLinked { flow, nodes } => write!(
                f,
                "flow {flow} is left out: it was traced from {} to {}, which are not linked",
                nodes[0], nodes[1]
            ),
            Self::NoRoute { flow, by } => {
                write!(
                    f,
                    "flow {flow} is left out: it was traced twice by {by}, or through it, and no route leads there"
                )
            }
            Self::Contradiction { flows } => write!(
                f,
                "flows {} are left out: they have the same fields and were traced over different \
                 paths",
                listing(flows)
            ),
            Self::OtherHash { traced, otherwise } => write!(
                f,
                "{otherwise} of {traced} traced flows take another path than the hash predicts; \
                 untraced flows may do so too"
            ),
        }
    }
}
