//! Routes of another program in the kernel: those of FRR's configuration.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use netlink_packet_route::RouteNetlinkMessage;
use reweave_common::forwarding_state::{RouteHop, RouteRule};

use super::messages::{self, By, KernelNextHop};
use super::nexthop::{Leads, Member, Nexthop};
use super::routes::refuse_nonsense;
use super::{Link, NetlinkError, RouteError, RouteSocket};

impl RouteSocket {
    /// Those to single hosts, in the main table.
    pub fn static_routes(&mut self, links: &[Link]) -> Result<Vec<RouteRule>, NetlinkError> {
        let request = RouteNetlinkMessage::GetRoute(messages::all_static_routes());
        let listed = self.socket.dump("list its static routes", &request)?;
        let ways = NexthopTargets::new(self.next_hops()?, links);
        Ok(listed
            .into_iter()
            .filter_map(|message| {
                let RouteNetlinkMessage::NewRoute(route) = message else {
                    return None;
                };
                let (destination, by) = messages::static_to_host(&route)?;
                let hops = ways.to(destination, by)?;
                Some(RouteRule { destination, hops })
            })
            .collect())
    }

    /// Routes that cannot be installed now.
    pub(crate) fn refuse_impossible(&mut self, desired: &[RouteRule]) -> Result<(), RouteError> {
        refuse_nonsense(desired)?;
        let links = self.links()?;
        for hop in desired.iter().flat_map(|rule| &rule.hops) {
            let name = || hop.interface.clone();
            let link = links.iter().find(|it| it.count.interface == hop.interface);
            let link = link.ok_or_else(|| RouteError::NoSuchInterface { name: name() })?;
            if !link.count.up {
                return Err(RouteError::InterfaceDown { name: name() });
            }
        }
        Ok(())
    }
}

/// Where next hops lead, by what they are called.
struct NexthopTargets {
    interfaces: BTreeMap<u32, String>,
    single: BTreeMap<u32, (u32, Option<Ipv4Addr>)>,
    groups: BTreeMap<u32, Vec<Member>>,
}

impl NexthopTargets {
    fn new(objects: Vec<Nexthop>, links: &[Link]) -> Self {
        let named = |link: &Link| (link.index, link.count.interface.clone());
        let mut ways = Self {
            interfaces: links.iter().map(named).collect(),
            single: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        for object in objects {
            if let Some(id) = object.id {
                ways.take(id, object.leads);
            }
        }
        ways
    }

    fn take(&mut self, id: u32, leads: Leads) {
        match leads {
            Leads::Elsewhere => {}
            Leads::To { interface, gateway } => {
                self.single.insert(id, (interface, Some(gateway)));
            }
            Leads::Over { interface } => {
                self.single.insert(id, (interface, None));
            }
            Leads::Group { members, .. } => {
                self.groups.insert(id, members);
            }
        }
    }

    /// The hops in order, if all are known.
    fn to(&self, destination: Ipv4Addr, by: By) -> Option<Vec<RouteHop>> {
        let ways = match by {
            By::Hops(ways) => ways,
            By::Object(id) => self.of_object(id)?,
        };
        let mut hops = ways
            .into_iter()
            .map(|way| {
                Some(RouteHop {
                    interface: self.interfaces.get(&way.interface)?.clone(),
                    next_hop: way.gateway.unwrap_or(destination),
                    weight: way.weight,
                })
            })
            .collect::<Option<Vec<_>>>()?;
        hops.sort_unstable();
        Some(hops)
    }

    fn of_object(&self, id: u32) -> Option<Vec<KernelNextHop>> {
        let alone = [Member { id, weight: 1 }];
        let members = self.groups.get(&id).map_or(&alone[..], Vec::as_slice);
        let way = |member: &Member| {
            let (interface, gateway) = *self.single.get(&member.id)?;
            let weight = member.weight;
            Some(KernelNextHop {
                interface,
                gateway,
                weight,
            })
        };
        members.iter().map(way).collect()
    }
}
