//! Where packets for one destination may go while nodes take new tables, in any order.
//!
//! Each node has one or more alternatives: what it holds, and what it is about to hold. They are laid over each other.
//! If nothing circles in the union, nothing circles in any mixture; where each alternative is a single link the reverse
//! holds too. So it is with nodes without an instruction: of a link that is down they may have heard, or not yet, or
//! they never will.
//!
//! A change is judged against the present state, where packets may be lost already. Over a link that gets no greater
//! share of a node's packets than it has now, no more packets are lost than now. So what lies behind that link is not
//! held against the change: otherwise no packet could be led out of a loop that exists. A node that loses all packets
//! now may be left to its own routes, even if it may not have heard yet what is down.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::{iter, mem};

use reweave_common::fabric::Fabric;
use reweave_common::forwarding::NextHop;
use reweave_common::ids::{LinkId, NodeId};

use crate::Network;
use crate::columns::TablesByDestination;

/// The links over which a node sends in one of the states that it may be in.
#[derive(Debug, Clone)]
pub(crate) enum NextLinks<'a> {
    /// As its table says.
    Table(&'a [NextHop]),
    /// By itself, or by a pin.
    Links(Vec<LinkId>),
    /// By itself, as long as it has not heard what is down.
    Unheard(Vec<LinkId>),
}

impl NextLinks<'_> {
    pub(crate) fn links(&self) -> impl Iterator<Item = LinkId> {
        let next_hops: &[NextHop] = match self {
            Self::Table(hops) => hops,
            Self::Links(_) | Self::Unheard(_) => &[],
        };
        let over: &[LinkId] = match self {
            Self::Table(_) => &[],
            Self::Links(links) | Self::Unheard(links) => links,
        };
        next_hops
            .iter()
            .map(|hop| hop.link)
            .chain(over.iter().copied())
    }

    fn is_one_of(&self, ways: &[Self]) -> bool {
        ways.iter().any(|way| way.links().eq(self.links()))
    }

    /// Without a table, packets are spread evenly.
    fn weights(&self) -> Vec<(LinkId, u32)> {
        match self {
            Self::Table(hops) => hops.iter().map(|hop| (hop.link, hop.weight)).collect(),
            Self::Links(links) | Self::Unheard(links) => {
                links.iter().map(|&link| (link, 1)).collect()
            }
        }
    }

    /// The weight of this link, and the weight of all.
    fn share(&self, link: LinkId) -> [u128; 2] {
        let mut share = [0, 0];
        for (other, weight) in self.weights() {
            let weight = u128::from(weight);
            share[0] += if other == link { weight } else { 0 };
            share[1] += weight;
        }
        share
    }

    /// Whether the link gets a greater share of the packets than by that.
    fn gives_more(&self, link: LinkId, than: &Self) -> bool {
        let ([new, all_new], [old, all_old]) = (self.share(link), than.share(link));
        old == 0 || new * all_old > old * all_new
    }
}

/// One for each state that a node may be in.
type Alternatives<'a> = Vec<NextLinks<'a>>;

pub(crate) struct Mesh<'a> {
    ground: &'a Ground<'a>,
    destination: NodeId,
    own: Own<'a>,
    state: State<'a>,
    /// By node, as far as it was asked for.
    ways: Vec<OnceCell<Alternatives<'a>>>,
    /// What these nodes are about to do is what is judged.
    changed: BTreeMap<NodeId, NewLinks>,
}

/// The links over which a node is about to send otherwise than now.
struct NewLinks {
    all: Vec<LinkId>,
    /// Those that may get a greater share of its packets than they have now, and lose more.
    gaining: Vec<LinkId>,
}

/// What nodes may hold.
#[derive(Clone, Copy)]
enum State<'a> {
    /// They go from the tables in force to these. Flows that are pinned leave a node over its pin alone.
    OnTheWay {
        next: &'a TablesByDestination<'a>,
        pinned: &'a BTreeMap<NodeId, LinkId>,
    },
    /// All hold these, and have held nothing else.
    AtRest(&'a TablesByDestination<'a>),
}

/// What may befall packets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// The first comes again after the last.
    Circle(Vec<NodeId>),
    /// The node may have nowhere to send them.
    Stuck(NodeId),
    /// The node may send them over a link that is not its own, down, or dark.
    Dead(NodeId, LinkId),
}

