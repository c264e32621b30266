//! The probe schedule: every host probes the others, each from a few source ports, enough to cover all paths between
//! two racks in 99 of 100 cases. The path of each port is traced, and then few of them are kept. A NIC probes the NICs
//! of its rail; those for storage and management are not probed.
//!
//! In a large cluster a host probes the next [`MAX_PEERS`] in the fabric's order, and so each is probed by as many.
//! Most of them are probed from one port, since not all paths can be traced.

mod candidates;
mod selection;

use std::collections::BTreeMap;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;
use std::time::Duration;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::moment::Moment;
use reweave_common::operator::ProbeCoverage;
use reweave_common::probing::{PROBE_PORT, ProbeList};
use reweave_common::units::Rate;
use reweave_repair::probes::ports_for;

use crate::estimate::interval_timer::IntervalTimer;
use crate::log::effect::Outbox;
use crate::model::world::{Measurements, World};
use candidates::{Pair, Share};
use selection::Selection;

const MAX_PEERS: usize = 64;
/// Kernels choose ephemeral ports from higher numbers.
const FIRST_SOURCE_PORT: u16 = 7400;
/// With fewer flows, a single loss means little; with more, each flow is probed too rarely.
const SOURCE_PORT_COUNTS: std::ops::RangeInclusive<usize> = 4..=64;
/// The probability with which every path between two racks is probed.
const MIN_COVERAGE: f64 = 0.99;
/// Probes take at most this fraction of a host's slowest link.
const MIN_RATE_DIVISOR: u64 = 1000;
const PROBE_LIST_TTL: Duration = Duration::from_secs(30);
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// Lists are long where hosts are many, so few are sent at a time and other messages are not delayed. In the largest
/// cluster, every host gets its list well before the old one expires.
const MAX_LISTS_PER_TICK: usize = 64;

#[derive(Debug, Clone, Default)]
pub(crate) struct ProbeSchedule {
    /// The addresses of every host that ever reported. A missing host is probed further, to find out whether its
    /// agent, the host or the path failed.
    addresses: Addresses,
    selection: Selection,
    /// The version of the lists.
    edition: u64,
    /// The first version with a host's present addresses.
    since: BTreeMap<NodeId, u64>,
    /// The time and the version of each agent's last list.
    sent_lists: BTreeMap<NodeId, (Moment, u64)>,
    looks: IntervalTimer,
}

/// A possible probe flow between two addresses.
#[derive(Debug, Clone, Copy)]
struct ProbeCandidate {
    pair: usize,
    flow: FlowKey,
}

/// The addresses of each host on the fabric.
type Addresses = BTreeMap<NodeId, Vec<ProbeEnd>>;

/// An address that probes and is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProbeEnd {
    address: Ipv4Addr,
    /// Rail and plane of its NIC; none for a relay.
    rail: Option<(u16, Option<u16>)>,
}

impl ProbeSchedule {
    /// A reconnected agent has no list.
    pub(crate) fn handle_connected(&mut self, node: NodeId) {
        self.sent_lists.remove(&node);
    }

    /// Lists have intervals of the policy, so all are sent again.
    pub(crate) fn handle_policy(&mut self) {
        self.edition += 1;
    }

    /// Sends probe lists to hosts, if a list has changed or was sent a while ago.
    pub(crate) fn advance(&mut self, known: Measurements<'_>, out: &mut Outbox) {
        if self.looks.is_due(known.now, known.policy.look_every) {
            self.learn(addresses(known));
            let mut selection = mem::take(&mut self.selection);
            self.edition += u64::from(selection.advance(known, || self.asked(known)));
            self.selection = selection;
        }
        let due = self.due(known);
        let news = due.iter().map(|node| (*node, (known.now, self.edition)));
        self.sent_lists.extend(news);
        for node in due {
            out.probe(node, self.list(known, node));
        }
    }

    fn learn(&mut self, mut seen: Addresses) {
        seen.retain(|node, seen| self.addresses.get(node) != Some(seen));
        if !seen.is_empty() {
            self.selection.forget();
            self.edition += 1;
            let edition = self.edition;
            self.since.extend(seen.keys().map(|node| (*node, edition)));
            self.addresses.extend(seen);
        }
    }

    /// Whether a host answers another one's probes: its roster has the other's address. An absent host is assumed to
    /// do so.
    fn answers(&self, known: Measurements<'_>, node: NodeId, prober: NodeId) -> bool {
        let since = self.since.get(&prober);
        let sent = self.sent_lists.get(&node).map(|(_, edition)| edition);
        !known.ingest.is_connected(node) || sent.is_some_and(|sent| Some(sent) >= since)
    }

