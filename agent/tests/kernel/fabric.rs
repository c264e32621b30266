//! Two leaves, two spines, two hosts on each leaf.
//!
//! Host `i` of leaf `l` is `h(2l+i)` with the address 10.l.i.1; its leaf is 10.l.i.0 to it. Leaf `l`
//! reaches spine `s` over `up(s)`: 172.16.(2l+s).0 is the leaf's end, .1 the spine's. What a leaf
//! sends itself comes from 10.l.255.1, or it would change its address with each path.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Stdio};
use std::thread;

use nix::sched::{CloneFlags, setns};
use reweave_agent::netlink::RouteSocket;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::sample::PinRule;

const HOSTS: [&str; 4] = ["h0", "h1", "h2", "h3"];
const SWITCHES: [&str; 4] = ["leaf0", "leaf1", "spine0", "spine1"];

pub(crate) use crate::poll::{TEST_TIMEOUT, wait_for, wait_until_constant};

pub(crate) struct Fabric;

pub(crate) fn host(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, number as u8 / 2, number as u8 % 2, 1)
}

pub(crate) fn leaf_of(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, number as u8 / 2, number as u8 % 2, 0)
}

/// The spine's end of the link to a leaf.
pub(crate) fn spine_at(leaf: u8, spine: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 16, 2 * leaf + spine, 1)
}

/// The leaf's end.
pub(crate) fn leaf_at(leaf: u8, spine: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 16, 2 * leaf + spine, 0)
}

/// Leaf 0 sends the flow over this spine.
pub(crate) fn pin(flow: FlowKey, spine: u8) -> PinRule {
    PinRule {
        flow,
        interface: format!("up{spine}"),
        next_hop: spine_at(0, spine),
    }
}

pub(crate) fn flow(protocol: Protocol, source: SocketAddrV4, destination: SocketAddrV4) -> FlowKey {
    FlowKey {
        protocol,
        source,
        destination,
    }
}

/// A flow from h0 to h2 that no host sends.
pub(crate) fn some_flow(source_port: u16) -> FlowKey {
    let source = SocketAddrV4::new(host(0), source_port);
    flow(Protocol::Tcp, source, SocketAddrV4::new(host(2), 5001))
}

impl Fabric {
    pub(crate) fn new() -> Self {
        let fabric = Self;
        for node in HOSTS.iter().chain(&SWITCHES) {
            ip(&["netns", "add", node]);
            within(node, || settle_kernel(SWITCHES.contains(node)));
            ip_in(node, &["link", "set", "lo", "up"]);
        }
        (0..4).for_each(connect_host);
        for leaf in 0..2 {
            (0..2).for_each(|spine| connect_spine(leaf, spine));
        }
        (0..2).for_each(route_leaf);
        fabric
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        for node in HOSTS.iter().chain(&SWITCHES) {
            ip(&["netns", "del", node]);
        }
    }
}

fn settle_kernel(forwards: bool) {
    let set = |name: &str, value: &str| {
        let path = format!("/proc/sys/net/ipv4/{name}");
        fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
    };
    set("conf/all/rp_filter", "0");
    set("conf/default/rp_filter", "0");
    // No probing for lost tails, which a busy machine provokes: to send again means a loss.
    set("tcp_early_retrans", "0");
    if forwards {
        set("ip_forward", "1");
        set("fib_multipath_hash_policy", "3");
        set("fib_multipath_hash_fields", "55");
        // Else a kernel sends half of its flows into a link that is dead at its other end.
        set("conf/all/ignore_routes_with_linkdown", "1");
        set("icmp_errors_use_inbound_ifaddr", "1");
        set("icmp_ratelimit", "0");
    }
}

fn connect_host(number: usize) {
    let (node, leaf) = (HOSTS[number], SWITCHES[number / 2]);
    let port = format!("swp{}", number % 2);
    veth(node, "eth0", leaf, &port);
    address(node, "eth0", host(number));
    address(leaf, &port, leaf_of(number));
    let gateway = leaf_of(number).to_string();
    ip_in(node, &["route", "add", "default", "via", &gateway]);
}

fn connect_spine(leaf: u8, spine: u8) {
    let (lower, upper) = (
        SWITCHES[usize::from(leaf)],
        SWITCHES[2 + usize::from(spine)],
    );
    let [up, down] = [format!("up{spine}"), format!("down{leaf}")];
    veth(lower, &up, upper, &down);
    address(lower, &up, leaf_at(leaf, spine));
    address(upper, &down, spine_at(leaf, spine));
    let (hosts, leaf_end) = (
        format!("10.{leaf}.0.0/16"),
        leaf_at(leaf, spine).to_string(),
    );
    ip_in(upper, &["route", "add", &hosts, "via", &leaf_end]);
}

