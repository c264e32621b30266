//! A pin in the kernel: a rule that matches one flow exactly and leads to a private table, and that table's only
//! route. Both have Reweave's protocol number, which distinguishes them from foreign entries.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;

use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange};
use netlink_packet_route::{AddressFamily, IpProtocol};
use reweave_common::flow::{FlowKey, Protocol};

/// Marks our rules and routes. Routing daemons remove routes with their own numbers, FRR those from 186 to 198, and so
/// does the agent.
pub(super) const PROTOCOL_NUMBER: u8 = 213;
const RULE_PROTOCOL: RouteProtocol = RouteProtocol::Other(PROTOCOL_NUMBER);
/// The protocol of FRR's static routes.
const FRR_STATIC_PROTOCOL: RouteProtocol = RouteProtocol::Other(196);
/// Before the main table (32766), and after the usual rules of administrators.
const PINS_PRIORITY: u32 = 21_300;
/// One table for each next hop in use.
pub(super) const PIN_TABLES: RangeInclusive<u32> = 21_300..=22_299;
/// Routes to whole hosts come after the pins of single flows.
const ROUTES_PRIORITY: u32 = PINS_PRIORITY + 1;
/// The one table of those.
pub(super) const ROUTES_TABLE: u32 = 22_300;

/// Where a private table leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NextHop {
    pub(super) interface: u32,
    pub(super) gateway: Ipv4Addr,
}

pub(super) fn rule(flow: &FlowKey, table: u32) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.src_len = 32;
    message.header.dst_len = 32;
    // A rule without an action would make lookups fail.
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Source(IpAddr::V4(*flow.source.ip())),
        RuleAttribute::Destination(IpAddr::V4(*flow.destination.ip())),
        RuleAttribute::IpProtocol(ip_protocol(flow.protocol)),
        RuleAttribute::SourcePortRange(only(flow.source.port())),
        RuleAttribute::DestinationPortRange(only(flow.destination.port())),
        RuleAttribute::Priority(PINS_PRIORITY),
        RuleAttribute::Table(table),
        RuleAttribute::Protocol(RULE_PROTOCOL),
    ];
    message
}

fn only(port: u16) -> RulePortRange {
    RulePortRange {
        start: port,
        end: port,
    }
}

fn ip_protocol(protocol: Protocol) -> IpProtocol {
    match protocol {
        Protocol::Tcp => IpProtocol::Tcp,
        Protocol::Udp => IpProtocol::Udp,
    }
}

pub(super) fn is_our_rule(rule: &RuleMessage) -> bool {
    rule.attributes
        .contains(&RuleAttribute::Protocol(RULE_PROTOCOL))
}

/// The flow and the table of a rule that [`rule`] could have made.
pub(super) fn pinned(message: &RuleMessage) -> Option<(FlowKey, u32)> {
    let mut protocol = None;
    let (mut addresses, mut ports) = ([None; 2], [None; 2]);
    let mut table = None;
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::IpProtocol(IpProtocol::Tcp) => protocol = Some(Protocol::Tcp),
            RuleAttribute::IpProtocol(IpProtocol::Udp) => protocol = Some(Protocol::Udp),
            RuleAttribute::Source(IpAddr::V4(address)) => addresses[0] = Some(*address),
            RuleAttribute::Destination(IpAddr::V4(address)) => addresses[1] = Some(*address),
            RuleAttribute::SourcePortRange(range) => ports[0] = Some(range.start),
            RuleAttribute::DestinationPortRange(range) => ports[1] = Some(range.start),
            RuleAttribute::Table(number) => table = Some(*number),
            _ => {}
        }
    }
    let end = |at: usize| Some(SocketAddrV4::new(addresses[at]?, ports[at]?));
    let flow = FlowKey {
        protocol: protocol?,
        source: end(0)?,
        destination: end(1)?,
    };
    let exact = PIN_TABLES.contains(&table?) && is_made_like(message, &rule(&flow, table?));
    exact.then_some((flow, table?))
}

/// The table of a rule, whatever it matches.
pub(super) fn table_of(rule: &RuleMessage) -> Option<u32> {
    rule.attributes
        .iter()
        .find_map(|attribute| match attribute {
            RuleAttribute::Table(table) => Some(*table),
            _ => None,
        })
}

/// Whether `held` has everything of `made`, and no further selector.
fn is_made_like(held: &RuleMessage, made: &RuleMessage) -> bool {
    let header = |message: &RuleMessage| {
        let header = &message.header;
        (header.src_len, header.dst_len, header.tos, header.action)
    };
    // Attributes that kernels add and that select nothing, or that are unknown here.
    let neutral = |attribute: &RuleAttribute| match attribute {
        RuleAttribute::SuppressPrefixLen(u32::MAX) | RuleAttribute::Other(_) => true,
        other => made.attributes.contains(other),
    };
    header(held) == header(made)
        && made
            .attributes
            .iter()
            .all(|it| held.attributes.contains(it))
        && held.attributes.iter().all(neutral)
}

/// The one route of a private table.
pub(super) fn route(table: u32, next_hop: NextHop) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        protocol: RULE_PROTOCOL,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Gateway(RouteAddress::Inet(next_hop.gateway)),
        RouteAttribute::Oif(next_hop.interface),
        RouteAttribute::Table(table),
    ];
    message
}

pub(super) fn is_ours(route: &RouteMessage) -> bool {
    route.header.protocol == RULE_PROTOCOL
}

