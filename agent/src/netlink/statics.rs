//! Routes that another program makes the kernel hold: those that FRR was configured to have.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use netlink_packet_route::RouteNetlinkMessage;
use reweave_common::holding::{RouteHop, RouteRule};

use super::messages::{self, By, NextHop};
use super::nexthop::{Leads, Nexthop};
use super::routes::{read_group, refuse_nonsense};
use super::{Link, NetlinkError, RouteError, RouteSocket};

impl RouteSocket {
    /// Those to single hosts, in the main table.
    pub fn static_routes(&mut self, links: &[Link]) -> Result<Vec<RouteRule>, NetlinkError> {
        let request = RouteNetlinkMessage::GetRoute(messages::all_static_routes());
        let listed = self.socket.dump("list its static routes", &request)?;
        let ways = Ways::new(&self.next_hops()?, links);
        let rule = |message| {
            let RouteNetlinkMessage::NewRoute(route) = message else {
                return None;
            };
            let (destination, by) = messages::static_to_host(&route)?;
            let hops = ways.of(by)?;
            Some(RouteRule { destination, hops })
        };
        Ok(listed.into_iter().filter_map(rule).collect())
    }

    /// What nobody could make the kernel hold now.
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
struct Ways {
    interfaces: BTreeMap<u32, String>,
    single: BTreeMap<u32, (String, Ipv4Addr)>,
    groups: BTreeMap<u32, Vec<RouteHop>>,
}

impl Ways {
    fn new(objects: &[Nexthop], links: &[Link]) -> Self {
        let named = |link: &Link| (link.index, link.count.interface.clone());
        let mut ways = Self {
            interfaces: links.iter().map(named).collect(),
            single: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        for object in objects {
            if let (Some(id), Leads::To { interface, gateway }) = (object.id, &object.leads)
                && let Some(name) = ways.interfaces.get(interface)
            {
                ways.single.insert(id, (name.clone(), *gateway));
            }
        }
        for object in objects {
            if let (Some(id), Leads::Group { members, .. }) = (object.id, &object.leads)
                && let Some(hops) = read_group(members, &ways.single)
            {
                ways.groups.insert(id, hops);
            }
        }
        ways
    }

    fn of(&self, by: By) -> Option<Vec<RouteHop>> {
        match by {
            By::Object(id) => self.of_object(id),
            By::Hops(hops) => {
                let hop = |(hop, weight)| self.hop(hop, weight);
                let mut hops = hops.into_iter().map(hop).collect::<Option<Vec<_>>>()?;
                hops.sort_unstable();
                Some(hops)
            }
        }
    }

    fn of_object(&self, id: u32) -> Option<Vec<RouteHop>> {
        if let Some(hops) = self.groups.get(&id) {
            return Some(hops.clone());
        }
        let (interface, next_hop) = self.single.get(&id)?.clone();
        Some(vec![RouteHop {
            interface,
            next_hop,
            weight: 1,
        }])
    }

    fn hop(&self, NextHop { interface, gateway }: NextHop, weight: u32) -> Option<RouteHop> {
        Some(RouteHop {
            interface: self.interfaces.get(&interface)?.clone(),
            next_hop: gateway,
            weight,
        })
    }
}
