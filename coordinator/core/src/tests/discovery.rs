//! The fabric as its agents discover it.

use reweave_common::fabric::Fabric;
use reweave_common::hardware::{Neighbour, NicReport};
use reweave_common::operator::{Discovered, DiscoveredLink, Mode, Request, Response};
use reweave_common::sample::{HostReading, Interface, Reading};
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::diagnosis::say;
use super::network::Network;
use super::scene::SETTLE_TIME;

fn discovered(cluster: &mut Cluster) -> Discovered {
    match cluster.ask(Request::Discover { from_link: 0 }) {
        Response::Discovered(found) => found,
        other => panic!("{other:?}"),
    }
}

/// Nodes without links, named as in a leaf-spine fabric.
fn nodes_alone() -> Cluster {
    let names = ["h0", "h1", "leaf0", "leaf1"];
    let node = |name: &&str| {
        let role = if name.starts_with('h') {
            "host"
        } else {
            "switch"
        };
        format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n")
    };
    let nodes: String = names.iter().map(node).collect();
    Cluster::on(
        Network::of(&format!("kind = \"graph\"\n{nodes}")),
        Mode::Manual,
    )
}

fn nic(interface: &str, gbps: f64) -> Reading {
    Reading::Host(HostReading::Nic(Box::new(NicReport {
        interface: interface.to_owned(),
        speed: Rate::from_gbps(gbps),
        ..NicReport::default()
    })))
}

fn neighbour(interface: &str, system: &str, port: &str) -> Reading {
    Reading::Host(HostReading::Neighbour(Box::new(Neighbour {
        interface: interface.to_owned(),
        system: system.to_owned(),
        port: port.to_owned(),
        address: None,
    })))
}

fn interface(name: &str, own: u8, gateways: &[u8]) -> Reading {
    Reading::Interface(Interface {
        name: name.to_owned(),
        addresses: vec![[10, 1, 0, own].into()],
        gateways: gateways
            .iter()
            .map(|last| [10, 1, 0, *last].into())
            .collect(),
    })
}

fn ends(link: &DiscoveredLink) -> String {
    let end = |nth: usize| {
        let end = &link.ends[nth];
        let interface = end.interface.as_deref().unwrap_or("?");
        format!("{}:{interface}", end.node)
    };
    format!("{} {}", end(0), end(1))
}

/// Each pair of nodes in both directions, without names of parallel links.
fn joined(fabric: &Fabric) -> Vec<[String; 2]> {
    let mut joined: Vec<_> = fabric
        .links()
        .map(|(_, link)| {
            let mut ends = link.ports().map(|port| fabric.name(port.node).to_owned());
            ends.sort_unstable();
            ends
        })
        .collect();
    joined.sort_unstable();
    joined
}

/// Hosts have routes over leaves, and traces pass the spines.
#[test]
fn links_discovered_by_routes_and_traces() {
    let mut cluster = Cluster::on(Network::new(2, 3), Mode::Manual);
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.network.start("h1", "h4", 1001, 1);
    cluster.run_for(SETTLE_TIME);
    let found = discovered(&mut cluster);
    let mut seen: Vec<_> = found
        .links
        .iter()
        .map(|link| link.ends.each_ref().map(|end| end.node.clone()))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, joined(&cluster.network.fabric));
    assert!(found.links.iter().all(|link| !link.is_guess), "{found:#?}");
    let traced = found
        .links
        .iter()
        .filter(|it| it.because.contains(&"traces".to_owned()));
    assert_eq!(traced.count(), 6, "{found:#?}");
}

#[test]
fn lldp_outranks_addresses_and_reports_speeds() {
    let mut cluster = nodes_alone();
    say(
        &mut cluster,
        "h0",
        vec![nic("eth0", 100.0), neighbour("eth0", "leaf0.dc1", "swp1")],
    );
    say(&mut cluster, "h0", vec![interface("eth0", 0, &[])]);
    say(&mut cluster, "h1", vec![interface("eth0", 1, &[])]);
    say(
        &mut cluster,
        "leaf0",
        vec![nic("swp1", 40.0), neighbour("swp1", "h0", "eth0")],
    );
    let found = discovered(&mut cluster);
    let [link] = &found.links[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(ends(link), "h0:eth0 leaf0:swp1");
    assert_eq!(link.rate_bits_per_s, Rate::from_gbps(40.0));
    assert_eq!(link.because, ["LLDP at h0", "LLDP at leaf0"]);
    let [differ, ..] = &link.doubts[..] else {
        panic!("{link:#?}")
    };
    assert!(
        differ.contains("100.0 Gb/s") && differ.contains("40.0 Gb/s"),
        "{differ}"
    );
    assert_eq!(found.doubts, [""; 0], "what is taken needs no other");
}

#[test]
fn addresses_alone_discover_no_link() {
    let mut cluster = nodes_alone();
    say(&mut cluster, "h0", vec![interface("mgmt", 0, &[])]);
    say(&mut cluster, "h1", vec![interface("mgmt", 1, &[])]);
    let found = discovered(&mut cluster);
    assert_eq!((found.links.len(), found.doubts.len()), (0, 1));
    assert!(found.doubts[0].starts_with("mgmt of h0 and mgmt of h1"));
}

#[test]
fn tied_link_evidence_is_guess() {
    let mut cluster = nodes_alone();
    say(&mut cluster, "h0", vec![interface("eth0", 0, &[2, 4])]);
    say(&mut cluster, "leaf0", vec![interface("swp1", 2, &[])]);
    say(&mut cluster, "leaf1", vec![interface("swp1", 4, &[])]);
    let found = discovered(&mut cluster);
    assert_eq!(found.links.len(), 2, "{found:#?}");
    assert!(
        found
            .links
            .iter()
            .all(|link| link.is_guess && !link.doubts.is_empty())
    );
}

#[test]
fn switch_without_agent_found_by_lldp() {
    let mut cluster = nodes_alone();
    say(
        &mut cluster,
        "h0",
        vec![neighbour("eth0", "sw-17", "Ethernet4")],
    );
    say(
        &mut cluster,
        "h1",
        vec![neighbour("eth0", "sw-17", "Ethernet8")],
    );
    let found = discovered(&mut cluster);
    let stranger = found.nodes.last().unwrap();
    assert_eq!((&stranger.name[..], stranger.doubts.len()), ("sw-17", 1));
    let seen: Vec<_> = found.links.iter().map(ends).collect();
    assert_eq!(seen, ["h0:eth0 sw-17:Ethernet4", "h1:eth0 sw-17:Ethernet8"]);
    let unsure = |link: &DiscoveredLink| link.doubts.iter().any(|it| it.contains("sw-17"));
    assert!(found.links.iter().all(unsure), "{found:#?}");
}
