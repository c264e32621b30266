//! Is the network what the scenario says? Asked of the kernel, node by node.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::{Lab, trial};
use crate::{LAB_NEEDS, PING_NEEDS};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("all_reach_all_leaf_spine", PING_NEEDS, || {
            all_reach_all("leaf-spine");
        }),
        trial("all_reach_all_direct", PING_NEEDS, || {
            all_reach_all("direct");
        }),
        trial("all_reach_all_graph", PING_NEEDS, || {
            all_reach_all("graph");
        }),
        trial("all_reach_all_ideal", PING_NEEDS, || {
            all_reach_all("ideal");
        }),
        trial(
            "node_sees_only_own_state",
            LAB_NEEDS,
            node_sees_only_own_state,
        ),
        trial(
            "interfaces_are_as_planned",
            LAB_NEEDS,
            interfaces_are_as_planned,
        ),
        trial(
            "interface_rates_match_links",
            LAB_NEEDS,
            interface_rates_match_links,
        ),
        trial("router_sysctls_are_set", LAB_NEEDS, router_sysctls_are_set),
        trial(
            "leaves_have_next_hop_per_spine",
            LAB_NEEDS,
            leaves_have_next_hop_per_spine,
        ),
        trial(
            "parallel_links_are_all_used",
            LAB_NEEDS,
            parallel_links_are_all_used,
        ),
        trial("relays_know_every_nic", LAB_NEEDS, relays_know_every_nic),
        trial(
            "traces_name_inbound_interfaces",
            PING_NEEDS,
            traces_name_inbound_interfaces,
        ),
        trial("paths_are_reproducible", LAB_NEEDS, paths_are_reproducible),
    ]
}

/// Every address of every node answers every node at once, without a request for a neighbour.
fn all_reach_all(scenario: &str) {
    let lab = Lab::up(scenario);
    let nodes = lab.nodes();
    for node in &nodes {
        let routes = lab.output(node, &["ip", "route"]);
        assert!(
            !routes.contains("linkdown"),
            "{node} waits for a carrier: {routes}"
        );
    }
    let names = lab.output(&nodes[0], &["cat", "/etc/hosts"]);
    let names = names
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(_, name)| name);
    let names: Vec<_> = names.filter(|name| *name != "localhost").collect();
    assert!(names.len() >= nodes.len(), "{names:?}");
    let script = format!(
        "for name in {}; do ping -q -c1 -W5 $name >/dev/null || echo $name; done",
        names.join(" ")
    );
    for node in &nodes {
        assert_eq!(
            lab.output(node, &["sh", "-c", &script]),
            "",
            "{node} does not reach these"
        );
        assert_neighbours_were_given(&lab, node);
    }
}

fn assert_neighbours_were_given(lab: &Lab, node: &str) {
    let neighbours = lab.json(node, &["ip", "-j", "neighbour"]);
    let neighbours = neighbours.as_array().expect("ip lists them");
    let links = lab.json(node, &["ip", "-j", "link", "show", "type", "veth"]);
    assert_eq!(
        neighbours.len(),
        links.as_array().map_or(0, Vec::len),
        "{node}: {neighbours:?}"
    );
    for neighbour in neighbours {
        assert_eq!(
            neighbour["state"],
            serde_json::json!(["PERMANENT"]),
            "{node}: {neighbour}"
        );
    }
}

fn node_sees_only_own_state() {
    let lab = Lab::up("leaf-spine");
    assert_eq!(lab.output("leaf1", &["hostname"]), "leaf1\n");
    assert_eq!(lab.output("h2", &["hostname"]), "h2\n");
    let devices = lab.output("leaf1", &["ls", "/sys/class/net"]);
    assert_eq!(
        devices.split_whitespace().collect::<Vec<_>>(),
        ["lo", "swp0", "swp1", "swp2", "swp3"]
    );
    let addresses = lab.output("h2", &["getent", "ahostsv4", "spine1"]);
    assert!(addresses.starts_with("10.128.0.3 "), "{addresses}");
    // The first process of what it sees is the lab's, not the machine's.
    let first = lab.output("h2", &["cat", "/proc/1/comm"]);
    assert_eq!(first, "reweave-lab\n");
}

