//! Task graphs of FlexFlow, as TopoOpt's search writes them: one iteration, and the network that it
//! was made for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::explicit_paths::{ExplicitPaths, GroupRing, NodePath};
use reweave_common::fabric::{Fabric, FabricBuilder, Role, WiringError};
use reweave_common::ids::{NodeId, Rank};
use reweave_common::iteration::{
    Iteration, IterationBuilder, IterationError, NameId, Operation, TaskId, TaskWork,
};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Rate};
use thiserror::Error;

use super::flatbuf::{Buffer, FlatbufError, Table};

#[derive(Debug, Clone, PartialEq, Error)]
pub enum TaskGraphError {
    #[error("not a task graph")]
    Malformed(#[from] FlatbufError),
    #[error("not a task graph: {nodes} nodes with {gpus_per_node} GPUs each")]
    BadSize { nodes: u32, gpus_per_node: u32 },
    #[error("the network's bandwidth of {bytes_per_ms} bytes per ms is not a rate a link can have")]
    BadBandwidth { bytes_per_ms: f32 },
    #[error("two {what}s have the id {id}")]
    Duplicate { what: &'static str, id: u64 },
    #[error("task {id} is of the type {kind}, which is unknown")]
    UnknownTaskType { id: u64, kind: i16 },
    #[error("task {id} runs on device {device}, which does not exist")]
    UnknownDevice { id: u64, device: u64 },
    #[error("task {id} of the type {kind} cannot run on a device of the type {device_kind}")]
    UnfitDevice {
        id: u64,
        kind: i16,
        device_kind: i16,
    },
    #[error("task {id} is followed by task {next}, which does not exist")]
    UnknownTask { id: u64, next: u64 },
    #[error("task {id} takes {runtime_ms} ms, which is not a time")]
    BadRuntime { id: u64, runtime_ms: f32 },
    #[error("{what} names node {node}, and there are {nodes}")]
    UnknownNode {
        what: &'static str,
        node: u64,
        nodes: usize,
    },
    #[error("{a} and {b} are joined by {there} links in one direction and {back} in the other")]
    Unequal {
        a: u32,
        b: u32,
        there: u32,
        back: u32,
    },
    #[error("a ring of {size} members does not meet each of them once")]
    BadRing { size: usize },
    #[error("the rings have more than {MAX_RING_HOPS} hops")]
    LongRings,
    #[error("a path from {from} to {to} does not lead there, or has no weight")]
    BadWay { from: u32, to: u32 },
    #[error("the network cannot be built")]
    Wiring(#[from] WiringError),
    #[error(transparent)]
    Iteration(#[from] IterationError),
}

/// More nodes than this is no cluster that was simulated.
const MAX_NODES: u32 = 1 << 16;
const MAX_GPUS_PER_NODE: u32 = 64;
/// More links than this between two nodes is no cable tray.
const MAX_PARALLEL_LINKS: u32 = 1 << 10;
const MAX_RUNTIME_MS: f32 = 1e8;
/// A ring is written once for all groups of its size, and is drawn here for each.
const MAX_RING_HOPS: usize = 1 << 22;

/// The places of fields in their tables, in the order in which the format declares them.
mod field {
    pub(super) mod graph {
        pub(crate) const GPUS_PER_NODE: usize = 0;
        pub(crate) const NODES: usize = 1;
        pub(crate) const SWITCHES: usize = 2;
        pub(crate) const NETWORK_BANDWIDTH: usize = 5;
        pub(crate) const CONNECTIONS: usize = 6;
        pub(crate) const TASKS: usize = 8;
        pub(crate) const DEVICES: usize = 9;
        pub(crate) const ROUTES: usize = 10;
        pub(crate) const RINGS: usize = 11;
    }
    pub(super) mod task {
        pub(crate) const KIND: usize = 0;
        pub(crate) const ID: usize = 1;
        pub(crate) const DEVICE: usize = 2;
        pub(crate) const RUNTIME_MS: usize = 3;
        pub(crate) const BYTES: usize = 4;
        pub(crate) const NEXT: usize = 5;
    }
    pub(super) mod device {
        pub(crate) const KIND: usize = 0;
        pub(crate) const ID: usize = 1;
        pub(crate) const NODE: usize = 2;
        pub(crate) const PROPERTY: usize = 3;
    }
}

/// An iteration, and the network that its writer had in mind.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskGraph {
    pub iteration: Iteration,
    /// On which node each rank runs.
    pub placement: Vec<NodeId>,
    pub carriage: ExplicitPaths,
    /// What each link of the network carries, as the writer had it.
    pub link_rate: Rate,
    nodes: usize,
    switches: usize,
    /// Unordered pairs, and how many links join them.
    joined: BTreeMap<[u32; 2], u32>,
}

impl TaskGraph {
    pub fn decode(bytes: &[u8]) -> Result<Self, TaskGraphError> {
        let buffer = Buffer::new(bytes);
        let root = buffer.root()?;
        let size = Size::read(&root)?;
        let joined = read_joined(&root, size)?;
        let iteration = Tasks::read(&root, size)?;
        let carriage = ExplicitPaths {
            ways: read_ways(&root, size)?,
            rings: read_rings(&root, size, &iteration)?,
            ..ExplicitPaths::default()
        };
        let node = |rank: usize| NodeId::from_index(rank / size.gpus_per_node);
        Ok(Self {
            placement: (0..iteration.ranks()).map(node).collect(),
            iteration,
            carriage,
            link_rate: read_rate(&root)?,
            nodes: size.nodes,
            switches: size.switches,
            joined,
        })
    }

    /// Whether servers are wired to each other, without switches.
    pub fn is_direct(&self) -> bool {
        self.switches == 0
    }

    /// The network, with links of this rate.
    pub fn fabric(&self, rate: Rate) -> Result<Fabric, TaskGraphError> {
        let mut builder = FabricBuilder::new();
        let role = if self.is_direct() {
            Role::Relay
        } else {
            Role::Host
        };
        let hosts = (0..self.nodes).map(|host| (format!("h{host}"), role));
        let switches = (0..self.switches).map(|n| (format!("switch{n}"), Role::Switch));
        for (name, role) in hosts.chain(switches) {
            builder.add_node(&name, role)?;
        }
        for (&pair, &count) in &self.joined {
            let ends = pair.map(|node| NodeId::from_index(node as usize));
            builder.connect(ends, count, rate, Duration::ZERO)?;
        }
        Ok(builder.build())
    }
}

#[derive(Debug, Clone, Copy)]
struct Size {
    gpus_per_node: usize,
    nodes: usize,
    switches: usize,
}

impl Size {
    fn read(root: &Table<'_>) -> Result<Self, TaskGraphError> {
        use field::graph;
        let gpus_per_node: u32 = root.scalar(graph::GPUS_PER_NODE)?;
        let nodes: u32 = root.scalar(graph::NODES)?;
        let switches: u32 = root.scalar(graph::SWITCHES)?;
        let fits = (1..=MAX_NODES).contains(&nodes)
            && switches <= MAX_NODES
            && (1..=MAX_GPUS_PER_NODE).contains(&gpus_per_node);
        if !fits {
            return Err(TaskGraphError::BadSize {
                nodes,
                gpus_per_node,
            });
        }
        Ok(Self {
            gpus_per_node: gpus_per_node as usize,
            nodes: nodes as usize,
            switches: switches as usize,
        })
    }

    /// A node that may be a switch.
    fn node(self, what: &'static str, node: u64) -> Result<NodeId, TaskGraphError> {
        let nodes = self.nodes + self.switches;
        within(what, node, nodes).map(NodeId::from_index)
    }

    fn rank(self, what: &'static str, node: u64, gpu: u64) -> Result<Rank, TaskGraphError> {
        let node = within(what, node, self.nodes)?;
        let gpu = (gpu % self.gpus_per_node as u64) as usize;
        Ok(Rank::from_index(node * self.gpus_per_node + gpu))
    }
}

fn within(what: &'static str, node: u64, nodes: usize) -> Result<usize, TaskGraphError> {
    let index = usize::try_from(node).ok().filter(|&node| node < nodes);
    index.ok_or(TaskGraphError::UnknownNode { what, node, nodes })
}

fn read_rate(root: &Table<'_>) -> Result<Rate, TaskGraphError> {
    let bytes_per_ms: f32 = root.scalar(field::graph::NETWORK_BANDWIDTH)?;
    let rate = Rate::from_gbps(f64::from(bytes_per_ms) * 8e3 / 1e9);
    rate.ok_or(TaskGraphError::BadBandwidth { bytes_per_ms })
}

/// Each pair may be named from one end or from both, but then with the same number of links.
fn read_joined(root: &Table<'_>, size: Size) -> Result<BTreeMap<[u32; 2], u32>, TaskGraphError> {
    let mut directed = BTreeMap::new();
    for connection in root.tables(field::graph::CONNECTIONS)? {
        let [from, to, count]: [u32; 3] = [
            connection.scalar(0)?,
            connection.scalar(1)?,
            connection.scalar(2)?,
        ];
        size.node("a connection", from.into())?;
        size.node("a connection", to.into())?;
        let links: &mut u32 = directed.entry([from, to]).or_default();
        *links = links.saturating_add(count).min(MAX_PARALLEL_LINKS);
    }
    let mut joined = BTreeMap::new();
    for (&[a, b], &there) in directed.iter().filter(|(_, count)| **count > 0) {
        if let Some(&back) = directed.get(&[b, a]).filter(|back| **back != there) {
            return Err(TaskGraphError::Unequal { a, b, there, back });
        }
        joined.insert([a.min(b), a.max(b)], there);
    }
    Ok(joined)
}

fn read_ways(
    root: &Table<'_>,
    size: Size,
) -> Result<BTreeMap<(NodeId, NodeId), Vec<NodePath>>, TaskGraphError> {
    let mut ways: BTreeMap<_, Vec<NodePath>> = BTreeMap::new();
    for route in root.tables(field::graph::ROUTES)? {
        let [from, to]: [u32; 2] = [route.scalar(0)?, route.scalar(1)?];
        let pair = (
            size.node("a route", from.into())?,
            size.node("a route", to.into())?,
        );
        for path in route.tables(2)? {
            let way = read_way(&path, size)?;
            let leads = (way.nodes.first(), way.nodes.last()) == (Some(&pair.0), Some(&pair.1));
            if !(leads && way.weight.is_finite() && way.weight > 0.0) {
                return Err(TaskGraphError::BadWay { from, to });
            }
            ways.entry(pair).or_default().push(way);
        }
    }
    Ok(ways)
}

fn read_way(path: &Table<'_>, size: Size) -> Result<NodePath, TaskGraphError> {
    let hops: Vec<u32> = path.scalars(0)?;
    let nodes = hops.iter().map(|&hop| size.node("a route", hop.into()));
    Ok(NodePath {
        nodes: nodes.collect::<Result<_, _>>()?,
        weight: path.scalar::<f32>(1)?.into(),
    })
}

/// Rings are written per size of the group: each is a list of jumps over nodes that leads from any
/// member to the next one.
fn read_rings(
    root: &Table<'_>,
    size: Size,
    iteration: &Iteration,
) -> Result<BTreeMap<Vec<Rank>, Vec<GroupRing>>, TaskGraphError> {
    let mut jumps_by_size: BTreeMap<u64, Vec<Vec<i32>>> = BTreeMap::new();
    for rings in root.tables(field::graph::RINGS)? {
        let jumps = jumps_by_size.entry(rings.scalar(0)?).or_default();
        for ring in rings.tables(1)? {
            jumps.push(ring.scalars(0)?);
        }
    }
    let (mut rings, mut hops) = (BTreeMap::new(), 0);
    for (_, group) in iteration.groups().filter(|(_, group)| group.len() > 1) {
        let Some(jumps) = jumps_by_size.get(&(group.len() as u64)) else {
            continue;
        };
        let of_group = jumps.iter().map(|jumps| group.len() * (jumps.len() + 1));
        hops += of_group.sum::<usize>();
        if hops > MAX_RING_HOPS {
            return Err(TaskGraphError::LongRings);
        }
        let around = jumps.iter().map(|jumps| ring(size, group, jumps));
        rings.insert(group.to_vec(), around.collect::<Result<_, _>>()?);
    }
    Ok(rings)
}

fn ring(size: Size, group: &[Rank], jumps: &[i32]) -> Result<GroupRing, TaskGraphError> {
    let mut to_meet: BTreeSet<_> = group.iter().copied().collect();
    let (mut members, mut legs) = (Vec::new(), Vec::new());
    let mut at = group[0];
    while to_meet.remove(&at) {
        let leg = leg(size, at.index() / size.gpus_per_node, jumps);
        let end = leg.last().map_or(0, |node| node.index());
        members.push(at);
        legs.push(Some(leg));
        at = Rank::from_index(end * size.gpus_per_node);
    }
    let closed = to_meet.is_empty() && at == group[0];
    closed
        .then_some(GroupRing {
            members,
            legs,
            weight: 1.0,
        })
        .ok_or(TaskGraphError::BadRing { size: group.len() })
}

fn leg(size: Size, from: usize, jumps: &[i32]) -> Vec<NodeId> {
    let nodes = size.nodes as i64;
    let mut at = from as i64;
    let mut leg = vec![NodeId::from_index(from)];
    for &jump in jumps {
        at = (at + i64::from(jump)).rem_euclid(nodes);
        leg.push(NodeId::from_index(at as usize));
    }
    leg
}

/// What a task needs to know of its device.
#[derive(Debug, Clone, Copy)]
struct Device {
    kind: i16,
    node: u64,
    property: u64,
}

const GPU_KIND: i16 = 0;
/// Links inside a server, whose tasks carry their own time.
const INTRA_SERVER_KINDS: std::ops::RangeInclusive<i16> = 2..=12;
const NETWORK_KINDS: std::ops::RangeInclusive<i16> = 13..=14;

/// The tasks under construction, by the ids that the file gives them.
struct Tasks<'b> {
    size: Size,
    devices: BTreeMap<u64, Device>,
    builder: IterationBuilder,
    ids: BTreeMap<u64, TaskId>,
    arrows: Vec<(u64, TaskId, Vec<u64>)>,
    tables: Vec<Table<'b>>,
}

impl<'b> Tasks<'b> {
    fn read(root: &Table<'b>, size: Size) -> Result<Iteration, TaskGraphError> {
        let mut tasks = Self {
            size,
            devices: read_devices(root)?,
            builder: IterationBuilder::new(size.nodes * size.gpus_per_node),
            ids: BTreeMap::new(),
            arrows: Vec::new(),
            tables: root.tables(field::graph::TASKS)?,
        };
        for table in std::mem::take(&mut tasks.tables) {
            tasks.add(&table)?;
        }
        tasks.link()?;
        Ok(tasks.builder.build()?)
    }

    fn add(&mut self, table: &Table<'_>) -> Result<(), TaskGraphError> {
        use field::task;
        let (id, kind): (u64, i16) = (table.scalar(task::ID)?, table.scalar(task::KIND)?);
        let next: Vec<u64> = table.scalars(task::NEXT)?;
        let time = runtime(id, table.scalar(task::RUNTIME_MS)?)?;
        let bytes = Bytes::new(table.scalar(task::BYTES)?);
        let (name, work) = match kind {
            0 | 1 | 3 | 4 => self.computing(id, kind, table.scalar(task::DEVICE)?, time)?,
            2 | 5 => self.transfer(id, kind, table.scalar(task::DEVICE)?, time, bytes)?,
            6 => self.all_reduce(&next, bytes, time)?,
            _ => return Err(TaskGraphError::UnknownTaskType { id, kind }),
        };
        let task = self.builder.add(name, work);
        if self.ids.insert(id, task).is_some() {
            return Err(TaskGraphError::Duplicate { what: "task", id });
        }
        if kind != 6 {
            self.arrows.push((id, task, next));
        }
        Ok(())
    }

    fn device(&self, id: u64, device: u64) -> Result<Device, TaskGraphError> {
        let known = self.devices.get(&device).copied();
        known.ok_or(TaskGraphError::UnknownDevice { id, device })
    }

    fn computing(
        &mut self,
        id: u64,
        kind: i16,
        device: u64,
        time: Duration,
    ) -> Result<(NameId, TaskWork), TaskGraphError> {
        let device = self.device(id, device)?;
        if device.kind != GPU_KIND {
            return Err(unfit(id, kind, device));
        }
        let rank = self.size.rank("a device", device.node, device.property)?;
        let name = ["forward", "backward", "", "update", "barrier"][kind as usize];
        Ok((self.builder.name(name), TaskWork::Compute { rank, time }))
    }

    fn transfer(
        &mut self,
        id: u64,
        kind: i16,
        device: u64,
        time: Duration,
        bytes: Bytes,
    ) -> Result<(NameId, TaskWork), TaskGraphError> {
        let device = self.device(id, device)?;
        if INTRA_SERVER_KINDS.contains(&device.kind) {
            return Ok((self.builder.name("copy"), TaskWork::Delay { time }));
        }
        if !NETWORK_KINDS.contains(&device.kind) {
            return Err(unfit(id, kind, device));
        }
        let side = (self.size.nodes + self.size.switches) as u64;
        let end = |node| self.size.rank("a network device", node, 0);
        let (from, to) = (end(device.property / side)?, end(device.property % side)?);
        Ok((
            self.builder.name("transfer"),
            TaskWork::Transfer { from, to, bytes },
        ))
    }

    /// Here, what follows is not what follows: it is the group of nodes.
    fn all_reduce(
        &mut self,
        nodes: &[u64],
        bytes: Bytes,
        local: Duration,
    ) -> Result<(NameId, TaskWork), TaskGraphError> {
        let member = |&node| self.size.rank("an all-reduce", node, 0);
        let members: Vec<_> = nodes.iter().map(member).collect::<Result<_, _>>()?;
        let work = TaskWork::Collective {
            operation: Operation::AllReduce,
            group: self.builder.group(&members),
            bytes,
            local,
        };
        Ok((self.builder.name("all-reduce"), work))
    }

    fn link(&mut self) -> Result<(), TaskGraphError> {
        for (id, task, nexts) in std::mem::take(&mut self.arrows) {
            for next in nexts {
                let known = self.ids.get(&next).copied();
                let known = known.ok_or(TaskGraphError::UnknownTask { id, next })?;
                self.builder.then(task, known);
            }
        }
        Ok(())
    }
}

fn unfit(id: u64, kind: i16, device: Device) -> TaskGraphError {
    TaskGraphError::UnfitDevice {
        id,
        kind,
        device_kind: device.kind,
    }
}

fn read_devices(root: &Table<'_>) -> Result<BTreeMap<u64, Device>, TaskGraphError> {
    use field::device;
    let mut devices = BTreeMap::new();
    for table in root.tables(field::graph::DEVICES)? {
        let id = table.scalar(device::ID)?;
        let device = Device {
            kind: table.scalar(device::KIND)?,
            node: table.scalar(device::NODE)?,
            property: table.scalar(device::PROPERTY)?,
        };
        if devices.insert(id, device).is_some() {
            return Err(TaskGraphError::Duplicate { what: "device", id });
        }
    }
    Ok(devices)
}

fn runtime(id: u64, runtime_ms: f32) -> Result<Duration, TaskGraphError> {
    let fits = (0.0..=MAX_RUNTIME_MS).contains(&runtime_ms);
    let seconds = f64::from(runtime_ms) / 1e3;
    fits.then(|| TimeSpan::from_secs_f64(seconds).get())
        .ok_or(TaskGraphError::BadRuntime { id, runtime_ms })
}
