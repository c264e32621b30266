//! Reads and changes Reweave's routes in a kernel.
//!
//! They are in a table of their own, which a rule places before the main one, and each names a group of next hops.
//! Everything has Reweave's protocol number. A change never withdraws a route that stays: new groups and routes
//! replace the present ones.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use nix::errno::Errno;
use reweave_agent_core::reconcile::routes::{GroupId, RouteOp, RouteTable};
use reweave_common::forwarding_state::{RouteHop, RouteRule};
use thiserror::Error;

use super::messages::{self, ROUTES_TABLE};
use super::nexthop::{Leads, Member, Nexthop};
use super::retry::{AtKernel, again};
use super::{Link, NetlinkError, RouteSocket, unless};

/// The numbers of our next hops and groups.
const NEXT_HOP_IDS: std::ops::RangeInclusive<u32> = 213_000_000..=213_099_999;
const GROUP_IDS: std::ops::RangeInclusive<u32> = 213_100_000..=213_199_999;
/// The kernel stores weights in eight bits.
const MAX_WEIGHT: u32 = 255;

#[derive(Debug, Error)]
pub enum RouteError {
    #[error("cannot read the routes")]
    Read(#[from] NetlinkError),
    #[error("{destination} is routed twice")]
    RoutedTwice { destination: Ipv4Addr },
    #[error("the route to {destination} has no hop")]
    NoHop { destination: Ipv4Addr },
    #[error(
        "the route to {destination} has a hop of weight {weight}; weights are 1 to \
             {MAX_WEIGHT}"
    )]
    Weight { destination: Ipv4Addr, weight: u32 },
    #[error("no interface {name}")]
    NoSuchInterface { name: String },
    #[error("interface {name} is down")]
    InterfaceDown { name: String },
    #[error("all next-hop ids are in use")]
    NoFreeNumber,
    #[error(
        "routing protocol {protocol} has a route to {destination} in table {ROUTES_TABLE}, before \
         any of Reweave's; its owner must remove it"
    )]
    Anothers { destination: Ipv4Addr, protocol: u8 },
    #[error("next hop {gateway} over {interface}")]
    AddHop {
        interface: String,
        gateway: Ipv4Addr,
        source: NetlinkError,
    },
    #[error("hops of group {group}")]
    SetGroup { group: u32, source: NetlinkError },
    #[error("route to {destination}")]
    SetRoute {
        destination: Ipv4Addr,
        source: NetlinkError,
    },
    #[error("cannot activate the routes")]
    AddRule { source: NetlinkError },
    #[error("cannot remove obsolete entries")]
    Remove { source: NetlinkError },
}

impl AtKernel for RouteError {
    fn at_kernel(&self) -> Option<&NetlinkError> {
        match self {
            Self::Read(source)
            | Self::AddHop { source, .. }
            | Self::SetGroup { source, .. }
            | Self::SetRoute { source, .. }
            | Self::AddRule { source }
            | Self::Remove { source } => Some(source),
            _ => None,
        }
    }
}

/// All of our routes in a kernel.
#[derive(Debug, Default)]
pub struct KernelRoutes {
    table: RouteTable,
    /// The number of each next hop: an interface and a gateway.
    hops: BTreeMap<(u32, Ipv4Addr), u32>,
    /// Numbers in use, foreign ones included.
    taken: BTreeSet<u32>,
    /// Objects with our protocol number that the agent would not make.
    stray_routes: Vec<RouteMessage>,
    stray_hops: Vec<u32>,
    /// Destinations that follow a foreign route in our table, and its protocol.
    by_others: BTreeMap<Ipv4Addr, u8>,
    rules: Vec<RuleMessage>,
}

impl KernelRoutes {
    pub fn rules(&self) -> Vec<RouteRule> {
        self.table.rules()
    }

    /// Whether there are only active routes, and no unused next hop.
    pub fn is_tidy(&self) -> bool {
        let no_strays = self.stray_routes.is_empty() && self.stray_hops.is_empty();
        let counts = self.rules.len() == usize::from(!self.table.routes.is_empty());
        let used: BTreeSet<_> = self.table.routes.values().collect();
        no_strays && counts && used.len() == self.table.groups.len()
    }

