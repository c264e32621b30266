//! Localization of losses, choice of probes, and placement of ranks.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::snapshot::Hop;
use reweave_common::split_mix::SplitMix64;
use reweave_design::placement::{Demand, Request, place};
use reweave_repair::causes::{Evidence, Ground, Probe, Probed, localise};
use reweave_repair::paths::Atlas;
use reweave_repair::paths::ecmp::{Ecmp, Fields};
use reweave_repair::probes::{Candidate, choose, cover};

use crate::cost::{peak_mib, timed};
use crate::shapes;

const PROBE_RESULTS: usize = 100_000;
const RUN_COUNT: usize = 5;

/// Runs the benchmarks whose names contain one of the words; all without words.
pub(crate) fn measure_all(words: &[String]) {
    let is_asked = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    println!("name took_s goal_s figures peak_mib");
    if is_asked("localise-100000-results") {
        localisation();
    }
    if is_asked("diagnose-100000-results") {
        diagnosis();
    }
    for shape in BENCH_FABRICS {
        if is_asked(shape.name) {
            probes(&shape);
        }
    }
    if is_asked("probes-live-10000-hosts") {
        chosen();
    }
    if is_asked("ranks-1024") {
        ranks();
    }
}

fn leaf_spine(leaves: usize, spines: usize, hosts: usize) -> Fabric {
    let text = format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\nhosts_per_leaf = {hosts}\n\
         host_gbps = 400\nuplink_gbps = 100"
    );
    Fabric::parse("fabric.toml", &text).expect("the fabric is sound")
}

fn wired(hosts: usize, strides: &[usize]) -> Fabric {
    let text =
        format!("kind = \"direct\"\nhosts = {hosts}\nlink_gbps = 400\nstrides = {strides:?}");
    Fabric::parse("fabric.toml", &text).expect("the fabric is sound")
}

fn print_row(name: &str, goal_s: f64, mut runs: Vec<(f64, String)>) {
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (took_s, figures) = &runs[runs.len() / 2];
    println!("{name} {took_s:.4} {goal_s} {figures} {:.0}", peak_mib());
}

/// Hops of a probe, and its outcome.
struct Crossed {
    from: NodeId,
    to: NodeId,
    way: Vec<Hop>,
    lost: u64,
}

const SENT_PROBES: u64 = 60;

/// Returns probes of 1024 hosts, with one link that loses one packet in a hundred.
fn results(fabric: &Fabric) -> Vec<Crossed> {
    let (mut atlas, mut rng, ecmp) = (Atlas::new(fabric), SplitMix64::new(1), Ecmp::default());
    let hosts: Vec<_> = fabric.endpoints().collect();
    let leaf = fabric.find("leaf3").expect("there is one");
    let bad = fabric.links_of(leaf)[40];
    let mut probe = || {
        let [from, to] = [0, 1].map(|_| hosts[rng.below(1024)]);
        let port = rng.below(1 << 16) as u16;
        let way = |atlas: &mut Atlas<'_>, ends: [_; 2]| {
            let label = ecmp.label(Fields {
                source: from.index() as u32,
                destination: to.index() as u32,
                source_port: port,
                destination_port: 7333,
                protocol: 17,
            });
            atlas.hashed(ends, &ecmp, label).unwrap_or_default()
        };
        let (there, back) = (way(&mut atlas, [from, to]), way(&mut atlas, [to, from]));
        let crossed = there
            .iter()
            .filter(|hop| hop.link == bad && hop.from == leaf)
            .count();
        let sent = (0..SENT_PROBES as usize * crossed).filter(|_| rng.below(100) == 0);
        let lost = sent.count() as u64;
        let way = there.into_iter().chain(back).collect();
        Crossed {
            from,
            to,
            way,
            lost,
        }
    };
    (0..PROBE_RESULTS).map(|_| probe()).collect()
}

/// Measures the search alone.
fn localisation() {
    let fabric = leaf_spine(32, 64, 32);
    let atlas = Atlas::new(&fabric);
    let results = results(&fabric);
    let probe = |result: &Crossed| Probe {
        hops: result.way.iter().map(|&hop| atlas.index(hop)).collect(),
        hosts: [result.from, result.to].map(|host| Some(host.index())),
        sent: SENT_PROBES,
        lost: result.lost,
    };
    let probes: Vec<_> = results.iter().map(probe).collect();
    let ground = Ground::of(&atlas);
    let runs = (0..RUN_COUNT).map(|_| {
        let (found, took_s) = timed(|| localise(&ground, &probes));
        (
            took_s,
            format!(
                "culprits={} suspects={}",
                found.len(),
                found[0].suspects.len()
            ),
        )
    });
    print_row("localise-100000-results", 0.1, runs.collect());
}

