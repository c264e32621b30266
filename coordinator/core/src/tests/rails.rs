//! Hosts with two NICs, each at a switch of its own.

use reweave_common::cause::Class;
use reweave_common::operator::Mode;

use super::cluster::Cluster;
use super::diagnosis::only;
use super::network::Network;
use super::scene::A_WHILE;

const RACKS: [[&str; 2]; 2] = [["leaf0", "leaf1"], ["leaf2", "leaf3"]];

/// Four hosts at the first two leaves, and two at the others. The NICs of these are cabled crosswise.
fn rails(swapped: [usize; 2]) -> Cluster {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let cables = |host: usize| {
        let mut leaves = RACKS[host / 4];
        if swapped.contains(&host) {
            leaves.reverse();
        }
        leaves.map(|leaf| format!("[[link]]\na = \"h{host}\"\nb = \"{leaf}\"\ngbps = 1\n"))
    };
    let leaves = RACKS.concat().into_iter().map(|leaf| node(leaf, "switch"));
    let hosts = (0..6).map(|host| node(&format!("h{host}"), "host"));
    let nodes: String = leaves.chain(hosts).collect();
    let cables: String = (0..6).flat_map(cables).collect();
    let text = format!("kind = \"graph\"\n{nodes}{cables}");
    let mut cluster = Cluster::on(Network::of(&text), Mode::Manual);
    cluster.run_for(A_WHILE);
    cluster
}

/// Of two that differ nobody knows which one is wrong.
#[test]
fn a_host_whose_cables_were_swapped_is_named() {
    let swapped = (Class::ConfigurationMismatch, "h2".to_owned());
    assert_eq!(only(&mut rails([2, 5])), swapped);
}