fn interfaces_are_as_planned() {
    let lab = Lab::up("leaf-spine");
    let shown = lab.json("h3", &["ip", "-j", "address", "show", "eth0"]);
    let eth0 = &shown[0];
    assert_eq!(
        (&eth0["mtu"], &eth0["operstate"]),
        (&9000.into(), &"UP".into())
    );
    assert_eq!(eth0["address"], "02:00:00:00:03:00");
    let address = &eth0["addr_info"][0];
    assert_eq!(
        (&address["local"], &address["prefixlen"]),
        (&"10.0.0.3".into(), &32.into())
    );
    let shown = lab.json("spine1", &["ip", "-j", "address"]);
    let locals = |device: &Value| -> Vec<String> {
        let all = device["addr_info"].as_array().into_iter().flatten();
        all.map(|info| {
            format!(
                "{}/{}",
                info["local"].as_str().unwrap_or(""),
                info["prefixlen"]
            )
        })
        .collect()
    };
    let by_name = |name: &str| {
        let all = shown.as_array().into_iter().flatten();
        all.filter(|device| device["ifname"] == name)
            .flat_map(locals)
            .collect::<Vec<_>>()
    };
    assert_eq!(by_name("lo"), ["127.0.0.1/8", "10.128.0.3/32"]);
    assert_eq!(by_name("swp1"), ["10.192.0.15/31"]);
}

fn interface_rates_match_links() {
    let lab = Lab::up("leaf-spine");
    for (node, interface, rate_mbps) in [
        ("h0", "eth0", 400),
        ("leaf0", "swp1", 400),
        ("leaf0", "swp3", 200),
    ] {
        let shown = lab.json(node, &["tc", "-j", "qdisc", "show", "dev", interface]);
        let root = &shown[0];
        assert_eq!(
            (&root["kind"], &root["root"]),
            (&"tbf".into(), &true.into()),
            "{shown}"
        );
        let bytes_per_s = root["options"]["rate"].as_u64();
        assert_eq!(
            bytes_per_s,
            Some(rate_mbps * 1_000_000 / 8),
            "{node} {interface}"
        );
    }
}

fn router_sysctls_are_set() {
    let lab = Lab::up("leaf-spine");
    let value = |node: &str, key: &str| {
        let path = format!("/proc/sys/net/ipv4/{key}");
        lab.output(node, &["cat", &path]).trim().to_owned()
    };
    assert_eq!(
        [value("h0", "ip_forward"), value("leaf0", "ip_forward")],
        ["0", "1"]
    );
    for (key, expected) in [
        ("conf/swp0/rp_filter", "0"),
        ("conf/all/rp_filter", "0"),
        ("conf/swp0/send_redirects", "0"),
        ("conf/swp0/accept_redirects", "0"),
        ("icmp_errors_use_inbound_ifaddr", "1"),
        ("icmp_ratelimit", "0"),
    ] {
        assert_eq!(value("leaf0", key), expected, "{key}");
    }
    let policy = value("leaf0", "fib_multipath_hash_policy");
    assert!(["1", "3"].contains(&policy.as_str()), "{policy}");
    if policy == "3" {
        assert_eq!(value("leaf0", "fib_multipath_hash_fields"), "55");
    }
}

/// The interfaces over which `node` sends to `address`, by its routing table.
fn ways(lab: &Lab, node: &str, address: &str) -> Vec<String> {
    let shown = lab.json(node, &["ip", "-j", "route", "show", address]);
    let routes = shown.as_array().expect("ip lists them");
    let [route] = routes.as_slice() else {
        panic!("{node} has {} routes to {address}: {shown}", routes.len());
    };
    let device = |hop: &Value| hop["dev"].as_str().expect("a hop has a device").to_owned();
    match route["nexthops"].as_array() {
        Some(hops) => hops.iter().map(device).collect(),
        None => vec![device(route)],
    }
}