fn route_leaf(leaf: u8) {
    let node = SWITCHES[usize::from(leaf)];
    let [own, others] = [
        format!("10.{leaf}.255.1"),
        format!("10.{}.0.0/16", 1 - leaf),
    ];
    ip_in(node, &["address", "add", &own, "dev", "lo"]);
    let [a, b] = [0, 1].map(|spine| spine_at(leaf, spine).to_string());
    let spread = ["nexthop", "via", &a, "nexthop", "via", &b];
    ip_in(
        node,
        &[&["route", "add", &others, "src", &own], &spread[..]].concat(),
    );
}

fn veth(a: &str, a_port: &str, b: &str, b_port: &str) {
    ip(&[
        "link", "add", a_port, "netns", a, "type", "veth", "peer", "name", b_port, "netns", b,
    ]);
}

fn address(node: &str, port: &str, address: Ipv4Addr) {
    ip_in(
        node,
        &["address", "add", &format!("{address}/31"), "dev", port],
    );
    ip_in(node, &["link", "set", port, "up"]);
}

pub(crate) fn ip(arguments: &[&str]) -> String {
    tool("ip", arguments)
}

pub(crate) fn ip_in(node: &str, arguments: &[&str]) -> String {
    within(node, || ip(arguments))
}

/// Feeds a script to nft in a node.
pub(crate) fn nft_in(node: &str, script: &str) {
    feed(node, "nft", &["-f", "-"], script);
}

/// Gives a program in a node a script to read.
pub(crate) fn feed(node: &str, program: &str, arguments: &[&str], script: &str) {
    within(node, || {
        let mut reader = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let mut stdin = reader.stdin.take().expect("piped");
        stdin.write_all(script.as_bytes()).expect("it reads");
        drop(stdin);
        let ended = reader.wait().expect("it ends");
        assert!(ended.success(), "{program} refused {script}");
    });
}

pub(crate) fn tool(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program).args(arguments).output();
    let run = run.unwrap_or_else(|error| panic!("{program}: {error}"));
    let words = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{program} {arguments:?}: {words}");
    String::from_utf8(run.stdout).expect("tools speak UTF-8")
}

/// Runs `work` in a node's network. Sockets opened in it stay there; so do programs it starts.
pub(crate) fn within<T: Send>(node: &str, work: impl FnOnce() -> T + Send) -> T {
    let enter_and_work = || {
        let space = File::open(format!("/run/netns/{node}")).expect("the node is there");
        setns(space, CloneFlags::CLONE_NEWNET).expect("and can be entered");
        work()
    };
    let outcome = thread::scope(|scope| scope.spawn(enter_and_work).join());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The spine over which leaf 0 sends a flow, as its kernel says.
pub(crate) fn spine_of(flow: &FlowKey) -> u8 {
    let [from, to] = [flow.source, flow.destination];
    let (source, destination) = (from.ip().to_string(), to.ip().to_string());
    let (sport, dport) = (from.port().to_string(), to.port().to_string());
    let protocol = flow.protocol.to_string();
    let question = [
        "route",
        "get",
        &destination,
        "from",
        &source,
        "iif",
        "swp0",
        "ipproto",
        &protocol,
        "sport",
        &sport,
        "dport",
        &dport,
    ];
    let answer = ip_in("leaf0", &question);
    let over = |spine: &u8| answer.contains(&format!("dev up{spine} "));
    (0..2)
        .find(over)
        .unwrap_or_else(|| panic!("over no spine: {answer}"))
}

/// The bytes leaf 0 has sent over each uplink.
pub(crate) fn uplink_bytes() -> [u64; 2] {
    within("leaf0", || {
        let links = RouteSocket::open()
            .and_then(|mut route| route.links())
            .expect("links");
        [0, 1].map(|spine| {
            let name = format!("up{spine}");
            let link = links.iter().find(|link| link.count.interface == name);
            link.expect("uplinks exist").count.sent.count()
        })
    })
}

/// The value of a counter of the node's kernel, by its name in /proc/net/{snmp,netstat}.
pub(crate) fn kernel_counter(node: &str, group: &str, name: &str) -> u64 {
    let read = |file| {
        within(node, || {
            fs::read_to_string(file).expect("counters can be read")
        })
    };
    let text = read("/proc/thread-self/net/snmp") + &read("/proc/thread-self/net/netstat");
    let prefix = format!("{group}: ");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, value) = pairs
        .find(|(it, _)| *it == name)
        .unwrap_or_else(|| panic!("no {group} {name}"));
    value.parse().expect("a number")
}
