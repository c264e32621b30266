//! The peers and ports that each host probes, before and after paths are known.

use std::sync::Arc;

use reweave_common::sample::{Interface, Reading, Sample};
use reweave_common::snapshot::Hop;

use super::*;
use crate::estimate::probe_paths::ProbePaths;
use crate::{Core, Input, Policy};

#[test]
fn fewer_peers_use_more_ports() {
    let ports_in = |text: &str| {
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        ports(&fabric, fabric.find("h0").unwrap())
    };
    let leaf_spine = |spines: usize, hosts: usize| {
        ports_in(&format!(
            "kind = \"leaf-spine\"\nleaves = 2\nspines = {spines}\nhosts_per_leaf = {hosts}\n\
             host_gbps = 1\nuplink_gbps = 1"
        ))
    };
    assert_eq!(
        (leaf_spine(4, 1), leaf_spine(8, 1), leaf_spine(32, 1)),
        (21, 51, 64)
    );
    assert_eq!(
        (leaf_spine(32, 2), leaf_spine(32, 32), leaf_spine(2, 4)),
        (64, 4, 4)
    );
    assert_eq!(
        ports_in("kind = \"direct\"\nhosts = 4\nlink_gbps = 1\nstrides = [1]"),
        4
    );
}

const HOSTS: usize = 1024;
const LEAVES: usize = 32;
const SPINES: usize = 8;

fn host(index: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 + index as u32)
}

/// An address without a NIC in the file.
fn end(address: Ipv4Addr) -> ProbeEnd {
    let rail = None;
    ProbeEnd { address, rail }
}

fn of(address: Ipv4Addr) -> usize {
    address.to_bits() as usize & 0xffff
}

/// The way over the spine that these fields are hashed to.
fn way(fabric: &Fabric, flow: &FlowKey) -> Vec<Hop> {
    let ends = [flow.source, flow.destination];
    let hosts = ends.map(|end| of(*end.ip()));
    let racks = hosts.map(|host| host / (HOSTS / LEAVES));
    let mut hash = 0x811c_9dc5_u32;
    for end in ends {
        for part in [end.ip().to_bits(), u32::from(end.port())] {
            hash = (hash ^ part).wrapping_mul(0x0100_0193);
            hash ^= hash >> 15;
        }
    }
    let spine = (racks[0] != racks[1]).then(|| format!("spine{}", hash as usize % SPINES));
    let mut names = vec![format!("h{}", hosts[0]), format!("leaf{}", racks[0])];
    names.extend(
        spine
            .into_iter()
            .flat_map(|spine| [spine, format!("leaf{}", racks[1])]),
    );
    names.push(format!("h{}", hosts[1]));
    let nodes: Vec<_> = names
        .iter()
        .map(|name| fabric.find(name).unwrap())
        .collect();
    let hop = |two: &[NodeId]| Hop {
        from: two[0],
        link: fabric.links_between(two[0], two[1]).next().unwrap(),
    };
    nodes.windows(2).map(hop).collect()
}

/// Checks the schedule once all hosts have reported and all candidates are traced.
#[test]
fn few_flows_cover_every_link() {
    let text = format!(
        "kind = \"leaf-spine\"\nleaves = {LEAVES}\nspines = {SPINES}\nhosts_per_leaf = {}\n\
         host_gbps = 100\nuplink_gbps = 100",
        HOSTS / LEAVES
    );
    let fabric = Arc::new(Fabric::parse("fabric.toml", &text).unwrap());
    let core = Core::new(Policy::default(), Arc::clone(&fabric));
    let now = Moment::from_micros(1_000_000);
    let known = core.known_at(now);
    let mut probing = ProbeSchedule::default();
    let hosts: Vec<_> = (0..HOSTS)
        .map(|index| fabric.find(&format!("h{index}")).unwrap())
        .collect();
    probing.addresses = hosts
        .iter()
        .zip(0..)
        .map(|(node, index)| (*node, vec![end(host(index))]))
        .collect();
    let before = probing.list(known, hosts[0]);
    assert_eq!(
        before.flows.len(),
        16 * 4 + 48,
        "by all ports a quarter of its peers"
    );
    let asked = probing.asked(known);
    assert_eq!(asked.len(), candidates::MAX_TRACED_FLOWS);
    let mut ways = ProbePaths::default();
    for flow in asked.iter().flat_map(|it| [it.flow, it.flow.reversed()]) {
        ways.know(flow, way(&fabric, &flow), now);
    }
    let known = Measurements {
        ways: &ways,
        ..known
    };
    let mut selection = Selection::default();
    assert!(selection.advance(known, || asked.clone()));
    let kept: Vec<_> = asked
        .iter()
        .filter(|it| selection.keeps(&it.flow))
        .collect();
    assert!(kept.len() * 3 < asked.len(), "{} are kept", kept.len());
    let pairs: std::collections::BTreeSet<_> = kept.iter().map(|it| it.pair).collect();
    assert_eq!(pairs.len(), 16 * HOSTS, "one at least of each two hosts");
    let mut crossed: BTreeMap<Hop, u32> = BTreeMap::new();
    for flow in kept.iter().flat_map(|it| [it.flow, it.flow.reversed()]) {
        for hop in way(&fabric, &flow) {
            *crossed.entry(hop).or_default() += 1;
        }
    }
    assert_eq!(crossed.len(), 2 * (HOSTS + LEAVES * SPINES));
    assert!(crossed.values().all(|times| *times >= 4));
    probing.selection = selection;
    let after = probing.list(known, hosts[0]);
    let a_second = |list: &ProbeList| list.flows.len() as f64 / list.period.as_secs_f64();
    assert!(after.flows.len() < before.flows.len());
    assert!((a_second(&before) - 640.0).abs() < 1.0 && (a_second(&after) - 640.0).abs() < 1.0);
    let coverage = probing.coverage(&fabric).unwrap();
    assert_eq!((coverage.directions, coverage.seldom), (crossed.len(), 0));
}

