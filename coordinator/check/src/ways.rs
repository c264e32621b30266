//! Where the packets of one flow may go while a plan is carried out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::Pin;
use reweave_common::snapshot::Hop;

use crate::mesh::Ground;
use crate::pins::{FlowPins, named};
use crate::{Network, Unsound};

/// How many hops each node is from a destination: first for routers that have not heard what is down, then for those that
/// have. Nodes that forward nothing end a way.
type HopsLeft = [Vec<Option<usize>>; 2];

/// A host, and the link of the NIC that packets there are for, where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowTarget {
    pub(crate) node: NodeId,
    pub(crate) nic: Option<LinkId>,
}

impl FlowTarget {
    fn is_entry(self, link: LinkId) -> bool {
        self.nic.is_none_or(|nic| nic == link)
    }
}

/// What may befall a flow with these pins planned, each of which a switch could carry out.
///
/// Where links are down, routers elsewhere may have heard of it and send around, or not yet, or they never will. The
/// plan must be sound either way; where it is not, one of them is reported.
pub(crate) fn judge(
    ground: &Ground<'_>,
    hops_left: &HopsLeft,
    flow: FlowKey,
    destination: FlowTarget,
    pins: &FlowPins,
) -> Vec<Unsound> {
    let faults = |rerouted: bool| {
        let ways = FlowPaths {
            ground,
            flow,
            destination,
            hops_left: &hops_left[usize::from(rerouted)],
            rerouted,
            before: by_node(in_force(ground.network, &pins.in_force)),
            after: by_node(pins.planned.iter().copied()),
        };
        ways.faults()
    };
    let mut both = [false, true].into_iter().map(faults);
    both.find(|faults| !faults.is_empty()).unwrap_or_default()
}

/// Those that are carried out now. The plan is not to blame for what is wrong there.
fn in_force(network: &Network<'_>, pins: &[Pin]) -> impl Iterator<Item = Pin> {
    let pins = pins.iter().copied();
    pins.filter(move |pin| network.is_at(pin.at, pin.link))
}

fn by_node(pins: impl Iterator<Item = Pin>) -> Pins {
    pins.map(|pin| (pin.at, pin.link)).collect()
}

/// By node: the link to which the flow is pinned there.
type Pins = BTreeMap<NodeId, LinkId>;

/// The ways of one flow's packets, before and after.
struct FlowPaths<'a> {
    ground: &'a Ground<'a>,
    flow: FlowKey,
    destination: FlowTarget,
    hops_left: &'a [Option<usize>],
    /// Whether routers send around links that are down elsewhere.
    rerouted: bool,
    before: Pins,
    after: Pins,
}

