//! The judge of rounds, whom the leader asks before each: all nodes of a ring with chords change their tables at once, as
//! when a link is drained. The largest ring has as many entries as a plan may have.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reweave_check::{Network, check_leg};
use reweave_common::course::{Leg, Tables};
use reweave_common::fabric::Fabric;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::Generation;

use crate::cost::{peak_mib, timed};

const NODES: [usize; 4] = [64, 128, 256, 512];
/// A service manager that hears no sign of life for ten seconds ends the coordinator.
const GOAL_S: f64 = 3.0;

/// Measures what any of the words names; everything when there are none.
pub(crate) fn measure_all(words: &[String]) {
    let name = "judge-of-a-round";
    if !words.is_empty() && !words.iter().any(|word| name.contains(word)) {
        return;
    }
    println!("name nodes entries round_s goal_s sound peak_mib");
    for nodes in NODES {
        let fabric = ring(nodes);
        let [before, after] =
            [None, Some(LinkId::from_index(0))].map(|without| tables(&fabric, without));
        let entries: usize = after.values().map(|table| table.towards.len()).sum();
        let (judged, took_s) = timed(|| {
            let network = network(&fabric, &before);
            check_leg(&network, Leg::Round(&after))
        });
        println!(
            "{name} {nodes} {entries} {took_s:.3} {GOAL_S} {} {:.0}",
            judged.is_ok(),
            peak_mib()
        );
    }
}

static NOTHING: Nothing = Nothing {
    addresses: BTreeMap::new(),
    down: BTreeSet::new(),
    unsure: Tables::new(),
    circuits: BTreeMap::new(),
};

struct Nothing {
    addresses: BTreeMap<std::net::Ipv4Addr, NodeId>,
    down: BTreeSet<LinkId>,
    unsure: Tables,
    circuits: reweave_common::fabric::Circuits,
}

fn network<'a>(fabric: &'a Fabric, tables: &'a Tables) -> Network<'a> {
    Network {
        fabric,
        addresses: &NOTHING.addresses,
        down: &NOTHING.down,
        generation: Generation(0),
        pins: &[],
        tables,
        unsure: &NOTHING.unsure,
        circuits: &NOTHING.circuits,
        floor: 0.0,
        is_lossless: false,
    }
}

/// Each node has a link to the next, and one an eighth of the ring away.
fn ring(nodes: usize) -> Fabric {
    let node = |nth: usize| {
        let [high, low] = [nth / 256, nth % 256];
        format!("{{ name = \"h{nth}\", role = \"relay\", address = \"10.0.{high}.{low}\" }}")
    };
    let link = |from: usize, to: usize| {
        format!("{{ a = \"h{from}\", b = \"h{}\", gbps = 100 }}", to % nodes)
    };
    let links = |nth| [link(nth, nth + 1), link(nth, nth + nodes / 8)];
    let all_nodes: Vec<_> = (0..nodes).map(node).collect();
    let all_links: Vec<_> = (0..nodes).flat_map(links).collect();
    let [all_nodes, all_links] = [all_nodes, all_links].map(|it| it.join(", "));
    let text = format!("kind = \"graph\"\nnode = [{all_nodes}]\nlink = [{all_links}]\n");
    Fabric::parse("ring.toml", &text).expect("the fabric is sound")
}

/// All shortest ways from everywhere to everywhere.
fn tables(fabric: &Fabric, without: Option<LinkId>) -> Tables {
    let nodes: Vec<_> = fabric.endpoints().collect();
    let table = |&at: &NodeId| {
        let (towards, raises) = (BTreeMap::new(), vec![]);
        (
            at,
            ForwardingTable {
                at,
                towards,
                raises,
            },
        )
    };
    let mut tables: Tables = nodes.iter().map(table).collect();
    for &to in &nodes {
        let away = distances(fabric, to, without);
        for (&at, table) in tables.iter_mut().filter(|(at, _)| **at != to) {
            let links = fabric.links_of(at).iter().copied();
            let leads = |link: &LinkId| {
                let far = fabric.link(*link).far(at).node;
                Some(*link) != without && away[&far] < away[&at]
            };
            let hop = |link| NextHop { link, weight: 1 };
            table
                .towards
                .insert(to, links.filter(leads).map(hop).collect());
        }
    }
    tables
}

fn distances(fabric: &Fabric, to: NodeId, without: Option<LinkId>) -> BTreeMap<NodeId, usize> {
    let mut away = BTreeMap::from([(to, 0)]);
    let mut queue = VecDeque::from([to]);
    while let Some(node) = queue.pop_front() {
        let next = away[&node] + 1;
        let links = fabric.links_of(node).iter().copied();
        for link in links.filter(|link| Some(*link) != without) {
            let far = fabric.link(link).far(node).node;
            if let std::collections::btree_map::Entry::Vacant(entry) = away.entry(far) {
                entry.insert(next);
                queue.push_back(far);
            }
        }
    }
    away
}
