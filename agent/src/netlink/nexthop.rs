//! Next hops as objects of the kernel, and groups of them: requests and listings.

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable,
    NlasIterator,
};
use std::net::Ipv4Addr;

const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
const RTM_GETNEXTHOP: u16 = 106;
const HEADER_BYTES: usize = 8;
const AF_INET: u8 = 2;
/// The gateway is on the link, independent of the interface's addresses.
const RTNH_F_ONLINK: u32 = 4;
/// With this many buckets, weights up to 255 are accurate.
const BUCKETS: u16 = 256;
/// How long a bucket must be idle before it moves to a new next hop, in hundredths of a second, and after how long it
/// moves anyway.
const IDLE_TIMER_CS: u32 = 1;
const UNBALANCED_TIMER_CS: u32 = 100;

mod attribute {
    pub(super) const ID: u16 = 1;
    pub(super) const GROUP: u16 = 2;
    pub(super) const GROUP_TYPE: u16 = 3;
    pub(super) const INTERFACE: u16 = 5;
    pub(super) const GATEWAY: u16 = 6;
    pub(super) const RESILIENT: u16 = 12;
    pub(super) const BUCKETS: u16 = 1;
    pub(super) const IDLE_TIMER: u16 = 2;
    pub(super) const UNBALANCED_TIMER: u16 = 3;
}

/// A next hop object, as requested or listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Nexthop {
    kind: NexthopKind,
    pub(super) protocol: u8,
    pub(super) id: Option<u32>,
    pub(super) leads: Leads,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum NexthopKind {
    #[default]
    Get,
    New,
    Delete,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Leads {
    /// Something that the agent does not make.
    #[default]
    Elsewhere,
    To {
        interface: u32,
        gateway: Ipv4Addr,
    },
    /// Over a link without a gateway, which the agent does not make.
    Over {
        interface: u32,
    },
    Group {
        members: Vec<Member>,
        /// Existing flows keep their next hop while it stays in the group.
        resilient: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: u32,
    pub(super) weight: u32,
}

impl Nexthop {
    pub(super) fn list() -> Self {
        Self::default()
    }

    pub(super) fn new(id: u32, protocol: u8, leads: Leads) -> Self {
        Self {
            kind: NexthopKind::New,
            protocol,
            id: Some(id),
            leads,
        }
    }

    pub(super) fn delete(id: u32) -> Self {
        Self {
            kind: NexthopKind::Delete,
            id: Some(id),
            ..Self::default()
        }
    }

    fn header(&self) -> [u8; HEADER_BYTES] {
        let is_hop = matches!(self.leads, Leads::To { .. });
        let is_new = self.kind == NexthopKind::New;
        let family = if is_hop { AF_INET } else { 0 };
        let protocol = if is_new { self.protocol } else { 0 };
        let flags: u32 = if is_hop { RTNH_F_ONLINK } else { 0 };
        let [a, b, c, d] = flags.to_ne_bytes();
        [family, 0, protocol, 0, a, b, c, d]
    }

    fn attributes(&self) -> Vec<DefaultNla> {
        let number = |kind, value: u32| DefaultNla::new(kind, value.to_ne_bytes().to_vec());
        let mut attributes: Vec<_> = self
            .id
            .map(|id| number(attribute::ID, id))
            .into_iter()
            .collect();
        match &self.leads {
            Leads::Elsewhere | Leads::Over { .. } => {}
            Leads::To { interface, gateway } => attributes.extend([
                number(attribute::INTERFACE, *interface),
                DefaultNla::new(attribute::GATEWAY, gateway.octets().to_vec()),
            ]),
            Leads::Group { members, resilient } => {
                let members = members.iter().flat_map(entry).collect();
                attributes.push(DefaultNla::new(attribute::GROUP, members));
                if *resilient {
                    attributes.extend(resilience());
                }
            }
        }
        attributes
    }
}

/// Here, weights are counted from 0.
fn entry(member: &Member) -> [u8; 8] {
    let [a, b, c, d] = member.id.to_ne_bytes();
    let weight = u8::try_from(member.weight.saturating_sub(1)).unwrap_or(u8::MAX);
    [a, b, c, d, weight, 0, 0, 0]
}

fn resilience() -> [DefaultNla; 2] {
    const NLA_F_NESTED: u16 = 1 << 15;
    let inner = [
        DefaultNla::new(attribute::BUCKETS, BUCKETS.to_ne_bytes().to_vec()),
        DefaultNla::new(attribute::IDLE_TIMER, IDLE_TIMER_CS.to_ne_bytes().to_vec()),
        DefaultNla::new(
            attribute::UNBALANCED_TIMER,
            UNBALANCED_TIMER_CS.to_ne_bytes().to_vec(),
        ),
    ];
    let mut bytes = vec![0; inner.as_slice().buffer_len()];
    inner.as_slice().emit(&mut bytes);
    [
        DefaultNla::new(attribute::GROUP_TYPE, 1_u16.to_ne_bytes().to_vec()),
        DefaultNla::new(attribute::RESILIENT | NLA_F_NESTED, bytes),
    ]
}

impl NetlinkSerializable for Nexthop {
    fn message_type(&self) -> u16 {
        match self.kind {
            NexthopKind::Get => RTM_GETNEXTHOP,
            NexthopKind::New => RTM_NEWNEXTHOP,
            NexthopKind::Delete => RTM_DELNEXTHOP,
        }
    }

    fn buffer_len(&self) -> usize {
        HEADER_BYTES + self.attributes().as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (header, rest) = buffer.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&self.header());
        self.attributes().as_slice().emit(rest);
    }
}

impl NetlinkDeserializable for Nexthop {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let mut read = Self {
            kind: if header.message_type == RTM_NEWNEXTHOP {
                NexthopKind::New
            } else {
                NexthopKind::Delete
            },
            protocol: payload.get(2).copied().unwrap_or_default(),
            ..Self::default()
        };
        let (mut interface, mut gateway) = (None, None);
        for attribute in NlasIterator::new(payload.get(HEADER_BYTES..).unwrap_or_default()) {
            let attribute = attribute?;
            let value = attribute.value();
            match attribute.kind() {
                attribute::ID => read.id = number(value),
                attribute::INTERFACE => interface = number(value),
                attribute::GATEWAY => gateway = <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from),
                attribute::GROUP => read.leads = group(value, false),
                attribute::GROUP_TYPE => read.leads = resilient(read.leads, value),
                _ => {}
            }
        }
        match (interface, gateway) {
            (Some(interface), Some(gateway)) => read.leads = Leads::To { interface, gateway },
            (Some(interface), None) => read.leads = Leads::Over { interface },
            (None, _) => {}
        }
        Ok(read)
    }
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