    /// Refuses destinations with foreign routes: packets would follow those, or they would be replaced.
    pub(super) fn refuse_what_others_have(&self, desired: &[RouteRule]) -> Result<(), RouteError> {
        let others = desired.iter().find_map(|rule| {
            let protocol = self.by_others.get(&rule.destination)?;
            Some((rule.destination, *protocol))
        });
        others.map_or(Ok(()), |(destination, protocol)| {
            Err(RouteError::Anothers {
                destination,
                protocol,
            })
        })
    }

    pub(super) fn is_anothers(&self, destination: Ipv4Addr) -> bool {
        self.by_others.contains_key(&destination)
    }

    fn free(&self, numbers: std::ops::RangeInclusive<u32>) -> impl Iterator<Item = u32> {
        numbers.filter(|number| !self.taken.contains(number))
    }
}

impl RouteSocket {
    pub fn routes(&mut self) -> Result<KernelRoutes, NetlinkError> {
        let links = self.links()?;
        self.held_routes(&links)
    }

    /// Installs exactly these routes. If one fails, those before it may have been changed already.
    pub fn hold_routes(&mut self, desired: &[RouteRule]) -> Result<(), RouteError> {
        refuse_nonsense(desired)?;
        again(|| self.try_to_hold(desired))
    }

    fn try_to_hold(&mut self, desired: &[RouteRule]) -> Result<(), RouteError> {
        let links = self.links()?;
        let mut held = self.held_routes(&links)?;
        held.refuse_what_others_have(desired)?;
        let free: Vec<_> = held
            .free(GROUP_IDS)
            .take(desired.len())
            .map(GroupId)
            .collect();
        let ops = held.table.reconcile(desired, free);
        let ops = ops.ok_or(RouteError::NoFreeNumber)?;
        if desired.is_empty() {
            self.count_routes(&mut held, false)?;
        }
        let (takes_away, gives): (Vec<_>, Vec<_>) = ops
            .into_iter()
            .partition(|op| matches!(op, RouteOp::RemoveRoute(_) | RouteOp::RemoveGroup(_)));
        for op in &gives {
            self.carry_out(op, &links, &mut held)?;
        }
        if !desired.is_empty() {
            self.count_routes(&mut held, true)?;
        }
        for op in &takes_away {
            self.carry_out(op, &links, &mut held)?;
        }
        self.clear_strays(&links)
    }

    fn carry_out(
        &mut self,
        op: &RouteOp,
        links: &[Link],
        held: &mut KernelRoutes,
    ) -> Result<(), RouteError> {
        match op {
            RouteOp::AddGroup(group, hops) => {
                self.set_group(*group, hops, NLM_F_CREATE | NLM_F_EXCL, links, held)
            }
            RouteOp::FlipGroup(group, hops) => {
                self.set_group(*group, hops, NLM_F_REPLACE, links, held)
            }
            RouteOp::SetRoute(destination, group) => {
                let route = messages::route_by(*destination, group.0);
                let flags = NLM_F_CREATE | NLM_F_REPLACE;
                let route = RouteNetlinkMessage::NewRoute(route);
                let set = self.socket.change("set a route", route, flags);
                set.map_err(|source| RouteError::SetRoute {
                    destination: *destination,
                    source,
                })
            }
            RouteOp::RemoveRoute(destination) => {
                let route = messages::route_to(*destination);
                self.take_away(RouteNetlinkMessage::DelRoute(route))
            }
            RouteOp::RemoveGroup(group) => self.remove_hop(group.0),
        }
    }

    /// Groups are resilient if the kernel supports that: existing flows then keep their next hop, unless it is
    /// removed.
    fn set_group(
        &mut self,
        group: GroupId,
        hops: &[RouteHop],
        flags: u16,
        links: &[Link],
        held: &mut KernelRoutes,
    ) -> Result<(), RouteError> {
        let mut members = vec![];
        for hop in hops {
            let id = self.number_of(hop, links, held)?;
            let weight = hop.weight;
            members.push(Member { id, weight });
        }
        let mut ask = |resilient| {
            let members = members.clone();
            let leads = Leads::Group { members, resilient };
            let asked = Nexthop::new(group.0, messages::PROTOCOL_NUMBER, leads);
            self.socket.change("set a group of next hops", asked, flags)
        };
        let set = ask(true).or_else(|error| match error.errno() {
            Some(Errno::EINVAL | Errno::EOPNOTSUPP) => ask(false),
            _ => Err(error),
        });
        set.map_err(|source| RouteError::SetGroup {
            group: group.0,
            source,
        })
    }