fn leaves_have_next_hop_per_spine() {
    let lab = Lab::up("leaf-spine");
    assert_eq!(ways(&lab, "leaf0", "10.0.0.3"), ["swp2", "swp3"]);
    assert_eq!(ways(&lab, "leaf0", "10.0.0.1"), ["swp1"]);
    assert_eq!(ways(&lab, "spine1", "10.0.0.3"), ["swp1"]);
    assert_eq!(ways(&lab, "h0", "default"), ["eth0"]);
}

fn parallel_links_are_all_used() {
    let lab = Lab::up("graph");
    assert_eq!(ways(&lab, "left", "10.0.0.1"), ["swp1", "swp2", "swp3"]);
    assert_eq!(ways(&lab, "relay", "10.0.0.3"), ["eth1", "eth2"]);
    assert_eq!(ways(&lab, "tail", "10.0.0.0"), ["eth0", "eth1"]);
}

fn relays_know_every_nic() {
    let lab = Lab::up("direct");
    for nic in 0..4 {
        // The host three positions further is reached in two steps over two paths: 1 then 2, or 2 then 1.
        let ways = ways(&lab, "h0", &format!("10.{nic}.0.3"));
        assert!(ways.len() >= 2, "{ways:?}");
    }
    let own = lab.json("h4", &["ip", "-j", "address", "show", "eth3"]);
    let locals = own[0]["addr_info"].as_array().into_iter().flatten();
    let locals: Vec<_> = locals
        .map(|info| info["local"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(locals[0], "10.3.0.4");
    assert!(locals[1].starts_with("10.192."), "{locals:?}");
}

/// A packet that expires is answered by the port at which it arrived.
fn traces_name_inbound_interfaces() {
    let lab = Lab::up("leaf-spine");
    for (hops, answering) in [
        ("1", ["10.192.0.1"; 2]),
        ("2", ["10.192.0.9", "10.192.0.11"]),
    ] {
        let said = lab
            .exec("h0", &["ping", "-n", "-c1", "-W5", "-t", hops, "h3"])
            .stdout;
        let from = |address: &&str| said.contains(&format!("From {address} "));
        assert!(answering.iter().any(from), "{said}");
    }
}

fn paths_are_reproducible() {
    let text = |seed: u32| {
        format!(
            "name = \"seeded\"\nseed = {seed}\n[fabric]\nkind = \"leaf-spine\"\nleaves = 2\n\
             spines = 4\nhosts_per_leaf = 1\nhost_gbps = 0.1\nuplink_gbps = 0.1\n"
        )
    };
    let [first, again, other] = [5, 5, 6].map(|seed| Lab::up_text(&text(seed)));
    let seeded = first.came_up["features"].as_array().expect("a list");
    let paths = chosen_paths(&first);
    let distinct: std::collections::BTreeSet<_> = paths.iter().collect();
    assert_eq!(distinct.len(), 4, "32 flows use all four spines: {paths:?}");
    if seeded.contains(&"hash-seed".into()) {
        assert_eq!(paths, chosen_paths(&again));
        assert_ne!(paths, chosen_paths(&other));
    }
}

/// Returns the ports by which leaf0 sends 32 flows that differ only in their source ports.
fn chosen_paths(lab: &Lab) -> Vec<String> {
    let ask = "for port in $(seq 5000 5031); do ip route get 10.0.0.1 from 10.0.0.0 iif swp0 \
               ipproto udp sport $port dport 4791; done";
    let said = lab.output("leaf0", &["sh", "-c", ask]);
    let device = |line: &str| {
        Some(
            line.split_once(" dev ")?
                .1
                .split_whitespace()
                .next()?
                .to_owned(),
        )
    };
    said.lines().filter_map(device).collect()
}