impl FlowPaths<'_> {
    /// Only what packets meet behind a switch that has followed the plan: a flow that circled or
    /// was lost before is not held against a plan that may be its cure.
    fn faults(&self) -> Vec<Unsound> {
        let pinned = self.before.keys().chain(self.after.keys());
        let touched: BTreeSet<_> = pinned.copied().collect();
        let circle = touched
            .iter()
            .find_map(|&switch| self.circle_behind(switch));
        let circle = circle.map(|nodes| self.named_loop(&nodes));
        let lost = touched
            .iter()
            .flat_map(|&switch| self.black_holes_behind(switch));
        let stray = touched
            .iter()
            .find_map(|&switch| self.other_nic_behind(switch));
        circle.into_iter().chain(lost).chain(stray).collect()
    }

    /// Nodes that packets may pass one after another and then the first again. One of them is
    /// pinned: all others send downhill.
    fn circle_behind(&self, switch: NodeId) -> Option<Vec<NodeId>> {
        let heads = self.heads(switch, &self.after);
        let reached = heads.flat_map(|head| self.reached_from(head).into_keys());
        let is_pinned =
            |node: &NodeId| self.before.contains_key(node) || self.after.contains_key(node);
        let mut pinned = reached.filter(is_pinned);
        pinned.find_map(|node| self.way_back(node))
    }

    fn way_back(&self, start: NodeId) -> Option<Vec<NodeId>> {
        let mut circle = vec![start];
        let next = self.next_nodes(start).into_iter();
        let mut reached = next.map(|next| self.reached_from(next));
        let came_from = reached.find(|came_from| came_from.contains_key(&start))?;
        let mut node = came_from[&start];
        while let Some(before) = node {
            circle.push(before);
            node = came_from[&before];
        }
        circle[1..].reverse();
        Some(circle)
    }

    /// Where packets may be lost that a switch sends as planned. A flow that loses its pin goes the
    /// ordinary way again; if that has not been rerouted, it is not the plan's doing.
    fn black_holes_behind(&self, switch: NodeId) -> Vec<Unsound> {
        if !self.rerouted && !self.after.contains_key(&switch) {
            return Vec::new();
        }
        let lost = |link: LinkId| {
            let reached = self.reached_from(self.head(switch, link));
            let stuck_at = reached.into_keys().find(|&node| self.is_stuck(node))?;
            Some(self.named_black_hole(switch, link, stuck_at))
        };
        let links = self.links(switch, &self.after).into_iter();
        links.filter_map(lost).collect()
    }

    /// A way to the host that does not end over the link of the NIC that packets are for. Only pins and tables lead there.
    /// The host may drop what comes over another link, so it counts as lost.
    fn other_nic_behind(&self, switch: NodeId) -> Option<Unsound> {
        let nic = self.destination.nic?;
        let links = self.links(switch, &self.after).into_iter();
        let own = links.clone().map(|link| Hop { from: switch, link });
        let reached = links.flat_map(|link| self.reached_from(self.head(switch, link)).into_keys());
        let behind = reached.flat_map(|node| {
            let mixture = [&self.before, &self.after].into_iter();
            let links = mixture.flat_map(move |pins| self.links(node, pins));
            links.map(move |link| Hop { from: node, link })
        });
        let is_astray = |hop: &Hop| {
            let arrives = self.head(hop.from, hop.link) == self.destination.node;
            arrives && hop.link != nic
        };
        let Hop { from: at, link } = own.chain(behind).find(is_astray)?;
        let flow = self.flow;
        let network = self.ground.network;
        Some(Unsound::BlackHole {
            way: named(network, &Pin { flow, at, link }),
            stuck_at: self.name(self.destination.node),
            destination: network.fabric.link_name(nic),
        })
    }

    /// All nodes packets may come to from here on, each with the one before it.
    fn reached_from(&self, first: NodeId) -> BTreeMap<NodeId, Option<NodeId>> {
        let mut came_from = BTreeMap::from([(first, None)]);
        let mut queue = VecDeque::from([first]);
        while let Some(node) = queue.pop_front() {
            for next in self.next_nodes(node) {
                came_from.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    Some(node)
                });
            }
        }
        came_from
    }

    /// Whether packets end here that should go on, before or after.
    fn is_stuck(&self, node: NodeId) -> bool {
        let leads_nowhere = |pins| self.links(node, pins).is_empty();
        node != self.destination.node && [&self.before, &self.after].into_iter().any(leads_nowhere)
    }

    fn next_nodes(&self, node: NodeId) -> BTreeSet<NodeId> {
        let mixture = [&self.before, &self.after].into_iter();
        mixture.flat_map(|pins| self.heads(node, pins)).collect()
    }

    fn heads(&self, node: NodeId, pins: &Pins) -> impl Iterator<Item = NodeId> {
        let links = self.links(node, pins).into_iter();
        links.map(move |link| self.head(node, link))
    }

    fn head(&self, node: NodeId, link: LinkId) -> NodeId {
        self.ground.network.fabric.link(link).far(node).node
    }

    /// The links over which a node sends the flow on, given who is pinned.
    fn links(&self, node: NodeId, pins: &Pins) -> Vec<LinkId> {
        if !self.sends(node) {
            return Vec::new();
        }
        let links = match pins.get(&node) {
            Some(&link) => vec![link],
            None => self.unpinned(node),
        };
        let is_open = |link: &LinkId| self.ground.is_open(*link);
        links.into_iter().filter(is_open).collect()
    }

    /// By the node's table, or the network's own routes where that says nothing.
    fn unpinned(&self, node: NodeId) -> Vec<LinkId> {
        let FlowTarget { node: to, nic } = self.destination;
        let leaf = nic.and_then(|link| self.ground.network.leaf_at(link));
        match self.ground.held.nic_entry(to, leaf, node) {
            Some(hops) => hops.iter().map(|hop| hop.link).collect(),
            None => self.downhill(node),
        }
    }

    /// The open links to neighbours that are nearer and pass packets on.
    fn downhill(&self, node: NodeId) -> Vec<LinkId> {
        let left = |node: NodeId| self.hops_left[node.index()];
        let is_nearer = |link: &LinkId| {
            let next = self.head(node, *link);
            let ends = next == self.destination.node && self.destination.is_entry(*link);
            let ends_or_passes = ends || self.sends(next);
            ends_or_passes && left(next).is_some_and(|next| left(node) == Some(next + 1))
        };
        let links = self.ground.open_links_of(node).iter().copied();
        links.filter(is_nearer).collect()
    }

    fn sends(&self, node: NodeId) -> bool {
        let fabric = self.ground.network.fabric;
        node != self.destination.node && fabric.node(node).role.forwards()
    }

    fn named_loop(&self, nodes: &[NodeId]) -> Unsound {
        Unsound::Loop {
            flow: self.flow,
            nodes: nodes.iter().map(|&node| self.name(node)).collect(),
        }
    }

    fn named_black_hole(&self, at: NodeId, link: LinkId, stuck_at: NodeId) -> Unsound {
        let flow = self.flow;
        Unsound::BlackHole {
            way: named(self.ground.network, &Pin { flow, at, link }),
            stuck_at: self.name(stuck_at),
            destination: self.name(self.destination.node),
        }
    }

    fn name(&self, node: NodeId) -> String {
        self.ground.network.fabric.name(node).to_owned()
    }
}
