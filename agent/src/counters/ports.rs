//! RDMA ports: counters of traffic that bypasses the kernel.

use reweave_agent_core::counters::{Counts, Origin, texts};
use reweave_agent_core::links::LinkCount;
use reweave_common::health::CounterSource;
use reweave_common::traffic::{PortTraffic, PortVolume};
use reweave_common::units::Bytes;

use super::{Tree, named_files};

const RDMA_DEVICES_PATH: &str = "sys/class/infiniband";

struct Port {
    device: String,
    number: u8,
    folder: String,
}

pub(super) fn read(tree: &Tree) -> Vec<Counts> {
    all(tree)
        .into_iter()
        .map(|port| port.counts(tree))
        .collect()
}

pub(super) fn links(tree: &Tree) -> Vec<LinkCount> {
    let links = all(tree).into_iter().filter_map(|port| port.link(tree));
    links.collect()
}

/// What ports have carried.
pub(super) fn traffic(tree: &Tree) -> Vec<PortTraffic> {
    all(tree)
        .into_iter()
        .map(|port| port.traffic(tree))
        .collect()
}

/// The bytes in both directions over an interface that bypass the kernel.
pub(crate) fn carried_over(tree: &Tree, interface: &str) -> Bytes {
    let device = device_of(tree, interface);
    let ports = all(tree).into_iter();
    let ports = ports.filter(|port| Some(&port.device) == device.as_ref());
    let links = ports.filter_map(|port| port.link(tree));
    links.map(|link| link.sent + link.received).sum()
}

/// The device that sends over an interface.
pub(super) fn device_of(tree: &Tree, interface: &str) -> Option<String> {
    let sends_over_it = |device: &String| {
        let nets = tree.names(&format!("{RDMA_DEVICES_PATH}/{device}/device/net"));
        nets.iter().any(|net| net == interface)
    };
    let by_bus = tree
        .names(RDMA_DEVICES_PATH)
        .into_iter()
        .find(sends_over_it);
    // Soft-RoCE has no bus, and names its interface as its parent.
    by_bus.or_else(|| {
        let is_parent = |device: &String| {
            let parent = tree.text(&format!("{RDMA_DEVICES_PATH}/{device}/parent"));
            parent.is_some_and(|parent| parent.trim() == interface)
        };
        tree.names(RDMA_DEVICES_PATH).into_iter().find(is_parent)
    })
}

fn all(tree: &Tree) -> Vec<Port> {
    let mut ports = vec![];
    for device in tree.names(RDMA_DEVICES_PATH) {
        let folder = format!("{RDMA_DEVICES_PATH}/{device}/ports");
        let numbers = tree.names(&folder);
        let numbers = numbers.iter().filter_map(|name| name.parse().ok());
        ports.extend(numbers.map(|number: u8| Port {
            device: device.clone(),
            number,
            folder: format!("{folder}/{number}"),
        }));
    }
    ports
}

impl Port {
    fn counts(&self, tree: &Tree) -> Counts {
        let of =
            |folder: &str, origin| named_files(tree, &format!("{}/{folder}", self.folder), origin);
        let mut counts = of("hw_counters", Origin::PortHardware);
        counts.extend(of("counters", Origin::Port));
        Counts {
            place: CounterSource::RdmaPort {
                device: self.device.clone(),
                port: self.number,
            },
            counts,
        }
    }

    fn link(&self, tree: &Tree) -> Option<LinkCount> {
        let state = tree.text(&format!("{}/state", self.folder))?;
        Some(LinkCount {
            interface: format!("{}/{}", self.device, self.number),
            up: texts::port_is_active(&state),
            sent: self.bytes(tree, "port_xmit_data")?,
            received: self.bytes(tree, "port_rcv_data")?,
            dropped_packets: tree
                .number(&format!("{}/counters/port_xmit_discards", self.folder))
                .unwrap_or_default(),
        })
    }

    /// Soft-RoCE counts packets only, and with the hardware's counters.
    fn traffic(&self, tree: &Tree) -> PortTraffic {
        let packets = |name: &str, of_software: &str| {
            let number = |path: &str| tree.number(&format!("{}/{path}", self.folder));
            let counted = number(&format!("counters/{name}"));
            counted.or_else(|| number(&format!("hw_counters/{of_software}")))
        };
        PortTraffic {
            device: self.device.clone(),
            port: self.number,
            sent: PortVolume {
                bytes: self.bytes(tree, "port_xmit_data"),
                packets: packets("port_xmit_packets", "sent_pkts"),
            },
            received: PortVolume {
                bytes: self.bytes(tree, "port_rcv_data"),
                packets: packets("port_rcv_packets", "rcvd_pkts"),
            },
        }
    }

    /// Counted in words of four bytes, one for each lane.
    fn bytes(&self, tree: &Tree, name: &str) -> Option<Bytes> {
        let words = tree.number(&format!("{}/counters/{name}", self.folder))?;
        Some(Bytes::new(words.saturating_mul(4)))
    }
}