    /// The number of a next hop: its present one, or a new one.
    fn number_of(
        &mut self,
        hop: &RouteHop,
        links: &[Link],
        held: &mut KernelRoutes,
    ) -> Result<u32, RouteError> {
        let name = || hop.interface.clone();
        let link = links.iter().find(|it| it.count.interface == hop.interface);
        let link = link.ok_or_else(|| RouteError::NoSuchInterface { name: name() })?;
        if let Some(id) = held.hops.get(&(link.index, hop.next_hop)) {
            return Ok(*id);
        }
        if !link.count.up {
            return Err(RouteError::InterfaceDown { name: name() });
        }
        let id = held
            .free(NEXT_HOP_IDS)
            .next()
            .ok_or(RouteError::NoFreeNumber)?;
        let (interface, gateway) = (link.index, hop.next_hop);
        let asked = Nexthop::new(
            id,
            messages::PROTOCOL_NUMBER,
            Leads::To { interface, gateway },
        );
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let added = self.socket.change("add a next hop", asked, flags);
        added.map_err(|source| RouteError::AddHop {
            interface: name(),
            gateway,
            source,
        })?;
        held.taken.insert(id);
        held.hops.insert((interface, gateway), id);
        Ok(id)
    }

    /// Activates or deactivates the table.
    fn count_routes(&mut self, held: &mut KernelRoutes, counts: bool) -> Result<(), RouteError> {
        if counts && held.rules.is_empty() {
            let rule = RouteNetlinkMessage::NewRule(messages::routes_rule());
            let flags = NLM_F_CREATE | NLM_F_EXCL;
            let added = self.socket.change("add a rule", rule, flags);
            return unless(added, Errno::EEXIST).map_err(|source| RouteError::AddRule { source });
        }
        let surplus = held.rules.drain(usize::from(counts)..);
        for rule in surplus.collect::<Vec<_>>() {
            self.take_away(RouteNetlinkMessage::DelRule(rule))?;
        }
        Ok(())
    }

    /// Removes what is no part of any route, after reading it again.
    fn clear_strays(&mut self, links: &[Link]) -> Result<(), RouteError> {
        let held = self.held_routes(links)?;
        for route in held.stray_routes {
            self.take_away(RouteNetlinkMessage::DelRoute(messages::as_asked(route)))?;
        }
        for hop in held.stray_hops {
            self.remove_hop(hop)?;
        }
        let members = held.table.groups.values().flatten();
        let used: BTreeSet<_> = members.map(|it| (&it.interface, it.next_hop)).collect();
        for ((interface, gateway), id) in &held.hops {
            let name = links.iter().find(|link| link.index == *interface);
            let is_used = name.is_some_and(|it| used.contains(&(&it.count.interface, *gateway)));
            if !is_used {
                self.remove_hop(*id)?;
            }
        }
        Ok(())
    }

    /// The kernel removes routes with their next hop, so this comes last.
    fn remove_hop(&mut self, id: u32) -> Result<(), RouteError> {
        let removed = self
            .socket
            .change("remove a next hop", Nexthop::delete(id), 0);
        unless(removed, Errno::ENOENT).map_err(|source| RouteError::Remove { source })
    }

    /// Something that is already gone counts as removed.
    fn take_away(&mut self, request: RouteNetlinkMessage) -> Result<(), RouteError> {
        let removed = self.socket.change("remove a rule or route", request, 0);
        let removed = unless(removed, Errno::ENOENT);
        unless(removed, Errno::ESRCH).map_err(|source| RouteError::Remove { source })
    }

    /// Next hops of all owners.
    pub(super) fn next_hops(&mut self) -> Result<Vec<Nexthop>, NetlinkError> {
        match self.socket.dump("list its next hops", &Nexthop::list()) {
            // Before Linux 5.3 there are none.
            Err(error) if error.errno() == Some(Errno::EOPNOTSUPP) => Ok(vec![]),
            other => other,
        }
    }

