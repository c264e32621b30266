//! Facts about NICs: speed, duplex, error correction, bus, NUMA node.

use reweave_agent_core::counters::texts;
use reweave_common::hardware::{NicReport, Pcie};

use super::ethtool::Ethtool;
use super::{EthtoolError, Tree, ports};

pub struct NicReader {
    tree: Tree,
    /// Absent where another machine's files are read.
    ethtool: Option<Ethtool>,
}

impl NicReader {
    pub fn open(tree: &Tree) -> Result<Self, EthtoolError> {
        Ok(Self {
            tree: tree.clone(),
            ethtool: Some(Ethtool::open()?),
        })
    }

    pub fn recorded(tree: &Tree) -> Self {
        Self {
            tree: tree.clone(),
            ethtool: None,
        }
    }

    pub fn read(&mut self, interface: &str) -> NicReport {
        let folder = format!("sys/class/net/{interface}");
        let text = |name: &str| self.tree.text(&format!("{folder}/{name}"));
        let number = |name: &str| self.tree.number(&format!("{folder}/{name}"));
        let mut nic = NicReport {
            interface: interface.to_owned(),
            driver: self.tree.target(&format!("{folder}/device/driver")),
            speed: text("speed").and_then(|speed| texts::speed(&speed)),
            duplex: text("duplex").and_then(|duplex| texts::duplex(&duplex)),
            mtu_bytes: number("mtu").and_then(|mtu| u32::try_from(mtu).ok()),
            pcie: pcie(&self.tree, &folder),
            // -1, where the machine has but one, is no number here.
            numa_node: number("device/numa_node").and_then(|node| u16::try_from(node).ok()),
            rdma: ports::device_of(&self.tree, interface),
            ..NicReport::default()
        };
        if let Some(ethtool) = &mut self.ethtool {
            nic.fec = ethtool.fec(interface);
            nic.driver = nic.driver.or_else(|| ethtool.driver(interface));
        }
        nic
    }
}

fn pcie(tree: &Tree, folder: &str) -> Option<Pcie> {
    let link = |which: &str| {
        let speed = tree.text(&format!("{folder}/device/{which}_link_speed"))?;
        let width = tree.text(&format!("{folder}/device/{which}_link_width"))?;
        texts::pcie_link(&speed, &width)
    };
    Some(Pcie {
        now: link("current")?,
        most: link("max")?,
    })
}
