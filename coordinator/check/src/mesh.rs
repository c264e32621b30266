//! Where packets for one destination may go while nodes take new tables, in any order.
//!
//! Each node has one or more alternatives: what it holds, and what it is about to hold. They are
//! laid over each other. If nothing circles in the union, nothing circles in any mixture; where
//! each alternative is a single link the reverse holds too. So it is with nodes that nobody has told a way:
//! of a link that is down they may have heard, or not yet, or they never will.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reweave_common::course::Tables;
use reweave_common::fabric::Fabric;
use reweave_common::forwarding::NextHop;
use reweave_common::ids::{LinkId, NodeId};

use crate::Network;

/// The links over which a node may send, one list for each state that it may be in.
type Alternatives = Vec<Vec<LinkId>>;

pub(crate) struct Mesh<'a> {
    network: &'a Network<'a>,
    destination: NodeId,
    own: Own<'a>,
    state: State<'a>,
    /// By node, as far as somebody has asked.
    ways: Vec<OnceCell<Alternatives>>,
    /// What these nodes are about to do is what is judged.
    changed: BTreeMap<NodeId, Vec<LinkId>>,
}

/// What nodes may hold.
#[derive(Clone, Copy)]
enum State<'a> {
    /// They go from the tables in force to these. Flows that are pinned leave a node over its pin alone.
    OnTheWay {
        next: &'a Tables,
        pinned: &'a BTreeMap<NodeId, LinkId>,
    },
    /// All hold these, and have held nothing else.
    AtRest(&'a Tables),
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
        (network, ground): (&'a Network<'a>, &'a Ground<'a>),
        destination: NodeId,
        (next, led_anew): (&'a Tables, &BTreeSet<NodeId>),
        pinned: &'a BTreeMap<NodeId, LinkId>,
    ) -> Self {
        let state = State::OnTheWay { next, pinned };
        let mut mesh = Self::of((network, ground), destination, state);
        let led_anew = led_anew.iter().filter(|node| !pinned.contains_key(node));
        for &node in led_anew {
            let held = mesh.held(node);
            let mut new = mesh.own.alternatives(next, node);
            new.retain(|links| !held.contains(links));
            if !new.is_empty() {
                mesh.changed.insert(node, new.concat());
            }
        }
        mesh
    }

    /// When all nodes hold these tables: what comes of what those send otherwise than now.
    pub(crate) fn at_rest(
        (network, ground): (&'a Network<'a>, &'a Ground<'a>),
        destination: NodeId,
        tables: &'a Tables,
        led_anew: impl IntoIterator<Item = NodeId>,
    ) -> Self {
        let mut mesh = Self::of((network, ground), destination, State::AtRest(tables));
        for node in led_anew {
            let links = mesh.own.alternatives(tables, node).concat();
            mesh.changed.insert(node, links);
        }
        mesh
    }

    fn of(
        (network, ground): (&'a Network<'a>, &'a Ground<'a>),
        destination: NodeId,
        state: State<'a>,
    ) -> Self {
        Self {
            network,
            destination,
            own: Own::new(ground, destination),
            state,
            ways: vec![OnceCell::new(); network.fabric.nodes().len()],
            changed: BTreeMap::new(),
        }
    }

    fn ways(&self, node: NodeId) -> &Alternatives {
        self.ways[node.index()].get_or_init(|| match self.state {
            _ if node == self.destination => Vec::new(),
            State::AtRest(tables) => self.own.alternatives(tables, node),
            State::OnTheWay { next, pinned } => match pinned.get(&node) {
                Some(&link) => vec![vec![link]],
                None => self.on_the_way(node, next),
            },
        })
    }

    fn on_the_way(&self, node: NodeId, next: &Tables) -> Alternatives {
        let mut ways = self.held(node);
        if next.contains_key(&node) {
            add(&mut ways, self.own.alternatives(next, node));
        }
        ways
    }

    /// By what it has been told so far, and may have followed.
    fn held(&self, node: NodeId) -> Alternatives {
        let mut held = self.own.alternatives(self.network.tables, node);
        if self.network.unsure.contains_key(&node) {
            add(&mut held, self.own.alternatives(self.network.unsure, node));
        }
        held
    }

    /// All over which a node may send, whatever it holds.
    pub(crate) fn links(&self, node: NodeId) -> BTreeSet<LinkId> {
        self.ways(node).iter().flatten().copied().collect()
    }

    /// What may befall packets behind a node that has followed. What was wrong before is not held
    /// against a change that may be its cure.
    pub(crate) fn mishap(&self) -> Option<Mishap> {
        let reached = self.reached();
        let stuck = reached.iter().find_map(|&node| self.stuck_at(node));
        let follow = || self.changed.keys().find_map(|&node| self.stuck_by(node));
        let stuck = stuck.or_else(follow);
        stuck.or_else(|| self.circle(&reached).map(Mishap::Circle))
    }

    /// All behind what changed nodes are about to do.
    fn reached(&self) -> BTreeSet<NodeId> {
        let firsts = self.changed.iter();
        let mut reached: BTreeSet<_> = firsts
            .flat_map(|(&node, links)| self.nodes_behind(node, links.iter()))
            .collect();
        let mut queue: VecDeque<_> = reached.iter().copied().collect();
        while let Some(node) = queue.pop_front() {
            let next: BTreeSet<_> = self.next_nodes(node).collect();
            queue.extend(next.iter().filter(|&&node| reached.insert(node)));
        }
        reached
    }

    fn stuck_at(&self, node: NodeId) -> Option<Mishap> {
        if node == self.destination {
            return None;
        }
        // Whoever is only reached has to pass packets on.
        let is_changed = self.changed.contains_key(&node);
        let passes = is_changed || self.network.fabric.node(node).role.forwards();
        let stuck = (!passes).then_some(Mishap::Stuck(node));
        let mut ways = self.ways(node).iter();
        stuck.or_else(|| ways.find_map(|links| self.ends_at(node, links)))
    }

    /// A changed node, whoever is before it: what it did before it does no more.
    fn stuck_by(&self, node: NodeId) -> Option<Mishap> {
        self.ends_at(node, &self.changed[&node])
    }

    fn ends_at(&self, node: NodeId, links: &[LinkId]) -> Option<Mishap> {
        if node == self.destination {
            return None;
        }
        let dead = links.iter().find(|&&link| !self.is_alive(node, link));
        let dead = dead.map(|&link| Mishap::Dead(node, link));
        dead.or(links.is_empty().then_some(Mishap::Stuck(node)))
    }

    fn is_alive(&self, node: NodeId, link: LinkId) -> bool {
        self.network.fabric.links_of(node).contains(&link) && self.network.is_open(link)
    }

    /// Takes nodes away that no other leads to until none is left, or only circles and what is
    /// behind them.
    fn circle(&self, reached: &BTreeSet<NodeId>) -> Option<Vec<NodeId>> {
        let mut inward: BTreeMap<NodeId, usize> = reached.iter().map(|&node| (node, 0)).collect();
        for next in reached.iter().flat_map(|&node| self.next_nodes(node)) {
            *inward.entry(next).or_default() += 1;
        }
        let mut free: Vec<_> = inward
            .iter()
            .filter(|(_, n)| **n == 0)
            .map(|(&node, _)| node)
            .collect();
        while let Some(node) = free.pop() {
            inward.remove(&node);
            for next in self.next_nodes(node) {
                let left = inward.get_mut(&next)?;
                *left -= 1;
                if *left == 0 {
                    free.push(next);
                }
            }
        }
        self.walk_back(&inward.into_keys().collect())
    }

    /// Each of these has one before it among them: whoever walks back comes round.
    fn walk_back(&self, circling: &BTreeSet<NodeId>) -> Option<Vec<NodeId>> {
        let mut walk = vec![*circling.first()?];
        loop {
            let at = *walk.last()?;
            let mut before = circling.iter();
            let before = *before.find(|&&node| self.next_nodes(node).any(|next| next == at))?;
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
        self.nodes_behind(node, self.ways(node).iter().flatten())
    }

    fn nodes_behind<'l>(
        &self,
        node: NodeId,
        links: impl Iterator<Item = &'l LinkId>,
    ) -> impl Iterator<Item = NodeId> {
        let fabric = self.network.fabric;
        let own = links.filter(move |link| fabric.links_of(node).contains(link));
        own.map(move |&link| fabric.link(link).far(node).node)
    }
}