    /// Routes of all protocols.
    fn all_in_our_table(&mut self) -> Result<Vec<RouteMessage>, NetlinkError> {
        let request = RouteNetlinkMessage::GetRoute(messages::all_in_our_table());
        let listed = match self.socket.dump("list its table of routes", &request) {
            // The table exists from its first route on.
            Err(error) if error.errno() == Some(Errno::ENOENT) => vec![],
            other => other?,
        };
        let routes = listed.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        });
        Ok(routes
            .filter(|route| messages::table(route) == Some(ROUTES_TABLE))
            .collect())
    }

    /// The routes, for a caller that has just listed the interfaces.
    pub(crate) fn held_routes(&mut self, links: &[Link]) -> Result<KernelRoutes, NetlinkError> {
        let mut held = KernelRoutes::default();
        held.take_hops(&self.next_hops()?, links);
        for route in self.all_in_our_table()? {
            held.take_route(route);
        }
        let rules = self.all_our_rules()?.into_iter();
        held.rules = rules.filter(messages::is_routes_rule).collect();
        Ok(held)
    }
}

impl KernelRoutes {
    /// The kernel lists routes in order of precedence: of several to one host, the first counts.
    fn take_route(&mut self, route: RouteMessage) {
        let host = messages::host(&route).filter(|host| !self.is_decided(host));
        if !messages::is_ours(&route) {
            let protocol = route.header.protocol.into();
            self.by_others.extend(host.map(|it| (it, protocol)));
            return;
        }
        let group = messages::group(&route).map(GroupId);
        match host.zip(group.filter(|it| self.table.groups.contains_key(it))) {
            Some((host, group)) => drop(self.table.routes.insert(host, group)),
            None => self.stray_routes.push(route),
        }
    }

    fn is_decided(&self, host: &Ipv4Addr) -> bool {
        self.table.routes.contains_key(host) || self.by_others.contains_key(host)
    }

    /// Single next hops are listed before the groups they are in, but nothing relies on that.
    fn take_hops(&mut self, objects: &[Nexthop], links: &[Link]) {
        let ours = |it: &&Nexthop| it.protocol == messages::PROTOCOL_NUMBER;
        self.taken = objects.iter().filter_map(|it| it.id).collect();
        let mut by_id = BTreeMap::new();
        for object in objects.iter().filter(ours) {
            let (Some(id), Leads::To { interface, gateway }) = (object.id, &object.leads) else {
                continue;
            };
            let key = (*interface, *gateway);
            if self.hops.contains_key(&key) || !NEXT_HOP_IDS.contains(&id) {
                self.stray_hops.push(id);
            } else {
                self.hops.insert(key, id);
            }
            if let Some(link) = links.iter().find(|link| link.index == *interface) {
                by_id.insert(id, (link.count.interface.clone(), *gateway));
            }
        }
        for object in objects.iter().filter(ours) {
            let (Some(id), Leads::Group { members, .. }) = (object.id, &object.leads) else {
                continue;
            };
            match read_group(members, &by_id).filter(|_| GROUP_IDS.contains(&id)) {
                Some(hops) => drop(self.table.groups.insert(GroupId(id), hops)),
                None => self.stray_hops.push(id),
            }
        }
    }
}

fn read_group(
    members: &[Member],
    by_id: &BTreeMap<u32, (String, Ipv4Addr)>,
) -> Option<Vec<RouteHop>> {
    let hop = |member: &Member| {
        let (interface, next_hop) = by_id.get(&member.id)?.clone();
        Some(RouteHop {
            interface,
            next_hop,
            weight: member.weight,
        })
    };
    let mut hops = members.iter().map(hop).collect::<Option<Vec<_>>>()?;
    hops.sort_unstable();
    Some(hops)
}

/// Refuses routes that no kernel could hold.
pub(super) fn refuse_nonsense(routes: &[RouteRule]) -> Result<(), RouteError> {
    let mut seen = BTreeSet::new();
    for RouteRule { destination, hops } in routes {
        let destination = *destination;
        if !seen.insert(destination) {
            return Err(RouteError::RoutedTwice { destination });
        }
        if hops.is_empty() {
            return Err(RouteError::NoHop { destination });
        }
        let odd = hops
            .iter()
            .find(|hop| !(1..=MAX_WEIGHT).contains(&hop.weight));
        if let Some(RouteHop { weight, .. }) = odd {
            let weight = *weight;
            return Err(RouteError::Weight {
                destination,
                weight,
            });
        }
    }
    Ok(())
}
