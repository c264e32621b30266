//! The RDMA devices that all hosts of a job have at links that carry traffic, and the number of equal paths from each
//! host to the next. Devices are the same if they have the same name; on rails, they have to be on the same rail too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use reweave_common::fabric::{Nic, NicUse};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::operator::{Lane, Lanes, Response};
use reweave_common::routes::ways_to;
use reweave_common::snapshot::Hop;
use reweave_repair::paths::drained;

use super::registered_jobs::several;
use crate::model::evidence::rdma_device;
use crate::model::world::World;
use crate::rollout::DecisionContext;

/// More flows per connection are not spread better.
const MAX_LANES: u32 = 16;
/// An answer has to fit into one message.
const MAX_LEFT_OUT: usize = 64;

pub(super) fn lanes(turn: &DecisionContext<'_>, hosts: &[String]) -> Response {
    let hosts = several(turn.known.fabric, hosts);
    let lanes = hosts.map(|hosts| Board::of(turn).lanes(&hosts));
    lanes.map_or_else(Response::Refused, Response::Lanes)
}

struct Board<'t> {
    world: &'t World<'t>,
    /// Links that are up, by their near ends.
    up: BTreeSet<Hop>,
    /// By link: whether nothing is sent over it.
    is_closed: Vec<bool>,
}

/// The link of each device of a host, and whether that link carries traffic.
type Devices = BTreeMap<String, (LinkId, bool)>;

/// A rail of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rail {
    number: u16,
    plane: Option<u16>,
}

impl Rail {
    fn of(nic: &Nic) -> Self {
        Self {
            number: nic.rail,
            plane: nic.plane,
        }
    }
}

impl fmt::Display for Rail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rail {}", self.number)?;
        self.plane
            .map_or(Ok(()), |plane| write!(f, " in plane {plane}"))
    }
}

impl<'t> Board<'t> {
    fn of(turn: &DecisionContext<'t>) -> Self {
        let (world, in_force) = (turn.world(), turn.state.in_force());
        let fabric = turn.known.fabric;
        let circuits = in_force.circuits_of(fabric);
        let links = world.links_by(&circuits);
        let mut closed = drained(fabric, &in_force.tables);
        closed.extend(fabric.dark(&circuits));
        closed.extend(
            links
                .iter()
                .filter(|(_, it)| !it.up)
                .map(|(hop, _)| hop.link),
        );
        let is_closed = fabric.links().map(|(link, _)| closed.contains(&link));
        Self {
            is_closed: is_closed.collect(),
            up: links
                .into_iter()
                .filter(|(_, it)| it.up)
                .map(|(hop, _)| hop)
                .collect(),
            world,
        }
    }

    fn lanes(&self, hosts: &[NodeId]) -> Lanes {
        let fabric = self.world.fabric();
        let of_hosts: Vec<_> = hosts.iter().map(|&host| self.devices(host)).collect();
        let on_rails = |host: &NodeId| !fabric.training_nics(*host).is_empty();
        let mut lanes = if fabric.has_declared_nics() && hosts.iter().all(on_rails) {
            let is_any_without = of_hosts.iter().any(Devices::is_empty);
            let known = if is_any_without { &[][..] } else { hosts };
            self.lanes_by_rail(known)
        } else {
            self.lanes_by_name(hosts, &of_hosts)
        };
        let without = hosts
            .iter()
            .zip(&of_hosts)
            .filter(|(_, devices)| devices.is_empty());
        let without =
            without.map(|(&host, _)| format!("{}: no RDMA device is known there", self.name(host)));
        lanes.left_out.extend(without);
        lanes.left_out.truncate(MAX_LEFT_OUT);
        lanes
    }

    fn lanes_by_name(&self, hosts: &[NodeId], of_hosts: &[Devices]) -> Lanes {
        let names: BTreeSet<_> = of_hosts.iter().flat_map(Devices::keys).collect();
        let mut ways = BTreeMap::new();
        let mut lanes_of_hosts = Lanes::default();
        for device in names {
            let lane = self.links(device, hosts, of_hosts);
            let lane = lane.and_then(|links| self.lane(device, hosts, &links, &mut ways));
            match lane {
                Ok(lane) => lanes_of_hosts.lanes.push(lane),
                Err(why) => lanes_of_hosts.left_out.push(why),
            }
        }
        lanes_of_hosts
            .lanes
            .sort_by_key(|it| (it.device.len(), it.device.clone()));
        lanes_of_hosts
    }

    /// In order of rail.
    fn lanes_by_rail(&self, hosts: &[NodeId]) -> Lanes {
        let fabric = self.world.fabric();
        let nics = hosts.iter().flat_map(|&host| fabric.training_nics(host));
        let rails: BTreeSet<_> = nics.map(|id| Rail::of(fabric.nic(id))).collect();
        let mut ways = BTreeMap::new();
        let mut lanes = Lanes::default();
        for rail in rails {
            let found = self.rail_links(rail, hosts);
            let lane =
                found.and_then(|(device, links)| self.lane(device, hosts, &links, &mut ways));
            match lane {
                Ok(lane) if lanes.lanes.iter().any(|it| it.device == lane.device) => {}
                Ok(lane) => lanes.lanes.push(lane),
                Err(why) => lanes.left_out.push(why),
            }
        }
        lanes
    }

