//! A fabric for the simulator: directed links, shortest paths over them, and costs of sending in addition to sharing.

mod compass;
mod nics;
mod spread;

use reweave_common::fabric::{Fabric, Link, NicUse, Node, Role};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::units::Rate;
use reweave_repair::paths::ecmp::{Ecmp, Label};

use super::{LinkIndex, Problem, ProblemError, SimTime};

pub use compass::{Compass, Towards};
pub use spread::Part;

/// Costs of sending in addition to the time on the links. By default there are none.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Before the first bit of each transfer leaves.
    pub start_up: SimTime,
    /// Bytes on the links per byte that is sent: what headers add.
    pub wire_per_byte: f64,
    /// Maximum forwarding rate of a host; if unknown, the rate of its links.
    pub relay_rate: Option<Rate>,
    /// At each host that forwards.
    pub relay_delay: SimTime,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            start_up: SimTime::ZERO,
            wire_per_byte: 1.0,
            relay_rate: None,
            relay_delay: SimTime::ZERO,
        }
    }
}

/// A path from one node to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkPath {
    pub links: Vec<LinkIndex>,
    /// Delay from the start of a transfer to its first bit on the links: latencies and costs.
    pub delay: SimTime,
}

impl NetworkPath {
    fn add_delay(&mut self, delay: SimTime) {
        self.delay = self.delay.checked_add(delay).unwrap_or(SimTime::MAX);
    }
}

/// One direction of a cable, as seen from the node that sends on it.
#[derive(Debug, Clone, Copy)]
struct Edge {
    to: u32,
    link: LinkIndex,
}

/// Cable `n` is link `2n` from its end `a`, and `2n + 1` from `b`. After the cables comes one link for each forwarding
/// host with a limited rate.
#[derive(Debug, Clone)]
pub struct Network {
    capacities: Vec<Rate>,
    latencies: Vec<SimTime>,
    /// End of each node's edges.
    ends: Vec<u32>,
    edges: Vec<Edge>,
    roles: Vec<Role>,
    /// Index of each node among the forwarding nodes.
    places: Vec<Option<u32>>,
    /// Link that represents the forwarding of each node.
    relays: Vec<Option<LinkIndex>>,
    costs: Costs,
}

impl Network {
    pub fn of(fabric: &Fabric, costs: Costs) -> Self {
        Self::over(fabric, costs, |_| true)
    }

    /// The same for the traffic of jobs, which crosses no NIC that is for storage or management.
    pub fn for_training(fabric: &Fabric, costs: Costs) -> Self {
        Self::over(fabric, costs, |cable| {
            let nic = fabric.nic_at(cable).map(|id| fabric.nic(id));
            nic.is_none_or(|nic| nic.purpose == NicUse::Training)
        })
    }

    /// Only over the cables that `carries` names; all keep their numbers.
    fn over(fabric: &Fabric, costs: Costs, carries: impl Fn(LinkId) -> bool) -> Self {
        let links = || fabric.links().map(|(_, link)| link);
        let twice = |link: &Link| [link.rate; 2];
        let delays = |link: &Link| [SimTime::from_duration(link.latency); 2];
        let mut network = Self {
            capacities: links().flat_map(twice).collect(),
            latencies: links().flat_map(delays).collect(),
            ends: vec![0],
            edges: Vec::new(),
            roles: fabric.nodes().map(|(_, node)| node.role).collect(),
            places: places(fabric),
            relays: vec![None; fabric.nodes().len()],
            costs,
        };
        for (node, _) in fabric.nodes() {
            let cables = fabric.links_of(node).iter().copied();
            for cable in cables.filter(|&cable| carries(cable)) {
                let link = fabric.link(cable);
                let backwards = u32::from(link.a.node != node);
                network.edges.push(Edge {
                    to: link.far(node).node.index() as u32,
                    link: cable.index() as u32 * 2 + backwards,
                });
            }
            network.ends.push(network.edges.len() as u32);
        }
        network.add_relays();
        network
    }

    fn add_relays(&mut self) {
        let Some(rate) = self.costs.relay_rate else {
            return;
        };
        for (role, relay) in self.roles.iter().zip(&mut self.relays) {
            if *role == Role::Relay {
                *relay = Some(self.capacities.len() as u32);
                self.capacities.push(rate);
            }
        }
    }

    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    pub fn capacities(&self) -> &[Rate] {
        &self.capacities
    }

    /// A problem with the links of this network and nothing else.
    pub fn problem(&self) -> Result<Problem, ProblemError> {
        let mut problem = Problem::new();
        for &rate in &self.capacities {
            problem.add_link(rate)?;
        }
        Ok(problem)
    }

    /// The bits on the links when this many bytes are sent.
    pub fn bits(&self, bytes: f64) -> f64 {
        bytes * 8.0 * self.costs.wire_per_byte
    }

    fn edges(&self, node: usize) -> &[Edge] {
        &self.edges[self.ends[node] as usize..self.ends[node + 1] as usize]
    }

    /// Returns the shortest path that hashing selects for a flow; none without a path.
    pub fn way(
        &self,
        from: NodeId,
        towards: &Towards,
        ecmp: &Ecmp,
        label: Label,
    ) -> Option<NetworkPath> {
        let mut way = NetworkPath::default();
        self.find_way(from, towards, ecmp, label, &mut way)
            .then_some(way)
    }

    /// Writes the path into an existing buffer. Returns false without a path.
    pub fn find_way(
        &self,
        from: NodeId,
        towards: &Towards,
        ecmp: &Ecmp,
        label: Label,
        way: &mut NetworkPath,
    ) -> bool {
        let hashed = |node: usize, choices: usize| ecmp.choose(node as u32, label, choices);
        self.find_chosen(from, towards, hashed, way)
    }

