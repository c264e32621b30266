//! Which of its own next hops a kernel uses for a flow.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use reweave_common::flow::{FlowKey, Protocol};

use super::messages::{hops, out_interface};
use super::{NetlinkError, RouteSocket};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// All packets there have the same path.
    Anyhow,
    /// Over this one of several interfaces.
    Over(u32),
    /// Over one of several next hops, and it is unknown which.
    Unknown,
}

impl RouteSocket {
    /// The interface by which packets of this flow leave the host.
    pub fn leaves(&mut self, flow: &FlowKey, hashing: &OwnHashing) -> Result<Leaves, NetlinkError> {
        let Some(route) = self.route_of(flow, RouteFlags::FibMatch)? else {
            return Ok(Leaves::Anyhow);
        };
        let Some(ways) = hops(&route) else {
            return Ok(Leaves::Unknown);
        };
        if ways.len() < 2 {
            return Ok(Leaves::Anyhow);
        }
        let chosen = self.route_of(flow, RouteFlags::empty())?;
        let chosen = chosen.and_then(|it| out_interface(&it.attributes));
        // A request for a single interface would return the first next hop over it.
        let is_over = |index: &u32| ways.iter().filter(|way| way.interface == *index).count() == 1;
        let chosen_link = chosen.filter(|index| hashing.is_reported() && is_over(index));
        Ok(chosen_link.map_or(Leaves::Unknown, Leaves::Over))
    }

    fn route_of(
        &mut self,
        flow: &FlowKey,
        flags: RouteFlags,
    ) -> Result<Option<RouteMessage>, NetlinkError> {
        let request = RouteNetlinkMessage::GetRoute(question(flow, flags));
        let answer = self.socket.ask("look up a flow's route", &request)?;
        Ok(answer.into_iter().find_map(|it| match it {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        }))
    }
}

fn question(flow: &FlowKey, flags: RouteFlags) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.source_prefix_length = 32;
    message.header.destination_prefix_length = 32;
    message.header.flags = flags;
    message.attributes = vec![
        RouteAttribute::Source(RouteAddress::Inet(*flow.source.ip())),
        RouteAttribute::Destination(RouteAddress::Inet(*flow.destination.ip())),
        RouteAttribute::IpProto(number(flow.protocol)),
        RouteAttribute::Sport(flow.source.port()),
        RouteAttribute::Dport(flow.destination.port()),
    ];
    message
}

/// The protocol number in IP headers.
fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
    }
}

/// How the kernel of this network namespace selects a path for its own packets. With a custom hash policy, its answers
/// to queries are those for forwarded packets, which differ from its own.
#[derive(Debug)]
pub struct OwnHashing {
    /// None if the kernel has only one policy.
    policy: Option<File>,
}

const CUSTOM_FIELDS_POLICY: u8 = b'3';

impl OwnHashing {
    pub fn open() -> Self {
        let policy = File::open("/proc/sys/net/ipv4/fib_multipath_hash_policy");
        Self {
            policy: policy.ok(),
        }
    }

    /// Whether the kernel's answer matches what it does.
    fn is_reported(&self) -> bool {
        let mut policy = [0];
        let read = self.policy.as_ref().map(|it| it.read_at(&mut policy, 0));
        !matches!(read, Some(Err(_))) && policy != [CUSTOM_FIELDS_POLICY]
    }
}
