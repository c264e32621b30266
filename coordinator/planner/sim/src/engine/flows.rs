//! Flows between the hosts of a fabric, as people list them: a table in text.
//!
//! ```text
//! src,dst,bytes,start_us,after,path,sport,dport,proto
//! h0,h5,1000000,0,,,,,
//! h5,h0,1000000,2.5,0,h5>leaf1>spine0>leaf0>h0,,,
//! ```
//!
//! The first line names the columns; those from `after` on may be left out. `after` holds the flows
//! that this one waits for, counted from 0 and separated by blanks; `start_us` counts from the end
//! of the last of them. Without a path, the switches choose by their hash. Rows without ports are
//! connections of their own.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::input::InputError;
use reweave_repair::columns::{CsvColumns, CsvRow};
use reweave_repair::paths::ecmp::{Ecmp, Fields, Label};
use reweave_repair::paths::flow_row::{ends, fields, node};

use super::network::{Compass, Network, NetworkPath};
use super::{LinkIndex, PathIndex, Problem, SimError, SimTime, TaskIndex, waits};

const KNOWN_COLUMNS: [&str; 9] = [
    "src", "dst", "bytes", "start_us", "after", "path", "sport", "dport", "proto",
];
const REQUIRED_COLUMNS: [&str; 4] = ["src", "dst", "bytes", "start_us"];

/// Flows on a network, ready to be simulated.
#[derive(Debug)]
pub struct Flows {
    pub problem: Problem,
    /// Delay of each flow before its first bit is on the links.
    pub delays: Vec<SimTime>,
    pub listed: Vec<Listed>,
}

/// A row of the table.
#[derive(Debug, Clone)]
pub struct Listed {
    pub ends: [NodeId; 2],
    pub bytes: f64,
    /// Counted from the end of the last task that it waits for.
    pub start: SimTime,
    pub after: Vec<TaskIndex>,
    /// Nodes between the ends, if the table has them.
    pub along: Option<Vec<NodeId>>,
    pub fields: Fields,
}

impl Flows {
    /// Returns the time of each flow from its release to its last bit.
    pub fn completion_times(&self, outcome: &super::Outcome) -> Vec<SimTime> {
        let times = outcome.starts.iter().zip(&outcome.finishes);
        let times = times.zip(&self.delays);
        times
            .map(|((start, finish), delay)| SimTime(finish.since(*start).0 + delay.0))
            .collect()
    }
}

/// Reads flows; `file` is the name that errors call it by.
pub fn parse(
    file: &str,
    text: &str,
    fabric: &Fabric,
    network: &Network,
    ecmp: &Ecmp,
) -> Result<Flows, InputError> {
    let columns = CsvColumns::parse(file, text, &KNOWN_COLUMNS, &REQUIRED_COLUMNS)?;
    let problem = network
        .problem()
        .map_err(|error| columns.error(1, "", error.to_string()))?;
    let mut reader = Reader {
        fabric,
        network,
        ecmp,
        flows: Flows {
            problem,
            delays: Vec::new(),
            listed: Vec::new(),
        },
        lines: Vec::new(),
        compass: Compass::default(),
        paths: BTreeMap::new(),
    };
    for row in columns.rows(text) {
        reader.add(&row?)?;
    }
    for row in columns.rows(text).enumerate() {
        reader.add_waits(row.0 as u32, &row.1?)?;
    }
    reader.refuse_circles(&columns)?;
    Ok(reader.flows)
}

struct Reader<'a> {
    fabric: &'a Fabric,
    network: &'a Network,
    ecmp: &'a Ecmp,
    flows: Flows,
    /// Line of each flow.
    lines: Vec<usize>,
    compass: Compass,
    paths: BTreeMap<Vec<LinkIndex>, PathIndex>,
}

