//! The plan checker, which the leader runs on each plan, on its whole migration plan, and before each round. The
//! fabrics are rings with chords; the largest has the maximum number of entries of a plan.

use std::collections::{BTreeMap, VecDeque};

use reweave_check::{Network, check, check_migration, check_step, claims};
use reweave_common::fabric::Fabric;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Tables, Wave};
use reweave_common::plan::{Generation, Plan};

use crate::cost::{peak_mib, timed};

const NODES: [usize; 4] = [64, 128, 256, 512];
/// Limit per check. The core does nothing else meanwhile, and takes a second without events for a stall: then all
/// timeouts restart.
const MAX_TIME_S: f64 = 1.0;
/// Steps of the checked migration plan. On the largest rings the leader handles other events between two steps.
const STEP_COUNT: usize = 4;

/// A check, and its verdict.
type Question = fn(&Network<'_>, &Tables) -> bool;

/// Checks with their tables: some nodes reroute around a link, or all use only one of their paths.
const BENCH_CASES: [(&str, bool, Question); 6] = [
    ("judge-of-a-drain", true, is_sound),
    ("judge-of-a-round", false, is_sound),
    (
        "judge-of-a-round-without-loss",
        false,
        is_sound_without_loss,
    ),
    (
        "judge-of-a-migration-of-4-rounds",
        false,
        is_sound_all_along,
    ),
    ("judge-of-a-plan", false, is_sound_at_rest),
    ("judge-of-claims", false, claims_something),
];

/// Runs the benchmarks whose names contain one of the words; all without words.
pub(crate) fn measure_all(words: &[String]) {
    let is_asked = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let asked = BENCH_CASES.iter().filter(|(name, ..)| is_asked(name));
    let asked: Vec<_> = asked.collect();
    if asked.is_empty() {
        return;
    }
    println!("name nodes entries took_s goal_s well peak_mib");
    for nodes in NODES {
        let fabric = ring(nodes);
        let [held, drained] =
            [None, Some(LinkId::from_index(0))].map(|without| tables(&fabric, without));
        let thinned = thinned(&held);
        for &&(name, is_drain, question) in &asked {
            let next = if is_drain { &drained } else { &thinned };
            let entries: usize = next.values().map(|table| table.towards.len()).sum();
            let (is_well, took_s) = timed(|| question(&network(&fabric, &held), next));
            let peak = peak_mib();
            println!("{name} {nodes} {entries} {took_s:.3} {MAX_TIME_S} {is_well} {peak:.0}");
        }
    }
}

/// Whether all nodes can adopt these tables in any order.
fn is_sound(network: &Network<'_>, next: &Tables) -> bool {
    check_step(network, MigrationStep::Round(next)).is_ok()
}

/// Same as `is_sound` on a lossless network.
fn is_sound_without_loss(network: &Network<'_>, next: &Tables) -> bool {
    let lossless = Network {
        is_lossless: true,
        ..*network
    };
    is_sound(&lossless, next)
}

/// Same as `is_sound`, for repeated changes to these tables and back.
fn is_sound_all_along(network: &Network<'_>, next: &Tables) -> bool {
    let rounds = [next, network.tables].into_iter().cycle().take(STEP_COUNT);
    let undrain = rounds.cloned().collect();
    let wave = Wave {
        undrain,
        ..Wave::default()
    };
    let migration_plan = MigrationPlan { waves: vec![wave] };
    check_migration(network, &migration_plan, network.tables, network.circuits).is_ok()
}

fn is_sound_at_rest(network: &Network<'_>, next: &Tables) -> bool {
    check(network, &plan(next)).is_ok()
}

fn claims_something(network: &Network<'_>, next: &Tables) -> bool {
    let claims = claims(network, &plan(next));
    !claims.destinations.is_empty()
}

fn plan(tables: &Tables) -> Plan {
    Plan {
        tables: tables.clone(),
        ..Plan::empty(Generation(1), Generation(0))
    }
}

/// Returns tables with only the first of several paths.
fn thinned(tables: &Tables) -> Tables {
    let mut thinned = tables.clone();
    let entries = thinned.values_mut();
    let entries = entries.flat_map(|table| table.towards.values_mut());
    entries.for_each(|hops| hops.truncate(1));
    thinned
}

fn network<'a>(fabric: &'a Fabric, tables: &'a Tables) -> Network<'a> {
    Network {
        tables,
        ..Network::untouched(fabric)
    }
}

/// Returns a ring in which each node has a link to the next, and one to the node an eighth of the ring away.
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

/// Returns tables with all shortest paths between all nodes.
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
