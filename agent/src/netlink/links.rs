//! Interfaces, their carrier, and their traffic counters.

use std::collections::BTreeSet;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, Stats64,
};
use reweave_agent_core::links::LinkCount;
use reweave_common::hardware::Mac;
use reweave_common::units::Bytes;

use super::{NetlinkError, RouteSocket};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub loopback: bool,
    /// Whether it only stacks on others: a bond, a bridge, a VLAN.
    pub stacked: bool,
    pub mtu_bytes: Option<u32>,
    /// None if it is not Ethernet.
    pub hardware: Option<Mac>,
    pub count: LinkCount,
}

impl RouteSocket {
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let listed = self.socket.dump("list its interfaces", &request)?;
        Ok(listed.iter().filter_map(link).collect())
    }

    /// Sets an interface's hardware address; all its IP addresses stay.
    pub fn give_hardware_address(&mut self, index: u32, mac: Mac) -> Result<(), NetlinkError> {
        let mut wanted = LinkMessage::default();
        wanted.header.index = index;
        let address = LinkAttribute::Address(mac.bytes().to_vec());
        wanted.attributes.push(address);
        let what = "give an interface a hardware address";
        self.socket
            .change(what, RouteNetlinkMessage::SetLink(wanted), 0)
    }
}

/// The names of those that are down.
pub(crate) fn down_interfaces(links: &[Link]) -> BTreeSet<String> {
    let down = links.iter().filter(|link| !link.count.up);
    down.map(|link| link.count.interface.clone()).collect()
}

pub(super) fn link(message: &RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = message else {
        return None;
    };
    let attributes = &message.attributes;
    let name = attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name),
        _ => None,
    });
    let stats = attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Stats64(stats) => Some(*stats),
        _ => None,
    });
    let flags = message.header.flags;
    Some(Link {
        index: message.header.index,
        stacked: is_stacked(attributes),
        mtu_bytes: attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        }),
        hardware: attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Address(bytes) => Mac::of_one_nic(bytes.as_slice().try_into().ok()?),
            _ => None,
        }),
        loopback: flags.contains(LinkFlags::Loopback),
        count: count(name?, flags, &stats.unwrap_or_default()),
    })
}

fn is_stacked(attributes: &[LinkAttribute]) -> bool {
    let kinds = attributes.iter().flat_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.as_slice(),
        _ => &[],
    });
    kinds.into_iter().any(|info| match info {
        LinkInfo::Kind(kind) => matches!(
            kind,
            InfoKind::Bond
                | InfoKind::Bridge
                | InfoKind::Vlan
                | InfoKind::MacVlan
                | InfoKind::MacVtap
                | InfoKind::IpVlan
        ),
        _ => false,
    })
}

/// The carrier comes before the kernel starts the transmit queue, and packets sent in between are lost silently: an
/// interface that is running has both.
const CARRIER_FLAGS: LinkFlags = LinkFlags::Up
    .union(LinkFlags::LowerUp)
    .union(LinkFlags::Running);

fn count(name: &str, flags: LinkFlags, stats: &Stats64) -> LinkCount {
    LinkCount {
        interface: name.to_owned(),
        up: flags.contains(CARRIER_FLAGS),
        sent: Bytes::new(stats.tx_bytes),
        received: Bytes::new(stats.rx_bytes),
        dropped_packets: stats.tx_dropped + stats.rx_dropped + stats.rx_missed_errors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_with_carrier_must_run() {
        let up = |flags| count("fab2", flags, &Stats64::default()).up;
        let lit = LinkFlags::Up | LinkFlags::LowerUp;
        assert!(!up(lit));
        assert!(up(lit | LinkFlags::Running));
        assert!(!up(LinkFlags::Up | LinkFlags::Running));
    }
}