fn group(value: &[u8], resilient: bool) -> Leads {
    let entries = value.chunks_exact(8);
    let member = |entry: &[u8]| {
        Some(Member {
            id: number(entry.get(..4)?)?,
            weight: u32::from(*entry.get(4)?) + 1,
        })
    };
    Leads::Group {
        members: entries.filter_map(member).collect(),
        resilient,
    }
}

/// The kernel lists the type after the members.
fn resilient(leads: Leads, value: &[u8]) -> Leads {
    match leads {
        Leads::Group { members, .. } => Leads::Group {
            members,
            resilient: value.first() == Some(&1),
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(asked: &Nexthop) -> Nexthop {
        let mut bytes = vec![0; asked.buffer_len()];
        asked.serialize(&mut bytes);
        let mut header = NetlinkHeader::default();
        header.message_type = asked.message_type();
        Nexthop::deserialize(&header, &bytes).unwrap()
    }

    fn over_one_interface() -> Nexthop {
        let leads = Leads::To {
            interface: 3,
            gateway: Ipv4Addr::new(10, 0, 0, 7),
        };
        Nexthop::new(7, 213, leads)
    }

    #[test]
    fn nexthop_roundtrips() {
        let hop = over_one_interface();
        assert_eq!(there_and_back(&hop), hop);
        for resilient in [false, true] {
            let members = vec![Member { id: 7, weight: 1 }, Member { id: 8, weight: 255 }];
            let group = Nexthop::new(9, 213, Leads::Group { members, resilient });
            assert_eq!(there_and_back(&group), group);
        }
    }

    #[test]
    fn truncated_nexthop_is_safe() {
        let hop = over_one_interface();
        let mut bytes = vec![0; hop.buffer_len()];
        hop.serialize(&mut bytes);
        for length in 0..bytes.len() {
            let _ = Nexthop::deserialize(&NetlinkHeader::default(), &bytes[..length]);
        }
    }
}
