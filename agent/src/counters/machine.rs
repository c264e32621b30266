//! Processors, memory and NUMA nodes.

use reweave_agent_core::counters::texts;
use reweave_common::hardware::{Machine, NumaNode};
use reweave_common::units::Bytes;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use super::{Tree, settings};
use crate::netlink::{Priorities, RouteSocket};

const NUMA_NODES_PATH: &str = "sys/devices/system/node";

pub struct MachineReader {
    /// None if there is no way to ask.
    system: Option<System>,
    tree: Tree,
    /// None where another machine's files are read, or the kernel cannot be asked.
    kernel: Option<RouteSocket>,
    /// How busy processors are is the difference between two looks at them.
    looked: bool,
}

impl MachineReader {
    pub fn open(tree: &Tree) -> Self {
        Self {
            kernel: RouteSocket::open().ok(),
            ..Self::recorded(tree)
        }
    }

    pub fn recorded(tree: &Tree) -> Self {
        Self {
            system: System::new().ok(),
            tree: tree.clone(),
            kernel: None,
            looked: false,
        }
    }

    pub fn read(&mut self) -> Option<Machine> {
        let priorities = self.priorities();
        let system = self.system.as_mut()?;
        let processors = CpuRefreshKind::nothing().with_usage();
        let memory = MemoryRefreshKind::nothing().with_ram();
        let what = RefreshKind::nothing()
            .with_cpu(processors)
            .with_memory(memory);
        system.refresh_specifics(what);
        let busy = self.looked.then(|| system.global_cpu_usage());
        self.looked = true;
        Some(Machine {
            cpus: u32::try_from(system.cpus().len()).unwrap_or(u32::MAX),
            cpu_busy_percent: busy.map(|percent| percent.round().clamp(0.0, 100.0) as u8),
            memory: Bytes::new(system.total_memory()),
            memory_available: Bytes::new(system.available_memory()),
            numa_nodes: numa_nodes(&self.tree),
            settings: settings::read(&self.tree, &priorities),
        })
    }

    /// Covers the interfaces whose drivers report it.
    fn priorities(&mut self) -> Vec<Priorities> {
        let Some(kernel) = &mut self.kernel else {
            return Vec::new();
        };
        let interfaces = self.tree.interfaces().into_iter();
        interfaces
            .filter_map(|interface| kernel.priorities(&interface).ok())
            .collect()
    }
}

fn numa_nodes(tree: &Tree) -> Vec<NumaNode> {
    let node = |name: String| {
        let node = name.strip_prefix("node")?.parse().ok()?;
        let cpus = tree.text(&format!("{NUMA_NODES_PATH}/{name}/cpulist"))?;
        let memory = tree.text(&format!("{NUMA_NODES_PATH}/{name}/meminfo"))?;
        Some(NumaNode {
            node,
            cpus: texts::list_len(&cpus)?,
            memory: Bytes::new(texts::node_memory_bytes(&memory)?),
        })
    };
    tree.names(NUMA_NODES_PATH)
        .into_iter()
        .filter_map(node)
        .collect()
}