impl<'a> Mesh<'a> {
    /// While nodes go from the tables in force to `next`, of whom these may send otherwise then.
    pub(crate) fn new(
        ground: &'a Ground<'a>,
        destination: NodeId,
        next: &'a TablesByDestination<'a>,
        changed_hops: &BTreeSet<NodeId>,
        pinned: &'a BTreeMap<NodeId, LinkId>,
    ) -> Self {
        let state = State::OnTheWay { next, pinned };
        let mut mesh = Self::of(ground, destination, state);
        let changed_hops = changed_hops
            .iter()
            .filter(|node| !pinned.contains_key(node));
        for &node in changed_hops {
            let held = mesh.held(node);
            let mut new = mesh.own.alternatives(next, node);
            new.retain(|way| !way.is_one_of(&held));
            if !new.is_empty() {
                let links = mesh.new_links(node, &new, &held);
                mesh.changed.insert(node, links);
            }
        }
        mesh
    }

    /// When all nodes hold these tables: what comes of what those send otherwise than now. Once circuits have moved,
    /// what nodes do now says nothing.
    pub(crate) fn at_rest(
        ground: &'a Ground<'a>,
        destination: NodeId,
        tables: &'a TablesByDestination<'a>,
        changed_hops: impl IntoIterator<Item = NodeId>,
        circuits_move: bool,
    ) -> Self {
        let mut mesh = Self::of(ground, destination, State::AtRest(tables));
        for node in changed_hops {
            let ways = mesh.own.alternatives(tables, node);
            let held = if circuits_move {
                Vec::new()
            } else {
                mesh.held(node)
            };
            let links = mesh.new_links(node, &ways, &held);
            mesh.changed.insert(node, links);
        }
        mesh
    }

    fn of(ground: &'a Ground<'a>, destination: NodeId, state: State<'a>) -> Self {
        Self {
            ground,
            destination,
            own: Own::new(ground, destination),
            state,
            ways: vec![OnceCell::new(); ground.network.fabric.nodes().len()],
            changed: BTreeMap::new(),
        }
    }

    /// By these alternatives, where the others may be what the node does now. If these are none, all links gain.
    fn new_links(&self, node: NodeId, new: &[NextLinks<'_>], held: &[NextLinks<'_>]) -> NewLinks {
        let mut gaining = Vec::new();
        for way in new {
            let gains = |link: &LinkId| {
                held.is_empty() || held.iter().any(|held| way.gives_more(*link, held))
            };
            let gained: Vec<_> = way.links().filter(gains).collect();
            let is_own = matches!(way, NextLinks::Unheard(_)) && !held.is_empty();
            if is_own && !gained.is_empty() && self.is_lost(node) {
                continue;
            }
            gaining.extend(gained);
        }
        NewLinks {
            all: new.iter().flat_map(NextLinks::links).collect(),
            gaining,
        }
    }

    /// Whether no packet of this node can arrive now, whichever tables nodes hold and whatever they have heard.
    fn is_lost(&self, node: NodeId) -> bool {
        let fabric = self.ground.network.fabric;
        let mut is_seen = vec![false; fabric.nodes().len()];
        let mut open = vec![node];
        while let Some(at) = open.pop() {
            if at == self.destination {
                return false;
            }
            let passes = at == node || fabric.node(at).role.forwards();
            if !passes || mem::replace(&mut is_seen[at.index()], true) {
                continue;
            }
            let present = self.present(at);
            let links = present.iter().flat_map(NextLinks::links);
            let alive = links.filter(|&link| self.is_alive(at, link));
            open.extend(alive.map(|link| fabric.link(link).far(at).node));
        }
        true
    }