/// The private table of a route, and its next hop.
pub(super) fn private(route: &RouteMessage) -> Option<(u32, NextHop)> {
    let header = &route.header;
    let whole = header.destination_prefix_length == 0 && header.kind == RouteType::Unicast;
    let table = table(route)?;
    let next_hop = NextHop {
        interface: out_interface(&route.attributes)?,
        gateway: gateway(&route.attributes)?,
    };
    (is_ours(route) && whole && PIN_TABLES.contains(&table)).then_some((table, next_hop))
}

pub(super) fn table(route: &RouteMessage) -> Option<u32> {
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        })
}

pub(super) fn gateway(attributes: &[RouteAttribute]) -> Option<Ipv4Addr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => Some(*gateway),
        _ => None,
    })
}

pub(super) fn out_interface(attributes: &[RouteAttribute]) -> Option<u32> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    })
}

/// The rule to the table of routes, for all packets.
pub(super) fn routes_rule() -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Priority(ROUTES_PRIORITY),
        RuleAttribute::Table(ROUTES_TABLE),
        RuleAttribute::Protocol(RULE_PROTOCOL),
    ];
    message
}

pub(super) fn is_routes_rule(rule: &RuleMessage) -> bool {
    is_our_rule(rule) && is_made_like(rule, &routes_rule())
}

/// A route with a group of next hops.
pub(super) fn route_by(destination: Ipv4Addr, group: u32) -> RouteMessage {
    let mut message = route_to(destination);
    message.attributes.push(RouteAttribute::NhId(group));
    message
}

/// The fields that identify the route for its removal.
pub(super) fn route_to(destination: Ipv4Addr) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: 32,
        protocol: RULE_PROTOCOL,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet(destination)),
        RouteAttribute::Table(ROUTES_TABLE),
    ];
    message
}

/// The host that a route leads to, over any next hops.
pub(super) fn host(route: &RouteMessage) -> Option<Ipv4Addr> {
    let to_host = route.header.destination_prefix_length == 32;
    destination(route).filter(|_| to_host)
}

/// The group of a route that [`route_by`] could have made.
pub(super) fn group(route: &RouteMessage) -> Option<u32> {
    let is_unicast = route.header.kind == RouteType::Unicast;
    let exact = is_ours(route) && is_unicast && host(route).is_some();
    nexthop_id(route).filter(|_| exact && table(route) == Some(ROUTES_TABLE))
}

/// A listed route in the form of a request: beside a group, the kernel also lists its next hops, and accepts only one
/// of both.
pub(super) fn as_asked(mut route: RouteMessage) -> RouteMessage {
    if nexthop_id(&route).is_some() {
        let says_ways = |it: &RouteAttribute| {
            matches!(
                it,
                RouteAttribute::Gateway(_) | RouteAttribute::Oif(_) | RouteAttribute::MultiPath(_)
            )
        };
        route.attributes.retain(|it| !says_ways(it));
    }
    route
}

/// Lists our table; older kernels return all routes.
pub(super) fn all_in_our_table() -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.attributes = vec![RouteAttribute::Table(ROUTES_TABLE)];
    message
}

/// Lists the routes that [`is_ours`]; older kernels return all routes.
pub(super) fn all_our_routes() -> RouteMessage {
    all_routes_of(RULE_PROTOCOL)
}

/// Lists FRR's static routes.
pub(super) fn all_static_routes() -> RouteMessage {
    all_routes_of(FRR_STATIC_PROTOCOL)
}

fn all_routes_of(protocol: RouteProtocol) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.protocol = protocol;
    message
}

/// The host of a static route in the main table, and its next hops.
pub(super) fn static_to_host(route: &RouteMessage) -> Option<(Ipv4Addr, By)> {
    let header = &route.header;
    let to_host = header.destination_prefix_length == 32 && header.kind == RouteType::Unicast;
    let is_main = table(route) == Some(u32::from(RouteHeader::RT_TABLE_MAIN));
    if header.protocol != FRR_STATIC_PROTOCOL || !to_host || !is_main {
        return None;
    }
    let by = match nexthop_id(route) {
        Some(id) => By::Object(id),
        None => By::Hops(hops(route)?),
    };
    Some((destination(route)?, by))
}

/// How a route names its next hop.
pub(super) enum By {
    Object(u32),
    Hops(Vec<KernelNextHop>),
}

/// Without a gateway, the node at the other end of the link.
#[derive(Debug, Clone)]
pub(super) struct KernelNextHop {
    pub(super) interface: u32,
    pub(super) gateway: Option<Ipv4Addr>,
    pub(super) weight: u32,
}

/// One by one, where a route names them.
pub(super) fn hops(route: &RouteMessage) -> Option<Vec<KernelNextHop>> {
    let several = route.attributes.iter().find_map(|it| match it {
        RouteAttribute::MultiPath(hops) => Some(hops),
        _ => None,
    });
    let Some(several) = several else {
        return Some(vec![KernelNextHop {
            interface: out_interface(&route.attributes)?,
            gateway: gateway(&route.attributes),
            weight: 1,
        }]);
    };
    let ways = several.iter().map(|hop| KernelNextHop {
        interface: hop.interface_index,
        gateway: gateway(&hop.attributes),
        weight: u32::from(hop.hops) + 1,
    });
    Some(ways.collect())
}

fn destination(route: &RouteMessage) -> Option<Ipv4Addr> {
    route.attributes.iter().find_map(|it| match it {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(*address),
        _ => None,
    })
}

fn nexthop_id(route: &RouteMessage) -> Option<u32> {
    route.attributes.iter().find_map(|it| match it {
        RouteAttribute::NhId(id) => Some(*id),
        _ => None,
    })
}
