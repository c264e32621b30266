//! Whether full buffers may come to wait for each other in a circle, on a fabric that drops nothing.
//!
//! What came over one link and goes on over the next waits in the first one's buffer until there is room in the
//! second's. While nodes change, packets that were sent by the old way meet such as go by the new one, so all that any
//! node may do meanwhile is laid together. What waited for each other before is not held against a change; a circle
//! counts when something new closes it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use reweave_common::flow::FlowKey;
use reweave_common::forwarding::ForwardingTable;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;
use reweave_common::plan::Pin;

use crate::columns::TablesByDestination;
use crate::leaves;
use crate::mesh::{Ground, Mesh};
use crate::migration::differing;
use crate::pins::by_flow;
use crate::{Network, Unsound};

/// At the far end of a link, of one class of service.
type Buffer = (LinkId, NodeId, u32);
/// The first is not emptied before the second has room.
type Waits = BTreeSet<[Buffer; 2]>;
/// By node: over which link a flow leaves it, before and after.
type Pinned = [BTreeMap<NodeId, LinkId>; 2];

/// While nodes take these tables and pins, in any order. What waits before waits meanwhile, too.
pub(crate) fn deadlock(network: &Network<'_>, next: &Tables, pins: &[Pin]) -> Option<Unsound> {
    if !network.is_lossless {
        return None;
    }
    let concerned = concerned(network, next, pins);
    let is_concerned = |to: NodeId| concerned.as_ref().is_none_or(|some| some.contains(&to));
    deadlock_towards(network, next, pins, is_concerned)
}

/// By what goes to these destinations, and all that goes on as now.
pub(crate) fn deadlock_towards(
    network: &Network<'_>,
    next: &Tables,
    pins: &[Pin],
    is_concerned: impl Fn(NodeId) -> bool,
) -> Option<Unsound> {
    let ground = Ground::of(network);
    let meanwhile = waits(&ground, next, pins, is_concerned);
    if meanwhile.is_empty() {
        return None;
    }
    let mut all = waits(&ground, &Tables::new(), network.pins, |_| true);
    let new: Vec<_> = meanwhile.difference(&all).copied().collect();
    all.extend(&new);
    let circle = new.into_iter().find_map(|wait| closed_by(&all, wait))?;
    let name = |&(link, head, _): &Buffer| {
        let fabric = network.fabric;
        let tail = fabric.link(link).far(head).node;
        format!("{}-{}", fabric.name(tail), fabric.name(head))
    };
    let buffers = circle.iter().map(name).collect();
    Some(Unsound::Deadlock { buffers })
}

/// Destinations towards which a node may do what it does not do now. None where these may be all, since it puts packets
/// into other classes.
fn concerned(network: &Network<'_>, next: &Tables, pins: &[Pin]) -> Option<BTreeSet<NodeId>> {
    let raises_as_now = |(at, table): (&NodeId, &ForwardingTable)| {
        let held = network.tables.get(at);
        held.map_or(table.raises.is_empty(), |held| held.raises == table.raises)
    };
    if !next.iter().all(raises_as_now) {
        return None;
    }
    let changed_hops = next.iter();
    let changed_hops =
        changed_hops.flat_map(|(at, table)| differing([network.tables.get(at), Some(table)]));
    let [before, after] = [network.pins, pins].map(|pins| pins.iter().collect::<BTreeSet<_>>());
    let pins = before.symmetric_difference(&after);
    let pinned = pins.flat_map(|pin| destinations(network, *pin.flow.destination.ip()));
    Some(changed_hops.chain(pinned).collect())
}

/// Of what goes to these destinations.
pub(crate) fn waits(
    ground: &Ground<'_>,
    next: &Tables,
    pins: &[Pin],
    is_concerned: impl Fn(NodeId) -> bool,
) -> Waits {
    let mut waits = Waits::new();
    let (network, fabric) = (ground.network, ground.network.fabric);
    let tables = TablesByDestination::of(next, fabric);
    let pinned = pinned(network, pins);
    let (no_nodes, no_pins) = (BTreeSet::new(), BTreeMap::new());
    let destinations = leaves::destinations(fabric).into_iter();
    for to in destinations.filter(|to| is_concerned(*to)) {
        let mesh = Mesh::new(ground, to, &tables, &no_nodes, &no_pins);
        let sources: Vec<_> = fabric.endpoints().filter(|from| *from != to).collect();
        let way = BufferWalk { network, next, to };
        let links = |at| links_towards(ground, &mesh, to, at);
        way.walk(&sources, links, &mut waits);
        for (flow, pins) in pinned.get(&to).into_iter().flatten() {
            let from = network.addresses.get(flow.source.ip());
            let sources = from.map_or(&sources[..], std::slice::from_ref);
            way.walk(sources, |at| links_of(pins, at, &links(at)), &mut waits);
        }
    }
    waits
}

/// Where a packet may leave a node. By which of its NICs a host sends to those of a leaf is its own choice.
fn links_towards(ground: &Ground<'_>, mesh: &Mesh<'_>, to: NodeId, at: NodeId) -> BTreeSet<LinkId> {
    let fabric = ground.network.fabric;
    if leaves::is_leaf(fabric, to) && !fabric.node(at).role.forwards() {
        return ground.open_links_of(at).iter().copied().collect();
    }
    mesh.links(at)
}

