//! Paths: each flow is traced, and then sent, and the link it was said to take must carry it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use libtest_mimic::Trial;
use reweave_tests::Stage;
use serde_json::Value;

use crate::flows::{PACKET_COUNT, send};
use crate::needs::{Need, trial};
use crate::play::must;
use crate::scene::{agent, host, lab, packets};

pub(crate) fn tests() -> Vec<Trial> {
    let needs = &[Need::Lab];
    vec![
        trial("flows_take_predicted_link", needs, over_spines),
        trial(
            "flows_take_predicted_parallel_link",
            needs,
            over_parallel_links,
        ),
        trial(
            "traces_match_scamper",
            &[Need::Lab, Need::Program("scamper")],
            as_scamper,
        ),
    ]
}

fn over_spines() {
    let stage = lab(FOUR_SPINES, "");
    let right = (0..64).filter(|number| {
        let flow = ends(40_000 + number * 7, host(1));
        is_right(&stage, "h0", "leaf0", flow, 1)
    });
    assert_eq!(right.count(), 64);
}

fn over_parallel_links() {
    let fabric = "kind = \"graph\"\n\
        node = [{ name = \"a\", role = \"host\" }, { name = \"s\", role = \"switch\" },\
                { name = \"t\", role = \"switch\" }, { name = \"b\", role = \"host\" }]\n\
        link = [{ a = \"a\", b = \"s\", gbps = 0.4 }, { a = \"s\", b = \"t\", gbps = 0.2, count = 4 },\
                { a = \"t\", b = \"b\", gbps = 0.4 }]\n";
    let stage = lab(fabric, "");
    let right = (0..100).filter(|number| {
        let flow = ends(50_000 + number * 3, host(1));
        is_right(&stage, "a", "s", flow, 1)
    });
    assert_eq!(right.count(), 100);
}

const FOUR_SPINES: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 1\n\
                           host_gbps = 0.4\nuplink_gbps = 0.2\n";

/// Paris traceroute keeps the five fields of a flow, as we do.
fn as_scamper() {
    let stage = lab(FOUR_SPINES, "");
    let ports: Vec<u16> = (0..16).map(|nth| 40_000 + nth * 7).collect();
    let theirs = scampers(&stage, &ports);
    for port in ports {
        let [source, destination] = ends(port, host(1)).map(|end| end.to_string());
        let ours = agent(&stage, "h0", &["trace", "udp", &source, &destination]);
        assert_eq!(
            routers(&ours["routers"]),
            theirs[&port],
            "source port {port}"
        );
    }
    let [source, destination] = ends(40_000, host(1)).map(|end| end.to_string());
    let all = agent(
        &stage,
        "h0",
        &["trace", "udp", &source, &destination, "--all"],
    );
    let leaf = &all["forks"][1];
    println!("{} flows, of which {leaf}", all["flows"]);
    let known = routers(&leaf["next"]);
    assert_eq!(known.len(), 4, "all spines");
    assert!(
        theirs.values().all(|way| known.contains(&way[1])),
        "{theirs:?}"
    );
}

fn routers(said: &Value) -> Vec<Ipv4Addr> {
    let said = said.as_array().expect("a list").iter();
    said.map(|it| {
        it.as_str()
            .and_then(|it| it.parse().ok())
            .expect("an address")
    })
    .collect()
}

/// The routers before the receiver, by source port.
fn scampers(stage: &Stage, ports: &[u16]) -> BTreeMap<u16, Vec<Ipv4Addr>> {
    let to = host(1).to_string();
    let search = |port: &u16| format!("trace -P udp-paris -s {port} -d 4791 {to}");
    let searches: Vec<_> = ports.iter().map(search).collect();
    let mut words = vec!["scamper", "-p", "100", "-O", "json", "-I"];
    words.extend(searches.iter().map(String::as_str));
    let said = must(stage.output("h0", &words));
    let lines = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let traces = lines.filter(|line| line["type"] == "trace");
    let way = |trace: Value| {
        let port = trace["sport"].as_u64().expect("a port") as u16;
        let hops = trace["hops"].as_array().expect("a list").iter();
        let hops = hops.map(|hop| hop["addr"].as_str().and_then(|it| it.parse().ok()));
        let mut way: Vec<_> = hops.map(|hop| hop.expect("an address")).collect();
        assert_eq!(way.pop(), Some(host(1)));
        (port, way)
    };
    traces.map(way).collect()
}

/// As RoCEv2 has it.
fn ends(source_port: u16, to: Ipv4Addr) -> [SocketAddrV4; 2] {
    [
        SocketAddrV4::new(host(0), source_port),
        SocketAddrV4::new(to, 4791),
    ]
}

/// Whether the flow leaves `switch` by the interface that faces the router which the trace shows
/// at hop `next`, and by no other that leads on.
fn is_right(stage: &Stage, node: &str, switch: &str, flow: [SocketAddrV4; 2], next: usize) -> bool {
    let [source, destination] = flow.map(|end| end.to_string());
    let traced = agent(stage, node, &["trace", "udp", &source, &destination]);
    let router: Ipv4Addr = traced["routers"][next]
        .as_str()
        .unwrap_or_else(|| panic!("{traced}"))
        .parse()
        .expect("an address");
    let links = links(stage, switch);
    let said = &links[&facing(router)];
    let before = sent_by(stage, switch, &links);
    send(stage, node, flow[0], flow[1]);
    let after = sent_by(stage, switch, &links);
    let took: Vec<_> = links
        .values()
        .filter(|name| after[*name] - before[*name] >= PACKET_COUNT)
        .collect();
    let right = took == [said];
    println!("{source}: said {said}, took {took:?}");
    right
}

/// The other end of a link: links have two addresses.
fn facing(end: Ipv4Addr) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(end) ^ 1)
}

/// The interfaces of a switch, by their addresses.
fn links(stage: &Stage, switch: &str) -> BTreeMap<Ipv4Addr, String> {
    let said = must(stage.output(switch, &["ip", "-j", "-4", "address"]));
    let said: Value = serde_json::from_str(&said).expect("ip speaks JSON");
    let of_interface = |interface: &Value| {
        let name = interface["ifname"].as_str()?.to_owned();
        let address = interface["addr_info"][0]["local"].as_str()?;
        Some((address.parse().ok()?, name))
    };
    let interfaces = said.as_array().expect("a list").iter();
    let found = interfaces.filter_map(of_interface);
    // By the first, it faces the sender: there come only answers.
    let leads_on = |name: &str| name.starts_with("swp") && name != "swp0";
    found.filter(|(_, name)| leads_on(name)).collect()
}

fn sent_by(
    stage: &Stage,
    switch: &str,
    links: &BTreeMap<Ipv4Addr, String>,
) -> BTreeMap<String, u64> {
    let of = |name: &String| (name.clone(), packets(stage, switch, name, "tx"));
    links.values().map(of).collect()
}