    fn list(&self, known: Measurements<'_>, node: NodeId) -> ProbeList {
        let pairs = self.pairs(known, node, self.addresses_in_all());
        let pairs = pairs.filter(|pair| self.answers(known, pair.peer, node));
        let pairs: Vec<_> = pairs.collect();
        let all = pairs.len() * usize::from(ports(known.fabric, node));
        let flows = pairs.iter().flat_map(|pair| {
            let kept = |flow: &FlowKey| !pair.is_open || self.selection.keeps(flow);
            pair.flows().filter(kept)
        });
        let flows: Vec<_> = flows.collect();
        ProbeList {
            // The total rate is constant, whatever the number of flows.
            period: (known.policy.probe_every * flows.len() as u32 / all.max(1) as u32).into(),
            flows,
            most_rate: most_rate(known, node),
            roster: self.roster(),
            valid_for: PROBE_LIST_TTL.into(),
            trains_every: Some(known.policy.trains_every.into()),
        }
    }

    fn roster(&self) -> Vec<Ipv4Addr> {
        let ends = self.addresses.values().flatten();
        ends.map(|end| end.address).collect()
    }

    /// Returns the peers of a host, with the addresses at both ends.
    fn peers(
        &self,
        fabric: &Fabric,
        node: NodeId,
    ) -> impl Iterator<Item = (NodeId, Vec<[Ipv4Addr; 2]>)> {
        let addresses = &self.addresses;
        let after = addresses.range(node..).skip(1);
        let peers = after.chain(addresses.range(..node)).take(MAX_PEERS);
        let own = addresses.get(&node).map_or(&[][..], Vec::as_slice);
        peers.map(move |(peer, theirs)| (*peer, pairs(fabric, own, theirs)))
    }

    fn addresses_in_all(&self) -> usize {
        self.addresses.values().map(Vec::len).sum()
    }

    /// Returns the peers of a host with their ports, for this number of addresses.
    fn pairs(
        &self,
        known: Measurements<'_>,
        node: NodeId,
        addresses: usize,
    ) -> impl Iterator<Item = Pair> {
        let share = Share::of(addresses, ports(known.fabric, node));
        let peers: Vec<_> = self.peers(known.fabric, node).collect();
        let places = peers.len();
        let peers = peers.into_iter().enumerate();
        peers.flat_map(move |(place, (peer, pairs))| {
            let pairs = pairs.into_iter();
            pairs.map(move |ends| share.pair(node.index(), place, places, peer, ends))
        })
    }

    /// Returns all candidate probes of all hosts.
    fn asked(&self, known: Measurements<'_>) -> Vec<ProbeCandidate> {
        let addresses = self.addresses_in_all();
        let hosts = self.addresses.keys();
        let pairs = hosts.flat_map(|&node| self.pairs(known, node, addresses));
        let open = pairs.filter(|pair| pair.is_open).enumerate();
        let asked = open.flat_map(|(nth, pair)| {
            let flows = pair.flows();
            flows.map(move |flow| ProbeCandidate { pair: nth, flow })
        });
        asked.collect()
    }

    /// Returns how the links are crossed by probes; none while that is being traced.
    pub(crate) fn coverage(&self, fabric: &Fabric) -> Option<ProbeCoverage> {
        self.selection.coverage(fabric)
    }

    /// Those with the oldest lists first.
    fn due(&self, known: Measurements<'_>) -> Vec<NodeId> {
        let hosts = self.addresses.keys().copied();
        let there = hosts.filter(|node| known.ingest.is_connected(*node));
        let mut due: Vec<_> = there
            .filter(|node| !self.is_sent(known.now, *node))
            .collect();
        due.sort_by_key(|node| self.sent_lists.get(node).map(|(at, _)| *at));
        due.truncate(MAX_LISTS_PER_TICK);
        due
    }

    fn is_sent(&self, now: Moment, node: NodeId) -> bool {
        let sent = self.sent_lists.get(&node);
        sent.is_some_and(|(at, edition)| {
            *edition == self.edition && now.since(*at) < REFRESH_INTERVAL
        })
    }
}

