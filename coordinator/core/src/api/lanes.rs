//! The RDMA devices that all hosts of a job have at links that carry traffic, and the number of equal paths from each
//! host to the next.

use std::collections::{BTreeMap, BTreeSet};

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
        let of_hosts: Vec<_> = hosts.iter().map(|&host| self.devices(host)).collect();
        let names: BTreeSet<_> = of_hosts.iter().flat_map(Devices::keys).collect();
        let mut ways = BTreeMap::new();
        let mut lanes_of_hosts = Lanes::default();
        for device in names {
            let lane = self.links(device, hosts, &of_hosts);
            let lane = lane.and_then(|links| self.lane(device, hosts, &links, &mut ways));
            match lane {
                Ok(lane) => lanes_of_hosts.lanes.push(lane),
                Err(why) => lanes_of_hosts.left_out.push(why),
            }
        }
        lanes_of_hosts
            .lanes
            .sort_by_key(|it| (it.device.len(), it.device.clone()));
        let without = hosts
            .iter()
            .zip(&of_hosts)
            .filter(|(_, devices)| devices.is_empty());
        let without =
            without.map(|(&host, _)| format!("{}: no RDMA device is known there", self.name(host)));
        lanes_of_hosts.left_out.extend(without);
        lanes_of_hosts.left_out.truncate(MAX_LEFT_OUT);
        lanes_of_hosts
    }

    fn devices(&self, host: NodeId) -> Devices {
        let mut devices = Devices::new();
        for &link in self.world.fabric().links_of(host) {
            let end = Hop { from: host, link };
            let Some(device) = rdma_device(self.world, end) else {
                continue;
            };
            let carries = self.up.contains(&end) && !self.is_closed[link.index()];
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