impl Reader<'_> {
    fn add(&mut self, row: &CsvRow<'_>) -> Result<(), InputError> {
        let [from, to] = ends(self.fabric, row)?;
        let bytes: f64 = row.require("bytes")?;
        let start_us: f64 = row.require("start_us")?;
        let problem = || format!("{start_us:?} us is not a delay: 0 us to 51 hours");
        let start =
            SimTime::from_micros(start_us).ok_or_else(|| row.error("start_us", problem()))?;
        let fields = fields(row, [from, to], self.lines.len())?;
        let along = if from == to {
            None
        } else {
            self.given(row, [from, to])?
        };
        let way = if from == to {
            NetworkPath::default()
        } else {
            self.way(row, [from, to], along.as_deref(), self.ecmp.label(fields))?
        };
        let path = self.path_index(way.links);
        let delay = start.checked_add(way.delay).unwrap_or(SimTime::MAX);
        let task = path.and_then(|path| {
            let bits = self.network.bits(bytes);
            self.flows.problem.add_transfer(path, bits, delay)
        });
        task.map_err(|problem| row.error("bytes", problem.to_string()))?;
        self.flows.delays.push(way.delay);
        self.flows.listed.push(Listed {
            ends: [from, to],
            bytes,
            start,
            after: Vec::new(),
            along,
            fields,
        });
        self.lines.push(row.line);
        Ok(())
    }

    fn path_index(&mut self, links: Vec<LinkIndex>) -> Result<PathIndex, super::ProblemError> {
        if let Some(&path) = self.paths.get(&links) {
            return Ok(path);
        }
        let path = self.flows.problem.add_path(&links)?;
        self.paths.insert(links, path);
        Ok(path)
    }

    fn way(
        &mut self,
        row: &CsvRow<'_>,
        [from, to]: [NodeId; 2],
        along: Option<&[NodeId]>,
        label: Label,
    ) -> Result<NetworkPath, InputError> {
        let network = self.network;
        if let Some(nodes) = along {
            let way = network.along(nodes, self.ecmp, label);
            let problem = "two nodes that follow each other are not linked";
            return way.ok_or_else(|| row.error("path", problem));
        }
        let towards = self.compass.towards(network, to);
        let way = network.way(from, &towards, self.ecmp, label);
        way.ok_or_else(|| {
            let [from, to] = [from, to].map(|node| self.fabric.name(node));
            row.error("dst", format!("no path from {from} to {to}"))
        })
    }

    fn given(
        &self,
        row: &CsvRow<'_>,
        ends: [NodeId; 2],
    ) -> Result<Option<Vec<NodeId>>, InputError> {
        let Some(nodes) = row.optional("path") else {
            return Ok(None);
        };
        let names = nodes.split('>').map(str::trim);
        let nodes = names.map(|name| node(self.fabric, row, "path", name));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        if [nodes[0], nodes[nodes.len() - 1]] == ends {
            Ok(Some(nodes))
        } else {
            Err(row.error("path", "it does not lead from src to dst"))
        }
    }

    fn add_waits(&mut self, after: TaskIndex, row: &CsvRow<'_>) -> Result<(), InputError> {
        let list = row.optional("after").unwrap_or_default();
        for word in list.split([' ', ';']).filter(|it| !it.is_empty()) {
            let before = word.parse();
            let before =
                before.map_err(|_| row.error("after", format!("{word:?} is not a flow")))?;
            let added = self.flows.problem.add_wait(before, after);
            added.map_err(|problem| row.error("after", problem.to_string()))?;
            self.flows.listed[after as usize].after.push(before);
        }
        Ok(())
    }

    fn refuse_circles(&self, columns: &CsvColumns<'_>) -> Result<(), InputError> {
        let Some(circle) = waits::circle(&self.flows.problem) else {
            return Ok(());
        };
        let line = self.lines[circle[0] as usize];
        let problem = SimError::Cycle { tasks: circle }.to_string();
        Err(columns.error(line, "after", problem))
    }
}