/// Measures everything from named results to a finding.
fn diagnosis() {
    let fabric = leaf_spine(32, 64, 32);
    let results = results(&fabric);
    let name = |node| fabric.name(node).to_owned();
    let probed = |result: &Crossed| {
        let ends = result.way.iter();
        let ends = ends.map(|hop| fabric.link(hop.link).far(hop.from).node);
        Probed {
            path: [result.from].into_iter().chain(ends).map(name).collect(),
            sent: SENT_PROBES,
            lost: result.lost,
            ..Probed::default()
        }
    };
    let probes: Vec<_> = results.iter().map(probed).collect();
    let runs = (0..RUN_COUNT).map(|_| {
        let evidence = Evidence {
            probes: probes.clone(),
            ..Evidence::default()
        };
        let (found, took_s) = timed(|| evidence.sifted(&fabric).0.diagnose(&fabric));
        let found = found.expect("it fits");
        (
            took_s,
            format!("findings={} first={}", found.len(), found[0].class),
        )
    });
    print_row("diagnose-100000-results", 0.1, runs.collect());
}

/// Number of flows per link, as the command requests: ten probes a second, by flows of two and a half each.
const FLOWS_PER_LINK: u32 = 4;

/// Fabric of some 10 000 hosts at switches, or of a thousand directly wired ones.
struct Shape {
    name: &'static str,
    fabric: fn() -> Fabric,
}

const BENCH_FABRICS: [Shape; 6] = [
    Shape {
        name: "probes-10000-hosts",
        fabric: || leaf_spine(313, 32, 32),
    },
    Shape {
        name: "probes-10000-hosts-many-leaves",
        fabric: || leaf_spine(1250, 16, 8),
    },
    Shape {
        name: "probes-10000-hosts-fat-tree",
        fabric: || shapes::fat_tree(34),
    },
    Shape {
        name: "probes-10000-hosts-of-two-leaves",
        fabric: || shapes::rails(157, 2, 64, 32),
    },
    Shape {
        name: "probes-10000-hosts-of-eight-leaves",
        fabric: || shapes::rails(157, 8, 64, 32),
    },
    Shape {
        name: "probes-1000-relays",
        fabric: || wired(1024, &[1, 5, 25, 125]),
    },
];

fn probes(shape: &Shape) {
    let fabric = (shape.fabric)();
    let (cover, took_s) = timed(|| cover(&fabric, &Ecmp::default(), FLOWS_PER_LINK));
    assert_eq!(cover.uncovered, [], "every link is crossed");
    let figures = format!(
        "flows={} least={} uncovered={}",
        cover.flows.len(),
        cover.least,
        cover.uncovered.len()
    );
    print_row(shape.name, 2.0, vec![(took_s, figures)]);
}

/// Measures the choice of a coordinator: four traced flows from each host to one of its next 64.
fn chosen() {
    let fabric = leaf_spine(313, 32, 32);
    let (mut atlas, ecmp) = (Atlas::new(&fabric), Ecmp::default());
    let hosts: Vec<_> = fabric.endpoints().collect();
    let mut candidates = Vec::new();
    for (pair, &from) in hosts.iter().enumerate() {
        let to = hosts[(pair + 1 + pair * 7 % 64) % hosts.len()];
        for port in 7400..7404 {
            let mut way = |[from, to]: [NodeId; 2], [source_port, destination_port]: [u16; 2]| {
                let label = ecmp.label(Fields {
                    source: from.index() as u32,
                    destination: to.index() as u32,
                    source_port,
                    destination_port,
                    protocol: 17,
                });
                let way = atlas.hashed([from, to], &ecmp, label).unwrap_or_default();
                way.into_iter().map(|hop| atlas.index(hop)).collect()
            };
            let ways = [way([from, to], [port, 7333]), way([to, from], [7333, port])];
            candidates.push(Candidate { pair, ways });
        }
    }
    let (chosen, took_s) = timed(|| choose(&candidates, atlas.hops(), FLOWS_PER_LINK));
    let figures = format!("candidates={} chosen={}", candidates.len(), chosen.len());
    print_row("probes-live-10000-hosts", 2.0, vec![(took_s, figures)]);
}

/// Places a ring and groups of eight with more traffic on 32 racks, from a random order.
fn ranks() {
    let fabric = leaf_spine(32, 8, 32);
    let mut hosts: Vec<_> = fabric.endpoints().collect();
    SplitMix64::new(1).shuffle(&mut hosts);
    let mut demand = Demand {
        places: 1024,
        ..Demand::default()
    };
    for place in 0..1024 {
        demand.add(place, (place + 1) % 1024, 1e9);
        demand.add(place, place / 8 * 8 + (place + 1) % 8, 4e9);
    }
    let request = Request {
        fabric: &fabric,
        demand: &demand,
        hosts: &hosts,
        pairs: &BTreeMap::new(),
        seed: 1,
        work: 600_000,
    };
    let (placed, took_s) = timed(|| place(&request));
    let placed = placed.expect("there are hosts enough");
    let [before, after] = placed.crossing.map(|bytes| bytes / 1e9);
    print_row(
        "ranks-1024",
        5.0,
        vec![(took_s, format!("crossing_gb={before:.0}->{after:.0}"))],
    );
}