    /// What a node may do before any change.
    fn present(&self, node: NodeId) -> Alternatives<'a> {
        let pinned = match self.state {
            State::OnTheWay { pinned, .. } => pinned.get(&node),
            State::AtRest(_) => None,
        };
        match pinned {
            Some(&link) => vec![NextLinks::Links(vec![link])],
            None => self.held(node),
        }
    }

    fn ways(&self, node: NodeId) -> &[NextLinks<'a>] {
        self.ways[node.index()].get_or_init(|| match self.state {
            _ if node == self.destination => Vec::new(),
            State::AtRest(tables) => self.own.alternatives(tables, node),
            State::OnTheWay { next, pinned } => match pinned.get(&node) {
                Some(&link) => vec![NextLinks::Links(vec![link])],
                None => self.on_the_way(node, next),
            },
        })
    }

    fn on_the_way(&self, node: NodeId, next: &'a TablesByDestination<'a>) -> Alternatives<'a> {
        let mut ways = self.held(node);
        if next.has_table(node) {
            add(&mut ways, self.own.alternatives(next, node));
        }
        ways
    }

    /// By its instructions so far, which it may have followed.
    fn held(&self, node: NodeId) -> Alternatives<'a> {
        let Ground { held, unsure, .. } = self.ground;
        let mut ways = self.own.alternatives(held, node);
        if unsure.has_table(node) {
            add(&mut ways, self.own.alternatives(unsure, node));
        }
        ways
    }

    /// All over which a node may send, whichever table it holds.
    pub(crate) fn links(&self, node: NodeId) -> BTreeSet<LinkId> {
        self.ways(node).iter().flat_map(NextLinks::links).collect()
    }

    /// What may befall packets behind a node that has followed. What was wrong before is not held
    /// against a change that may be its cure, unless more packets come to it.
    pub(crate) fn mishap(&self) -> Option<Mishap> {
        let reached = self.reached();
        let stuck = reached.iter().find_map(|&node| self.stuck_at(node));
        let follow = || self.changed.keys().find_map(|&node| self.stuck_by(node));
        let stuck = stuck.or_else(follow);
        stuck.or_else(|| self.circle(&reached).map(Mishap::Circle))
    }

    /// All behind links over which changed nodes are about to send more, in the order of their numbers.
    fn reached(&self) -> Vec<NodeId> {
        let fabric = self.ground.network.fabric;
        let mut is_reached = vec![false; fabric.nodes().len()];
        let firsts = self.changed.iter();
        let firsts =
            firsts.flat_map(|(&node, new)| self.nodes_behind(node, new.gaining.iter().copied()));
        let mut open: Vec<_> = firsts.collect();
        while let Some(node) = open.pop() {
            if !mem::replace(&mut is_reached[node.index()], true) {
                open.extend(self.next_nodes(node));
            }
        }
        let nodes = fabric.nodes().map(|(node, _)| node);
        nodes.filter(|node| is_reached[node.index()]).collect()
    }

    fn stuck_at(&self, node: NodeId) -> Option<Mishap> {
        if node == self.destination {
            return None;
        }
        // A node that is only reached has to pass packets on.
        let is_changed = self.changed.contains_key(&node);
        let passes = is_changed || self.ground.network.fabric.node(node).role.forwards();
        let stuck = (!passes).then_some(Mishap::Stuck(node));
        let mut ways = self.ways(node).iter();
        stuck.or_else(|| ways.find_map(|way| self.ends_at(node, way.links())))
    }

    /// A changed node, whichever node is before it: what it did before it does no longer.
    fn stuck_by(&self, node: NodeId) -> Option<Mishap> {
        self.ends_at(node, self.changed[&node].all.iter().copied())
    }

    fn ends_at(&self, node: NodeId, links: impl Iterator<Item = LinkId>) -> Option<Mishap> {
        if node == self.destination {
            return None;
        }
        let mut is_empty = true;
        for link in links {
            is_empty = false;
            if !self.is_alive(node, link) {
                return Some(Mishap::Dead(node, link));
            }
        }
        is_empty.then_some(Mishap::Stuck(node))
    }

    fn is_alive(&self, node: NodeId, link: LinkId) -> bool {
        self.ground.network.is_at(node, link) && self.ground.is_open(link)
    }

    /// Takes nodes away that no other leads to until none is left, or only circles and what is
    /// behind them.
    fn circle(&self, reached: &[NodeId]) -> Option<Vec<NodeId>> {
        let mut inward = vec![0_usize; self.ways.len()];
        for next in reached.iter().flat_map(|&node| self.next_nodes(node)) {
            inward[next.index()] += 1;
        }
        let nodes = reached.iter().copied();
        let mut free: Vec<_> = nodes.filter(|node| inward[node.index()] == 0).collect();
        while let Some(node) = free.pop() {
            for next in self.next_nodes(node) {
                let left = &mut inward[next.index()];
                *left -= 1;
                if *left == 0 {
                    free.push(next);
                }
            }
        }
        let nodes = reached.iter().copied();
        let circling: Vec<_> = nodes.filter(|node| inward[node.index()] > 0).collect();
        self.walk_back(&circling)
    }

    /// Each of these has one before it among them: a walk back comes round. Of several before a node the first is gone
    /// by.
    fn walk_back(&self, circling: &[NodeId]) -> Option<Vec<NodeId>> {
        let mut walk = vec![*circling.first()?];
        let mut before = vec![None; self.ways.len()];
        for &node in circling {
            for next in self.next_nodes(node) {
                let first: &mut Option<NodeId> = &mut before[next.index()];
                *first = first.or(Some(node));
            }
        }
        loop {
            let before = before[walk.last()?.index()]?;
            if let Some(start) = walk.iter().position(|&node| node == before) {
                walk.drain(..start);
                walk.reverse();
                let least = (0..walk.len()).min_by_key(|&index| walk[index]);
                walk.rotate_left(least.unwrap_or_default());
                return Some(walk);
            }
            walk.push(before);
        }
    }

    /// One for each link that leads there.
    fn next_nodes(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.nodes_behind(node, self.ways(node).iter().flat_map(NextLinks::links))
    }

    fn nodes_behind(
        &self,
        node: NodeId,
        links: impl Iterator<Item = LinkId>,
    ) -> impl Iterator<Item = NodeId> {
        let network = self.ground.network;
        let own = links.filter(move |&link| network.is_at(node, link));
        own.map(move |link| network.fabric.link(link).far(node).node)
    }
}

