//! Whether full buffers may come to wait for each other in a circle, on a fabric that drops nothing.
//!
//! What came over one link and goes on over the next waits in the first one's buffer until there is room in
//! the second's. While nodes change, packets that were sent by the old way meet such as go by the new one,
//! so all that anybody may do meanwhile is laid together. What waited for each other before is not held
//! against a change; a circle counts when something new closes it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reweave_common::course::Tables;
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::Pin;

use crate::mesh::{Ground, Mesh};
use crate::{Network, Unsound};

/// At the far end of a link, of one class of service.
type Buffer = (LinkId, NodeId, u32);
/// The first is not emptied before the second has room.
type Waits = BTreeSet<[Buffer; 2]>;

/// While nodes take these tables and pins, in any order.
pub(crate) fn deadlock(network: &Network<'_>, next: &Tables, pins: &[Pin]) -> Option<Unsound> {
    if !network.is_lossless {
        return None;
    }
    let before = waits(network, &Tables::new(), network.pins);
    let meanwhile = waits(network, next, pins);
    let mut new = meanwhile.difference(&before);
    let circle = new.find_map(|&wait| closed_by(&meanwhile, wait))?;
    let name = |&(link, head, _): &Buffer| {
        let fabric = network.fabric;
        let tail = fabric.link(link).far(head).node;
        format!("{}-{}", fabric.name(tail), fabric.name(head))
    };
    let buffers = circle.iter().map(name).collect();
    Some(Unsound::Deadlock { buffers })
}

pub(crate) fn waits(network: &Network<'_>, next: &Tables, pins: &[Pin]) -> Waits {
    let mut waits = Waits::new();
    let (fabric, ground) = (network.fabric, Ground::of(network));
    let (nobody, no_pins) = (BTreeSet::new(), BTreeMap::new());
    for to in fabric.endpoints() {
        let mesh = Mesh::new((network, &ground), to, (next, &nobody), &no_pins);
        let unpinned = |at: NodeId| mesh.links(at);
        let sources: Vec<_> = fabric.endpoints().filter(|from| *from != to).collect();
        let way = Way { network, next, to };
        way.walk(&sources, &unpinned, &mut waits);
        for flow in flows_to(network, to, pins) {
            let sources = match network.addresses.get(flow.source.ip()) {
                Some(&from) => vec![from],
                None => sources.clone(),
            };
            let pinned = |at: NodeId| pinned(network, (flow, at), pins, &mesh.links(at));
            way.walk(&sources, &pinned, &mut waits);
        }
    }
    waits
}

fn flows_to(network: &Network<'_>, to: NodeId, pins: &[Pin]) -> BTreeSet<FlowKey> {
    let all = network.pins.iter().chain(pins).map(|pin| pin.flow);
    all.filter(|flow| network.addresses.get(flow.destination.ip()) == Some(&to))
        .collect()
}

/// Where a flow may leave a node: by its pins before and after, or as all packets do.
fn pinned(
    network: &Network<'_>,
    (flow, at): (FlowKey, NodeId),
    pins: &[Pin],
    unpinned: &BTreeSet<LinkId>,
) -> BTreeSet<LinkId> {
    let mut links = BTreeSet::new();
    for pins in [network.pins, pins] {
        let mut here = pins.iter().filter(|pin| pin.flow == flow && pin.at == at);
        match here.next() {
            Some(pin) => links.extend([pin.link]),
            None => links.extend(unpinned),
        }
    }
    links
}

/// Towards one destination.
struct Way<'a> {
    network: &'a Network<'a>,
    next: &'a Tables,
    to: NodeId,
}

impl Way<'_> {
    fn walk(
        &self,
        sources: &[NodeId],
        links: &impl Fn(NodeId) -> BTreeSet<LinkId>,
        waits: &mut Waits,
    ) {
        let first = sources.iter().flat_map(|&from| {
            let links = links(from).into_iter();
            links.filter_map(move |link| self.buffer(from, link, 0))
        });
        let mut open: Vec<Buffer> = first.collect();
        let mut seen = BTreeSet::new();
        while let Some(buffer) = open.pop() {
            if !seen.insert(buffer) {
                continue;
            }
            let (came_over, at, class) = buffer;
            let passes = at != self.to && self.network.fabric.node(at).role.forwards();
            for link in links(at).into_iter().filter(|_| passes) {
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
        let is_own = fabric.links_of(from).contains(&link);
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
        let rises = held.map(|tables| {
            let table = tables.get(&at);
            table.is_some_and(|table| table.raises.contains(&hop))
        });
        let classes: BTreeSet<_> = rises.map(|rises| class + u32::from(rises)).collect();
        classes.into_iter().filter(move |class| *class <= most)
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