    /// Returns the shortest path for the choices that `choose` makes at each node.
    pub(crate) fn find_chosen(
        &self,
        from: NodeId,
        towards: &Towards,
        choose: impl Fn(usize, usize) -> usize,
        way: &mut NetworkPath,
    ) -> bool {
        self.begin(way);
        if self.hops(from, towards).is_none() {
            return false;
        }
        let mut at = from.index();
        while at != towards.to() {
            let mut closer = self.closer(at, towards);
            let choices = closer.clone().count();
            let Some(edge) = closer.nth(choose(at, choices)) else {
                return false;
            };
            at = edge.to as usize;
            self.go_on(way, edge, at == towards.to());
        }
        true
    }

    /// Returns the path over these nodes; hashing selects one of parallel cables. None if two of them are not
    /// neighbours.
    pub fn along(&self, nodes: &[NodeId], ecmp: &Ecmp, label: Label) -> Option<NetworkPath> {
        let mut way = NetworkPath::default();
        self.begin(&mut way);
        for (nth, pair) in nodes.windows(2).enumerate() {
            let [at, next] = [pair[0].index(), pair[1].index()];
            let mut parallel = self.edges(at).iter().filter(|it| it.to as usize == next);
            let choices = parallel.clone().count();
            let nth_choice = ecmp.choose(at as u32, label, choices.max(1));
            let edge = *parallel.nth(nth_choice)?;
            self.go_on(&mut way, edge, nth + 2 == nodes.len());
        }
        Some(way)
    }

    fn begin(&self, way: &mut NetworkPath) {
        way.links.clear();
        way.delay = self.costs.start_up;
    }

    fn go_on(&self, way: &mut NetworkPath, edge: Edge, arrived: bool) {
        way.links.push(edge.link);
        way.add_delay(self.latencies[edge.link as usize]);
        if arrived || self.roles[edge.to as usize] != Role::Relay {
            return;
        }
        way.links.extend(self.relays[edge.to as usize]);
        way.add_delay(self.costs.relay_delay);
    }
}

/// Returns the index of each node among the forwarding nodes.
fn places(fabric: &Fabric) -> Vec<Option<u32>> {
    let mut next = 0;
    let place = |(_, node): (NodeId, &Node)| {
        let place = node.role.forwards().then_some(next);
        next += u32::from(place.is_some());
        place
    };
    fabric.nodes().map(place).collect()
}

#[cfg(test)]
mod tests {
    use reweave_repair::paths::ecmp::Fields;

    use super::*;

    fn fabric(text: &str) -> Fabric {
        Fabric::parse("fabric.toml", text).unwrap()
    }

    fn way(fabric: &Fabric, costs: Costs, [from, to]: [&str; 2], seed: u64) -> Option<NetworkPath> {
        let network = Network::of(fabric, costs);
        let [from, to] = [from, to].map(|name| fabric.find(name).unwrap());
        let ecmp = Ecmp::Mixed { seed };
        let label = ecmp.label(Fields {
            source: from.index() as u32,
            destination: to.index() as u32,
            source_port: 0,
            destination_port: 0,
            protocol: 17,
        });
        network.way(from, &network.towards(to), &ecmp, label)
    }

    const LEAF_SPINE: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 2\n\
                              host_gbps = 1\nuplink_gbps = 1\nlatency_us = 1.5";

    #[test]
    fn path_uses_each_cable_direction() {
        let fabric = fabric(LEAF_SPINE);
        let way = way(&fabric, Costs::default(), ["h3", "h0"], 0).unwrap();
        assert_eq!(way.links.len(), 4);
        assert_eq!((way.links[0], way.links[3]), (2 * 3, 1));
        assert_eq!(way.delay.micros(), 6.0);
    }

    #[test]
    fn seeds_reach_every_spine() {
        let fabric = fabric(LEAF_SPINE);
        let spine = |seed| {
            way(&fabric, Costs::default(), ["h3", "h0"], seed)
                .unwrap()
                .links[1]
        };
        let mut spines: Vec<_> = (0..40).map(spine).collect();
        spines.sort_unstable();
        spines.dedup();
        assert_eq!(spines.len(), 4);
    }

    #[test]
    fn forwarding_hosts_are_extra_links() {
        let ring = "kind = \"direct\"\nhosts = 5\nlink_gbps = 10\nstrides = [1]\nlatency_us = 1";
        let fabric = fabric(ring);
        let costs = Costs {
            start_up: SimTime::from_micros(2.0).unwrap(),
            relay_rate: Rate::from_gbps(7.0),
            relay_delay: SimTime::from_micros(0.5).unwrap(),
            ..Costs::default()
        };
        let way = way(&fabric, costs, ["h0", "h2"], 0).unwrap();
        assert_eq!(way.links, [0, 10 + 1, 2]);
        assert_eq!(way.delay.micros(), 2.0 + 2.0 + 0.5);
    }

    #[test]
    fn disconnected_nodes_have_no_path() {
        let text = r#"
            kind = "graph"
            node = [{ name = "a", role = "host" }, { name = "b", role = "host" },
                    { name = "c", role = "host" }]
            link = [{ a = "a", b = "b", gbps = 1 }, { a = "b", b = "c", gbps = 1 }]
        "#;
        let fabric = fabric(text);
        assert_eq!(way(&fabric, Costs::default(), ["a", "c"], 0), None);
        assert!(way(&fabric, Costs::default(), ["a", "b"], 0).is_some());
    }
}