fn add(ways: &mut Alternatives, others: Alternatives) {
    for links in others {
        if !ways.contains(&links) {
            ways.push(links);
        }
    }
}

pub(crate) fn listed(
    tables: &Tables,
    destination: NodeId,
    node: NodeId,
    own: &[Vec<LinkId>],
) -> Vec<LinkId> {
    let told = told(tables, destination, node);
    told.unwrap_or_else(|| own[node.index()].clone())
}

/// Nothing where the table says nothing of it.
fn told(tables: &Tables, destination: NodeId, node: NodeId) -> Option<Vec<LinkId>> {
    let hops = entry(tables, destination, node)?;
    Some(hops.iter().map(|hop| hop.link).collect())
}

pub(crate) fn entry(tables: &Tables, destination: NodeId, node: NodeId) -> Option<&Vec<NextHop>> {
    tables.get(&node)?.towards.get(&destination)
}

/// What nodes do by themselves. Where all have been told, nobody asks.
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
    fn alternatives(&self, tables: &Tables, node: NodeId) -> Alternatives {
        if let Some(told) = told(tables, self.destination, node) {
            return vec![told];
        }
        let heard = self.heard(node);
        let unheard = self.unheard(node);
        let other = unheard.filter(|links| !links.is_empty() && *links != heard);
        [Some(heard), other]
            .into_iter()
            .flatten()
            .map(<[_]>::to_vec)
            .collect()
    }
}

