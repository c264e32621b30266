//! The counters of NICs and RDMA ports, and facts about NICs: from /sys, /proc and the drivers.
//!
//! The root of /sys and /proc is a parameter, so that a copy of another machine's can be read.

mod ethtool;
mod machine;
mod nics;
mod pci;
mod ports;
mod settings;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use reweave_agent_core::counters::{Counts, Meaning, Origin, meaning, texts};
use reweave_agent_core::links::LinkCount;
use reweave_common::health::{CounterSource, Signal};
use reweave_common::traffic::PortTraffic;
use reweave_common::units::Bytes;

pub use ethtool::EthtoolError;
pub use machine::MachineReader;
pub use nics::NicReader;
pub use pci::nic_places;
pub(crate) use ports::carried_over;
pub use tree::Tree;

use ethtool::Ethtool;

/// Everything that a driver counts, by its own names, whether it has a meaning here or not: for who
/// compares.
#[doc(hidden)]
pub fn all_of_driver(interface: &str) -> Vec<(String, u64)> {
    let ethtool = Ethtool::open().ok();
    let all = ethtool.and_then(|ethtool| ethtool.all(interface));
    all.unwrap_or_default()
}

/// Whether drivers may be asked here.
pub fn may_ask_drivers() -> Result<(), EthtoolError> {
    Ethtool::open()?.may_ask()
}

pub(crate) use ethtool::read as read_ethtool;

/// What RDMA ports have carried since their NICs began to count.
pub fn port_traffic(tree: &Tree) -> Vec<PortTraffic> {
    ports::traffic(tree)
}

/// What drivers count, and where it comes from.
enum Driver {
    Kernel(Ethtool),
    /// `ethtool/NAME` holds what `ethtool -S NAME` printed on that other machine.
    Recorded,
}

pub struct CounterReader {
    tree: Tree,
    driver: Driver,
}

impl CounterReader {
    /// Opens the counters of the machine and network namespace in which this runs.
    pub fn open() -> Result<Self, EthtoolError> {
        Ok(Self {
            tree: Tree::new(Path::new("/")),
            driver: Driver::Kernel(Ethtool::open()?),
        })
    }

    /// Reads the counters from a copy of a machine's files.
    pub fn recorded(root: &Path) -> Self {
        Self {
            tree: Tree::new(root),
            driver: Driver::Recorded,
        }
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// All counters of these interfaces, of all RDMA ports and of the host. `queue_drops` are those
    /// of the kernel's queues, by interface.
    pub fn read(
        &mut self,
        interfaces: &[String],
        queue_drops: &BTreeMap<String, u64>,
    ) -> Vec<Counts> {
        let mut places = vec![];
        for name in interfaces {
            places.push(self.read_interface(name, queue_drops.get(name).copied()));
        }
        places.extend(ports::read(&self.tree));
        places.extend(self.read_host());
        places
    }

    /// The interfaces of a copy, as counted when it was taken.
    pub fn recorded_links(&self) -> Vec<RecordedLink> {
        let names = self.tree.interfaces().into_iter();
        names.map(|name| link(&self.tree, name)).collect()
    }

    /// RDMA ports as interfaces of their own: their bytes pass the kernel by.
    pub fn ports(&self) -> Vec<LinkCount> {
        ports::links(&self.tree)
    }

    fn read_interface(&mut self, name: &str, queue_drops: Option<u64>) -> Counts {
        let mut counts = match &mut self.driver {
            Driver::Kernel(ethtool) => ethtool.counts(name),
            Driver::Recorded => recorded(&self.tree, name),
        };
        counts.extend(statistics(&self.tree, name));
        let drops = queue_drops.map(|drops| (Signal::QueueDrops.into(), drops));
        counts.extend(drops);
        Counts {
            place: CounterSource::Interface(name.to_owned()),
            counts,
        }
    }

    fn read_host(&self) -> Option<Counts> {
        let [drops, squeezes] = texts::softnet(&self.tree.text("proc/net/softnet_stat")?)?;
        Some(Counts {
            place: CounterSource::Host,
            counts: vec![
                (Signal::SoftirqDrops.into(), drops),
                (Signal::SoftirqSqueezes.into(), squeezes),
            ],
        })
    }
}

/// An interface of a copy: what the copy lacks is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedLink {
    pub interface: String,
    pub up: Option<bool>,
    pub sent: Option<Bytes>,
    pub received: Option<Bytes>,
    pub dropped_packets: Option<u64>,
}

fn link(tree: &Tree, interface: String) -> RecordedLink {
    let folder = format!("sys/class/net/{interface}");
    let count = |name: &str| tree.number(&format!("{folder}/statistics/{name}"));
    let dropped = ["tx_dropped", "rx_dropped", "rx_missed_errors"];
    let carrier = tree.number(&format!("{folder}/carrier"));
    RecordedLink {
        up: carrier.map(|carrier| carrier == 1),
        sent: count("tx_bytes").map(Bytes::new),
        received: count("rx_bytes").map(Bytes::new),
        dropped_packets: dropped
            .iter()
            .filter_map(|name| count(name))
            .reduce(u64::saturating_add),
        interface,
    }
}

fn recorded(tree: &Tree, interface: &str) -> Vec<(Meaning, u64)> {
    let text = tree.text(&format!("ethtool/{interface}"));
    let text = text.unwrap_or_default();
    let named = texts::named_numbers(&text);
    named
        .filter_map(|(name, value)| Some((meaning(Origin::Driver, name)?, value)))
        .collect()
}

fn statistics(tree: &Tree, interface: &str) -> Vec<(Meaning, u64)> {
    let folder = format!("sys/class/net/{interface}");
    let mut counts = named_files(tree, &format!("{folder}/statistics"), Origin::Statistics);
    let downs = tree.number(&format!("{folder}/carrier_down_count"));
    counts.extend(downs.map(|downs| (Signal::LinkDowns.into(), downs)));
    counts
}

/// The files of a folder that hold counters with a meaning.
fn named_files(tree: &Tree, folder: &str, origin: Origin) -> Vec<(Meaning, u64)> {
    let read = |name: String| {
        let meaning = meaning(origin, &name)?;
        Some((meaning, tree.number(&format!("{folder}/{name}"))?))
    };
    tree.names(folder).into_iter().filter_map(read).collect()
}