/// Returns the addresses of hosts that are known to be on a link of the fabric, without those of NICs for storage and
/// management. A forwarding host is one place, however many links it has.
fn addresses(known: Measurements<'_>) -> Addresses {
    let world = known.world();
    let (fabric, wiring) = (known.fabric, &world.wiring);
    let mut addresses = Addresses::new();
    for (address, node) in wiring.addresses() {
        let is_host = fabric.node(node).role == Role::Host;
        if let Some(nic) = wiring.nic(fabric, address)
            && is_host
            && wiring.is_for_training(address)
        {
            let nic = fabric.nic(nic);
            let rail = Some((nic.rail, nic.plane));
            let end = ProbeEnd { address, rail };
            addresses.entry(node).or_default().push(end);
        }
    }
    addresses.extend(relays(&world));
    addresses
}

/// Returns each relay with its address for the others over cables: the one in the fabric file, or else one that is not
/// only for a neighbour on a link. The path of probes over fibres could not be known.
fn relays(world: &World<'_>) -> Addresses {
    let (fabric, wiring) = (world.fabric(), &world.wiring);
    let is_relay = |node: &NodeId| fabric.node(*node).role == Role::Relay;
    let relays: Vec<_> = fabric.endpoints().filter(is_relay).collect();
    if relays.is_empty() {
        return Addresses::new();
    }
    let gateways = world.gateways();
    let of = |node: NodeId| {
        let own = || wiring.addresses_of(node);
        let address = fabric.address(node);
        let address = address.filter(|it| wiring.node(*it) == Some(node));
        let for_all = || own().find(|it| !gateways.contains(it));
        let first = own().next()?;
        let address = address.or_else(for_all).unwrap_or(first);
        let rail = None;
        Some((node, vec![ProbeEnd { address, rail }]))
    };
    relays.into_iter().filter_map(of).collect()
}

/// Pairs addresses of the same rail and plane. On a rail that the other host lacks, nothing is probed if the fabric's
/// file declares NICs, else the host's last address. A relay is probed from every rail.
fn pairs(fabric: &Fabric, own: &[ProbeEnd], theirs: &[ProbeEnd]) -> Vec<[Ipv4Addr; 2]> {
    let pair = |(place, from): (usize, &ProbeEnd)| {
        let is_equal = |end: &&ProbeEnd| end.rail == from.rail;
        let nth = own[..place].iter().filter(is_equal).count();
        let equal = theirs.iter().filter(is_equal).nth(nth);
        let equal = equal.or_else(|| theirs.iter().rfind(is_equal));
        let is_free = |to: &&ProbeEnd| {
            !fabric.has_declared_nics() || from.rail.is_none() || to.rail.is_none()
        };
        let to = equal.or_else(|| theirs.last().filter(is_free))?;
        Some([from.address, to.address])
    };
    own.iter().enumerate().filter_map(pair).collect()
}

/// The number of source ports with which the hosts of a rack together see all paths to another rack of the same size.
fn ports(fabric: &Fabric, node: NodeId) -> u16 {
    let far = |at: NodeId, link: &LinkId| fabric.link(*link).far(at).node;
    let rack = fabric.training_links(node).next();
    let rack = rack.map(|link| far(node, &link));
    let rack = rack.filter(|&rack| fabric.node(rack).role == Role::Switch);
    let links = rack.map_or(&[][..], |rack| fabric.links_of(rack));
    let to_hosts =
        |link: &&LinkId| rack.is_some_and(|rack| fabric.node(far(rack, link)).role.is_endpoint());
    let hosts = links.iter().filter(to_hosts).count().max(1);
    let ways = links.len() - hosts.min(links.len());
    let ports = ports_for(ways, MIN_COVERAGE).div_ceil(hosts * hosts);
    ports.clamp(*SOURCE_PORT_COUNTS.start(), *SOURCE_PORT_COUNTS.end()) as u16
}

fn flows([from, to]: [Ipv4Addr; 2], ports: Range<u16>) -> impl Iterator<Item = FlowKey> {
    ports.map(move |port| FlowKey {
        protocol: Protocol::Udp,
        source: SocketAddrV4::new(from, port),
        destination: SocketAddrV4::new(to, PROBE_PORT),
    })
}

fn most_rate(known: Measurements<'_>, node: NodeId) -> Rate {
    let links = known.fabric.training_links(node);
    let slowest = links
        .map(|link| known.fabric.link(link).rate.bits_per_s())
        .min();
    Rate::from_bits_per_s(slowest.unwrap_or(0) / MIN_RATE_DIVISOR)
}

#[cfg(test)]
mod tests;