fn add<'a>(ways: &mut Alternatives<'a>, others: Alternatives<'a>) {
    for way in others {
        if !way.is_one_of(ways) {
            ways.push(way);
        }
    }
}

/// What nodes do by themselves. It is not computed where all have tables.
struct Own<'a> {
    ground: &'a Ground<'a>,
    destination: NodeId,
    /// Those who have heard what is down.
    heard: OnceCell<Routes>,
    /// What is left of the ways of those who have not, where something is down.
    unheard: OnceCell<Option<Routes>>,
}

/// The links of each node.
type Routes = Vec<Vec<LinkId>>;

impl<'a> Own<'a> {
    fn new(ground: &'a Ground<'a>, destination: NodeId) -> Self {
        Self {
            ground,
            destination,
            heard: OnceCell::new(),
            unheard: OnceCell::new(),
        }
    }

    fn heard(&self, node: NodeId) -> &[LinkId] {
        let routes = || self.ground.heard.routes(self.destination);
        &self.heard.get_or_init(routes)[node.index()]
    }

    fn unheard(&self, node: NodeId) -> Option<&[LinkId]> {
        let routes = || {
            let well = self.ground.well.as_ref()?;
            Some(self.ground.left_of(well.routes(self.destination)))
        };
        let unheard = self.unheard.get_or_init(routes).as_ref()?;
        Some(&unheard[node.index()])
    }

    /// Over which links a node sends by these tables.
    fn alternatives(&self, tables: &TablesByDestination<'a>, node: NodeId) -> Alternatives<'a> {
        if let Some(hops) = tables.entry(self.destination, node) {
            return vec![NextLinks::Table(hops)];
        }
        let heard = self.heard(node);
        let unheard = self.unheard(node);
        let other = unheard.filter(|links| !links.is_empty() && *links != heard);
        let heard = NextLinks::Links(heard.to_vec());
        let unheard = other.map(|links| NextLinks::Unheard(links.to_vec()));
        iter::once(heard).chain(unheard).collect()
    }
}

/// What is the same for all destinations. Every pair of fibres is a link, and whether light passes it is asked only once.
pub(crate) struct Ground<'a> {
    pub(crate) network: &'a Network<'a>,
    heard: Open<'a>,
    /// As if nothing were down, where something is.
    well: Option<Open<'a>>,
    /// By link.
    is_open: Vec<bool>,
    /// The tables in force.
    pub(crate) held: TablesByDestination<'a>,
    /// What some nodes may hold in their place.
    unsure: TablesByDestination<'a>,
}