/// What the network's own routes go over, for all destinations: every pair of fibres is a link, and
/// whether light passes it is asked only once.
pub(crate) struct Ground<'a> {
    network: &'a Network<'a>,
    heard: Open<'a>,
    /// As if nothing were down, where something is.
    well: Option<Open<'a>>,
}

impl<'a> Ground<'a> {
    pub(crate) fn of(network: &'a Network<'a>) -> Self {
        let nothing = BTreeSet::new();
        let well = Network {
            down: &nothing,
            ..*network
        };
        let is_ailing = !network.down.is_empty();
        Self {
            network,
            heard: Open::of(network),
            well: is_ailing.then(|| Open {
                fabric: network.fabric,
                links: open_links(&well),
            }),
        }
    }

    fn left_of(&self, mut routes: Vec<Vec<LinkId>>) -> Vec<Vec<LinkId>> {
        for links in &mut routes {
            links.retain(|link| self.network.is_open(*link));
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
        let fabric = self.fabric;
        let mut hops: Vec<Option<usize>> = vec![None; fabric.nodes().len()];
        let mut routes = vec![Vec::new(); fabric.nodes().len()];
        hops[destination.index()] = Some(0);
        let mut queue = VecDeque::from([(destination, 0)]);
        while let Some((node, distance)) = queue.pop_front() {
            if node != destination && !fabric.node(node).role.forwards() {
                continue;
            }
            for &link in &self.links[node.index()] {
                let next = fabric.link(link).far(node).node;
                let known = *hops[next.index()].get_or_insert_with(|| {
                    queue.push_back((next, distance + 1));
                    distance + 1
                });
                if known == distance + 1 {
                    routes[next.index()].push(link);
                }
            }
        }
        routes
    }
}