    /// The device of a rail, if it has the same name on all hosts, and its links.
    fn rail_links(&self, rail: Rail, hosts: &[NodeId]) -> Result<(&str, Vec<LinkId>), String> {
        let found = hosts.iter().map(|&host| self.device_on(rail, host));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let first = found.first().map_or("", |(device, _)| *device);
        let mut named = hosts.iter().zip(&found);
        if let Some((&host, (other, _))) = named.find(|(_, (device, _))| *device != first) {
            let [first_host, host] = [hosts[0], host].map(|host| self.name(host));
            return Err(format!(
                "{rail}: {first_host} calls its device {first}, {host} {other}: NCCL_IB_HCA \
                 cannot name both"
            ));
        }
        let links: Vec<_> = found.into_iter().map(|(_, link)| link).collect();
        let mut ends = hosts.iter().zip(&links);
        match ends.find(|&(&from, &link)| !self.carries(Hop { from, link })) {
            Some((&host, &link)) => {
                let link = self.world.fabric().link_name(link);
                let host = self.name(host);
                Err(format!("{rail}: {link} of {host} is down, or drained"))
            }
            None => Ok((first, links)),
        }
    }

    fn device_on(&self, rail: Rail, host: NodeId) -> Result<(&str, LinkId), String> {
        let (fabric, name) = (self.world.fabric(), self.name(host));
        let nics = fabric.training_nics(host).into_iter();
        let mut nics = nics.map(|id| fabric.nic(id));
        let nic = nics.find(|nic| Rail::of(nic) == rail);
        let link = nic
            .ok_or_else(|| format!("{rail}: {name} has no NIC on it"))?
            .link;
        match rdma_device(self.world, Hop { from: host, link }) {
            Some(device) => Ok((device, link)),
            None => {
                let link = fabric.link_name(link);
                Err(format!(
                    "{rail}: no RDMA device is known at {link} of {name}"
                ))
            }
        }
    }

    /// Whether the link of a host is up and not drained.
    fn carries(&self, end: Hop) -> bool {
        self.up.contains(&end) && !self.is_closed[end.link.index()]
    }

    fn devices(&self, host: NodeId) -> Devices {
        let mut devices = Devices::new();
        let fabric = self.world.fabric();
        let is_for_training = |link: &&LinkId| {
            let nic = fabric.nic_at(**link).map(|id| fabric.nic(id));
            nic.is_none_or(|nic| nic.purpose == NicUse::Training)
        };
        for &link in fabric.links_of(host).iter().filter(is_for_training) {
            let end = Hop { from: host, link };
            let Some(device) = rdma_device(self.world, end) else {
                continue;
            };
            let carries = self.carries(end);
            let place = devices.entry(device.to_owned()).or_insert((link, carries));
            if carries {
                *place = (link, true);
            }
        }
        devices
    }

    /// The link of a device on each host, if all hosts have it at a link that carries traffic.
    fn links(
        &self,
        device: &str,
        hosts: &[NodeId],
        all: &[Devices],
    ) -> Result<Vec<LinkId>, String> {
        let links = hosts.iter().zip(all).map(|(&host, devices)| {
            let name = self.name(host);
            match devices.get(device) {
                None => Err(format!("{device}: {name} has it on no link of the fabric")),
                Some(&(link, false)) => {
                    let link = self.world.fabric().link_name(link);
                    Err(format!("{device}: {link} of {name} is down, or drained"))
                }
                Some(&(link, true)) => Ok(link),
            }
        });
        links.collect()
    }

    fn lane(
        &self,
        device: &str,
        hosts: &[NodeId],
        links: &[LinkId],
        ways: &mut BTreeMap<NodeId, Vec<u32>>,
    ) -> Result<Lane, String> {
        let mut most = 1;
        let next = (1..hosts.len()).chain([0]);
        for (at, next) in (0..hosts.len()).zip(next).filter(|(at, next)| at != next) {
            let [from, to] = [at, next].map(|nth| self.door(hosts[nth], links[nth]));
            let towards = ways
                .entry(to)
                .or_insert_with(|| ways_to(self.world.fabric(), &self.is_closed, to));
            let there = towards.get(from.index()).copied().unwrap_or_default();
            if there == 0 {
                let [from, to] = [at, next].map(|nth| self.name(hosts[nth]));
                return Err(format!("{device}: no path from {from} to {to}"));
            }
            most = most.max(there);
        }
        Ok(Lane {
            device: device.to_owned(),
            ways: most.min(MAX_LANES),
        })
    }

    /// The switch behind the link. A host that is wired to other hosts stands for itself.
    fn door(&self, host: NodeId, link: LinkId) -> NodeId {
        let fabric = self.world.fabric();
        let far = fabric.link(link).far(host).node;
        if fabric.node(far).role.is_endpoint() {
            host
        } else {
            far
        }
    }

    fn name(&self, host: NodeId) -> &str {
        self.world.fabric().name(host)
    }
}