/// Checks the answer for an uplink that no trace crossed: it says that no flow is known to cross it.
#[test]
fn rarely_crossed_links_are_reported() {
    let text = "kind = \"leaf-spine\"\nleaves = 32\nspines = 8\nhosts_per_leaf = 32\n\
                host_gbps = 100\nuplink_gbps = 100";
    let fabric = Arc::new(Fabric::parse("fabric.toml", text).unwrap());
    let core = Core::new(Policy::default(), Arc::clone(&fabric));
    let now = Moment::from_micros(1_000_000);
    let mut probing = ProbeSchedule::default();
    for index in 0..64 {
        let node = fabric.find(&format!("h{index}")).unwrap();
        probing.addresses.insert(node, vec![end(host(index))]);
    }
    let known = core.known_at(now);
    assert_eq!(probing.coverage(&fabric), None, "ways are not known yet");
    let asked = probing.asked(known);
    let mut ways = ProbePaths::default();
    for flow in asked.iter().flat_map(|it| [it.flow, it.flow.reversed()]) {
        ways.know(flow, way(&fabric, &flow), now);
    }
    let known = Measurements {
        ways: &ways,
        ..known
    };
    assert!(probing.selection.advance(known, || asked.clone()));
    let coverage = probing.coverage(&fabric).unwrap();
    // Two racks of 32 hosts have 8 uplinks each; the other thirty are empty.
    let silent = 2 * 30 * (32 + 8);
    assert_eq!((coverage.wanted, coverage.seldom), (4, silent));
    assert_eq!(coverage.seldom_hops.len(), 64);
    let is_silent = |hop: &reweave_common::operator::Hop| {
        ![&hop.from, &hop.to]
            .iter()
            .any(|node| ["leaf0", "leaf1"].contains(&node.as_str()))
    };
    assert!(coverage.seldom_hops.iter().all(is_silent));
}

/// Two that are cabled to each other and forward; the first of them may have an address in the fabric's file.
fn two_relays(line: &str) -> (Arc<Fabric>, Core) {
    let text = format!(
        "kind = \"graph\"\nnode = [{{ name = \"h0\", role = \"relay\"{line} }}, \
         {{ name = \"h1\", role = \"relay\" }}]\nlink = [{{ a = \"h0\", b = \"h1\", gbps = 1 }}]"
    );
    let fabric = Arc::new(Fabric::parse("fabric.toml", &text).unwrap());
    let mut core = Core::new(Policy::default(), Arc::clone(&fabric));
    for (node, [own, far, place]) in fabric.endpoints().zip([[0, 1, 10], [1, 0, 11]]) {
        let interface = |name: &str, addresses: &[u8], gateways: &[u8]| {
            let of = |last: &u8| Ipv4Addr::new(10, 0, 0, *last);
            Reading::Interface(Interface {
                name: name.to_owned(),
                addresses: addresses.iter().map(of).collect(),
                gateways: gateways.iter().map(of).collect(),
            })
        };
        let readings = vec![
            interface("eth0", &[own, place], &[far]),
            interface("lo", &[place + 10], &[]),
        ];
        let taken = Moment::from_micros(1_000_000);
        let sample = Sample { taken, readings };
        core.handle(taken, Input::AgentUp { node });
        core.handle(taken, Input::Sample { node, sample });
    }
    (fabric, core)
}

/// Checks the address that a neighbour uses on its link: no other node has a route to it.
#[test]
fn relay_is_probed_by_loopback_address() {
    for (report, last) in [("", 10), (", address = \"10.0.0.20\"", 20)] {
        let (fabric, core) = two_relays(report);
        let known = core.known_at(Moment::from_micros(1_000_000));
        let own = vec![end(Ipv4Addr::new(10, 0, 0, last))];
        let h0 = fabric.find("h0").unwrap();
        assert_eq!(addresses(known).get(&h0), Some(&own), "{report}");
    }
}