/// The node with this address, and the switch that tables may have in its place.
fn destinations(network: &Network<'_>, address: Ipv4Addr) -> BTreeSet<NodeId> {
    let nodes = network.addresses.get(&address).into_iter();
    nodes
        .flat_map(|&node| [node, network.leads_to(address, node)])
        .collect()
}

/// By destination.
fn pinned(network: &Network<'_>, pins: &[Pin]) -> BTreeMap<NodeId, Vec<(FlowKey, Pinned)>> {
    let mut pinned: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (flow, pins) in by_flow([network.pins, pins]) {
        let pinned_at = [pins.in_force, pins.planned].map(|pins| {
            let mut links = BTreeMap::new();
            for pin in pins {
                links.entry(pin.at).or_insert(pin.link);
            }
            links
        });
        for to in destinations(network, *flow.destination.ip()) {
            let of_destination = pinned.entry(to).or_default();
            of_destination.push((flow, pinned_at.clone()));
        }
    }
    pinned
}

/// Where a flow may leave a node: by its pins before and after, or as all packets do.
fn links_of(pinned: &Pinned, at: NodeId, unpinned: &BTreeSet<LinkId>) -> BTreeSet<LinkId> {
    let mut links = BTreeSet::new();
    for pinned in pinned {
        match pinned.get(&at) {
            Some(&link) => links.extend([link]),
            None => links.extend(unpinned),
        }
    }
    links
}

/// Towards one destination.
struct BufferWalk<'a> {
    network: &'a Network<'a>,
    next: &'a Tables,
    to: NodeId,
}

impl BufferWalk<'_> {
    fn walk(
        &self,
        sources: &[NodeId],
        links: impl Fn(NodeId) -> BTreeSet<LinkId>,
        waits: &mut Waits,
    ) {
        // Over each link that leads to a node, the same is asked of it.
        let known = vec![OnceCell::new(); self.network.fabric.nodes().len()];
        let links = |at: NodeId| known[at.index()].get_or_init(|| links(at));
        let first = sources.iter().flat_map(|&from| {
            let links = links(from).iter();
            links.filter_map(move |&link| self.buffer(from, link, 0))
        });
        let mut open: Vec<Buffer> = first.collect();
        let mut seen = BTreeSet::new();
        while let Some(buffer) = open.pop() {
            if !seen.insert(buffer) {
                continue;
            }
            let (came_over, at, class) = buffer;
            let passes = at != self.to && self.network.fabric.node(at).role.forwards();
            for &link in links(at).iter().filter(|_| passes) {
                let classes = self.classes(at, [came_over, link], class);
                for next in classes.filter_map(|class| self.buffer(at, link, class)) {
                    waits.insert([buffer, next]);
                    open.push(next);
                }
            }
        }
    }

    fn buffer(&self, from: NodeId, link: LinkId, class: u32) -> Option<Buffer> {
        let fabric = self.network.fabric;
        let is_own = self.network.is_at(from, link);
        is_own.then(|| (link, fabric.link(link).far(from).node, class))
    }

    /// In which a packet may go on: by what the node holds, and by what it may hold.
    fn classes(&self, at: NodeId, hop: [LinkId; 2], class: u32) -> impl Iterator<Item = u32> {
        // There cannot be more of them on any way that does not circle.
        let most = self.network.fabric.nodes().len() as u32;
        let Network { tables, unsure, .. } = self.network;
        let sure = Some(*tables);
        let others = [*unsure, self.next].map(|it| it.contains_key(&at).then_some(it));
        let held = sure.into_iter().chain(others.into_iter().flatten());
        let raises = |tables: &Tables| {
            let table = tables.get(&at);
            table.is_some_and(|table| table.raises.contains(&hop))
        };
        let (mut stays, mut rises) = (false, false);
        for tables in held {
            if raises(tables) {
                rises = true;
            } else {
                stays = true;
            }
        }
        let classes = [stays.then_some(class), rises.then_some(class + 1)];
        let classes = classes.into_iter().flatten();
        classes.filter(move |class| *class <= most)
    }
}

/// The shortest circle that this wait is a part of.
fn closed_by(waits: &Waits, [first, second]: [Buffer; 2]) -> Option<Vec<Buffer>> {
    let mut came_from = BTreeMap::from([(second, None)]);
    let mut queue = VecDeque::from([second]);
    while let Some(buffer) = queue.pop_front() {
        if buffer == first {
            let before = |it: &Buffer| came_from[it];
            let mut circle: Vec<_> = std::iter::successors(Some(first), before).collect();
            circle.reverse();
            return Some(circle);
        }
        let least = [buffer, (LinkId::from_index(0), NodeId::from_index(0), 0)];
        let behind = waits.range(least..).take_while(|wait| wait[0] == buffer);
        for &[_, next] in behind {
            came_from.entry(next).or_insert_with(|| {
                queue.push_back(next);
                Some(buffer)
            });
        }
    }
    None
}