impl<'a> Ground<'a> {
    pub(crate) fn of(network: &'a Network<'a>) -> Self {
        let nothing = BTreeSet::new();
        let well = Network {
            down: &nothing,
            ..*network
        };
        let is_ailing = !network.down.is_empty();
        let links = network.fabric.links().len();
        let heard = Open::of(network);
        let mut is_open = vec![false; links];
        for link in heard.links.iter().flatten() {
            is_open[link.index()] = true;
        }
        Self {
            network,
            heard,
            well: is_ailing.then(|| Open {
                fabric: network.fabric,
                links: open_links(&well),
            }),
            is_open,
            held: TablesByDestination::of(network.tables, network.fabric),
            unsure: TablesByDestination::of(network.unsure, network.fabric),
        }
    }

    /// What the network says of a link, without any search.
    pub(crate) fn is_open(&self, link: LinkId) -> bool {
        let is_open = self.is_open.get(link.index());
        is_open.copied().unwrap_or_default()
    }

    /// Those of the node's links that packets pass.
    pub(crate) fn open_links_of(&self, node: NodeId) -> &[LinkId] {
        &self.heard.links[node.index()]
    }

    /// How many hops each node is from there, over this link at the end where it is a NIC's: first for routers that have
    /// not heard what is down, then for those that have.
    pub(crate) fn hops_to(
        &self,
        destination: NodeId,
        nic: Option<LinkId>,
    ) -> [Vec<Option<usize>>; 2] {
        let unheard = self.well.as_ref().unwrap_or(&self.heard);
        [unheard, &self.heard].map(|open| open.hops_to(destination, nic))
    }

    fn left_of(&self, mut routes: Vec<Vec<LinkId>>) -> Vec<Vec<LinkId>> {
        for links in &mut routes {
            links.retain(|link| self.is_open(*link));
        }
        routes
    }
}

/// The links of each node that packets pass.
pub(crate) struct Open<'a> {
    fabric: &'a Fabric,
    links: Vec<Vec<LinkId>>,
}

fn open_links(network: &Network<'_>) -> Vec<Vec<LinkId>> {
    let fabric = network.fabric;
    let mut open = vec![Vec::new(); fabric.nodes().len()];
    let lit = fabric.lit(network.circuits).into_iter();
    for link in lit.filter(|link| !network.down.contains(link)) {
        for end in fabric.link(link).ports() {
            open[end.node.index()].push(link);
        }
    }
    open
}

impl<'a> Open<'a> {
    pub(crate) fn of(network: &Network<'a>) -> Self {
        Self {
            fabric: network.fabric,
            links: open_links(network),
        }
    }

    /// The network's own: all shortest ways over links that are open, through nodes that forward.
    pub(crate) fn routes(&self, destination: NodeId) -> Vec<Vec<LinkId>> {
        let mut routes = vec![Vec::new(); self.fabric.nodes().len()];
        self.search(destination, None, |node, link| {
            routes[node.index()].push(link);
        });
        routes
    }

    /// How many hops each node is from there. A node that forwards nothing ends a way.
    fn hops_to(&self, destination: NodeId, nic: Option<LinkId>) -> Vec<Option<usize>> {
        self.search(destination, nic, |_, _| {})
    }

    /// Breadth first. Packets for a NIC come to the destination over its link alone. `leads_there` hears of each link that
    /// takes a node one hop nearer.
    fn search(
        &self,
        destination: NodeId,
        nic: Option<LinkId>,
        mut leads_there: impl FnMut(NodeId, LinkId),
    ) -> Vec<Option<usize>> {
        let fabric = self.fabric;
        let is_entry =
            |node: NodeId, link: LinkId| node != destination || nic.is_none_or(|nic| nic == link);
        let mut hops: Vec<Option<usize>> = vec![None; fabric.nodes().len()];
        hops[destination.index()] = Some(0);
        let mut queue = VecDeque::from([(destination, 0)]);
        while let Some((node, distance)) = queue.pop_front() {
            if node != destination && !fabric.node(node).role.forwards() {
                continue;
            }
            let links = self.links[node.index()].iter().copied();
            for link in links.filter(|&link| is_entry(node, link)) {
                let next = fabric.link(link).far(node).node;
                let known = *hops[next.index()].get_or_insert_with(|| {
                    queue.push_back((next, distance + 1));
                    distance + 1
                });
                if known == distance + 1 {
                    leads_there(next, link);
                }
            }
        }
        hops
    }
}
