//! Traces of live flows: they name the routers the packets really pass, and disturb no flow.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reweave_agent::agent::Agent;
use reweave_agent::clock;
use reweave_agent::netlink::RouteSocket;
use reweave_agent::probes::Prober;
use reweave_agent::role::Role;
use reweave_agent::switch::Software;
use reweave_agent_core::probe::{Probe, ProbeAim, ProbeMark};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::instruction::Watch;
use reweave_common::sample::Reading;
use tempfile::TempDir;

use crate::fabric::{
    Fabric, TEST_TIMEOUT, flow, host, ip, ip_in, kernel_counter, leaf_at, leaf_of, nft_in, pin,
    spine_at, spine_of, wait_for, within,
};
use crate::flows::retransmits;
use crate::pins::hold;
use crate::tests;
use crate::traffic::{Datagrams, Session, Stream};

tests! {
    sixteen_live_flows_are_traced,
    udp_flow_is_traced,
    moved_flow_is_noticed,
    silent_router_is_left_out needs "nft",
    flow_to_neighbour_passes_one_leaf,
    dual_homed_first_hop_is_traced,
    hashed_dual_homed_path_stays_unknown,
    arriving_probe_disturbs_no_flow,
    rate_limited_routers_are_still_traced,
}

type Routers = Vec<Option<Ipv4Addr>>;

/// The agent of h0, asked to trace.
struct Tracing {
    agent: Agent,
    _scratch: TempDir,
}

impl Tracing {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a folder");
        let start = || {
            let software = Software::default();
            Agent::start(
                Role::Host,
                &software,
                scratch.path(),
                ProbeMark(0x00c0_ffee),
            )
        };
        let agent = within("h0", start).expect("the agent starts");
        Self {
            agent,
            _scratch: scratch,
        }
    }

    /// Lets the agent probe until `enough` of its news have come.
    fn heard(&mut self, watch: &Watch, enough: impl Fn(&[Reading]) -> bool) -> Vec<Reading> {
        self.agent.watch(watch);
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut heard = vec![];
        loop {
            self.agent.receive().expect("answers can be received");
            self.agent.probe();
            let news = self.agent.sample().readings.into_iter();
            let found = |it: &Reading| matches!(it, Reading::Path(_));
            heard.extend(news.filter(found));
            if enough(&heard) {
                return heard;
            }
            assert!(Instant::now() < deadline, "only {heard:?}");
            wait_for_answers(&self.agent);
        }
    }

    fn trace(&mut self, flows: &[FlowKey]) -> BTreeMap<FlowKey, Routers> {
        let watch = Watch {
            trace: flows.to_vec(),
        };
        let heard = self.heard(&watch, |heard| paths(heard).len() == flows.len());
        paths(&heard)
    }
}

fn paths(heard: &[Reading]) -> BTreeMap<FlowKey, Routers> {
    let paths = heard.iter().filter_map(|reading| match reading {
        Reading::Path(path) => Some((path.flow, path.routers.clone())),
        _ => None,
    });
    paths.collect()
}

fn wait_for_answers(agent: &Agent) {
    let socket = agent
        .answers()
        .expect("a descriptor")
        .expect("it may trace");
    let due = agent
        .next_probe()
        .map_or(Duration::ZERO, |due| due.since(clock::now()));
    let timeout = PollTimeout::try_from(due.min(Duration::from_millis(100))).expect("a short time");
    poll(
        &mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)],
        timeout,
    )
    .expect("poll");
}

fn through(spine: u8) -> Routers {
    vec![
        Some(leaf_of(0)),
        Some(spine_at(0, spine)),
        Some(leaf_at(1, spine)),
    ]
}

/// Sixteen, of which each spine has some: by chance all might go over one.
fn sessions_over_both_spines() -> Vec<Session> {
    let mut sessions: Vec<_> = (0..16).map(|_| Session::new(0, 2)).collect();
    wait_for("a session over the other spine", || {
        let spines: BTreeSet<_> = sessions.iter().map(|it| spine_of(&it.flow)).collect();
        if spines.len() < 2 {
            sessions[0] = Session::new(0, 2);
        }
        (spines.len() == 2).then_some(())
    });
    sessions
}

fn sixteen_live_flows_are_traced() {
    let _fabric = Fabric::new();
    let stream = |session| Stream::start(session, 8 << 10, Duration::from_millis(2));
    let streams: Vec<_> = sessions_over_both_spines()
        .into_iter()
        .map(stream)
        .collect();
    let flows: Vec<_> = streams.iter().map(|stream| stream.flow).collect();
    let resent = || flows.iter().map(|flow| retransmits(0, flow)).sum::<u64>();
    let [resent_before, errors_before] = [resent(), checksum_errors(2)];
    let mut tracing = Tracing::new();
    let begun = Instant::now();
    let traced = tracing.trace(&flows);
    eprintln!("16 flows traced in {:?}", begun.elapsed());
    for flow in &flows {
        assert_eq!(traced[flow], through(spine_of(flow)), "{flow}");
    }
    assert_eq!(checksum_errors(2), errors_before, "no probe has arrived");
    assert_eq!(resent(), resent_before);
    for stream in streams {
        stream.finish();
    }
    assert_eq!(
        kernel_counter("h0", "Tcp", "OutRsts") + kernel_counter("h2", "Tcp", "OutRsts"),
        0
    );
}

/// Packets of any kind that host `number` threw away for their checksum.
fn checksum_errors(number: usize) -> u64 {
    let node = format!("h{number}");
    kernel_counter(&node, "Tcp", "InCsumErrors") + kernel_counter(&node, "Udp", "InCsumErrors")
}

fn udp_flow_is_traced() {
    let _fabric = Fabric::new();
    let datagrams = Datagrams::start(0, 2);
    let flow = datagrams.flow;
    let mut tracing = Tracing::new();
    for spine in [0, 1] {
        hold(&[pin(flow, spine)]).expect("the kernel takes it");
        assert_eq!(tracing.trace(&[flow])[&flow], through(spine));
    }
    let (sent, arrived) = datagrams.finish();
    assert_eq!((arrived, checksum_errors(2)), (sent, 0));
}

fn moved_flow_is_noticed() {
    let _fabric = Fabric::new();
    let session = Session::new(0, 2);
    let flow = session.flow;
    let mut tracing = Tracing::new();
    let watch = Watch { trace: vec![flow] };
    for spine in [0, 1, 0, 1] {
        hold(&[pin(flow, spine)]).expect("the kernel takes it");
        let begun = Instant::now();
        let heard = tracing.heard(&watch, |heard| !heard.is_empty());
        eprintln!("seen after {:?}", begun.elapsed());
        assert_eq!(paths(&heard)[&flow], through(spine));
    }
    // Unasked, within the next rounds.
    hold(&[pin(flow, 0)]).expect("the kernel takes it");
    tracing.heard(&Watch { trace: vec![flow] }, |heard| {
        paths(heard).get(&flow) == Some(&through(0))
    });
}

fn silent_router_is_left_out() {
    let _fabric = Fabric::new();
    nft_in(
        "spine1",
        "table ip silence { chain out { type filter hook output priority 0; icmp type time-exceeded drop; }; }",
    );
    let session = Session::new(0, 2);
    let flow = session.flow;
    let mut tracing = Tracing::new();
    hold(&[pin(flow, 1)]).expect("the kernel takes it");
    let expected = vec![Some(leaf_of(0)), None, Some(leaf_at(1, 1))];
    assert_eq!(tracing.trace(&[flow])[&flow], expected);
    hold(&[pin(flow, 0)]).expect("the kernel takes it");
    assert_eq!(tracing.trace(&[flow])[&flow], through(0));
}

fn flow_to_neighbour_passes_one_leaf() {
    let _fabric = Fabric::new();
    let session = Session::new(0, 1);
    let traced = Tracing::new().trace(&[session.flow]);
    assert_eq!(traced[&session.flow], [Some(leaf_of(0))]);
}

/// By which h0 is known. It hangs at neither of its cables: kernels prefer the one whose address a packet bears.
const SHARED_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 7, 7);
/// The leaf's ends of the cables: of eth0, and of a second one.
const LEAF_ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(10, 9, 0, 0)];

/// From h0 two equal ways lead everywhere; its kernel hashes by this policy.
fn fabric_of_two_ways(policy: &str) -> Fabric {
    let fabric = Fabric::new();
    let cable = "link add eth1 netns h0 type veth peer name swp9 netns leaf0";
    ip(&cable.split(' ').collect::<Vec<_>>());
    let [first, second] = LEAF_ADDRESSES.map(|end| end.to_string());
    for (node, line) in [
        ("leaf0", format!("address add {second}/31 dev swp9")),
        ("leaf0", "link set swp9 up".to_owned()),
        (
            "leaf0",
            format!("route add {SHARED_ADDRESS} via {}", host(0)),
        ),
        ("h0", "address add 10.9.0.1/31 dev eth1".to_owned()),
        ("h0", "link set eth1 up".to_owned()),
        ("h0", format!("address add {SHARED_ADDRESS} dev lo")),
        (
            "h0",
            format!(
                "route replace default src {SHARED_ADDRESS} nexthop via {first} nexthop via {second}"
            ),
        ),
    ] {
        ip_in(node, &line.split(' ').collect::<Vec<_>>());
    }
    let choose = || fs::write("/proc/sys/net/ipv4/fib_multipath_hash_policy", policy);
    within("h0", choose).expect("the policy is set");
    fabric
}

/// Datagrams from these ports to h2.
fn datagrams(ports: std::ops::Range<u16>) -> Vec<FlowKey> {
    let to = SocketAddrV4::new(host(2), 9999);
    let from = ports.map(|port| SocketAddrV4::new(SHARED_ADDRESS, port));
    from.map(|from| flow(Protocol::Udp, from, to)).collect()
}

/// The leaf's end of the cable over which h0 itself sends a flow, by what it counts.
fn leaves_to(flow: &FlowKey) -> Ipv4Addr {
    let sent = within("h0", || {
        let mut route = RouteSocket::open().expect("netlink");
        let mut bytes = || {
            let links = route.links().expect("links");
            let of = |name: &str| links.iter().find(|it| it.count.interface == name);
            ["eth0", "eth1"].map(|name| of(name).expect("it is there").count.sent.count())
        };
        let before = bytes();
        let socket = UdpSocket::bind(flow.source).expect("bind");
        for _ in 0..50 {
            socket.send_to(&[0; 1000], flow.destination).expect("sent");
        }
        let after = bytes();
        [0, 1].map(|cable| after[cable] - before[cable])
    });
    let cable = usize::from(sent[1] > sent[0]);
    assert!(sent[cable] > 50_000 && sent[1 - cable] < 5_000, "{sent:?}");
    LEAF_ADDRESSES[cable]
}

fn dual_homed_first_hop_is_traced() {
    let _fabric = fabric_of_two_ways("1");
    // Enough for both cables to be in use, but for once in ten million.
    let flows = datagrams(41_000..41_024);
    let traced = Tracing::new().trace(&flows);
    let left: Vec<_> = flows.iter().map(leaves_to).collect();
    eprintln!("{left:?}");
    assert!(
        LEAF_ADDRESSES.iter().all(|end| left.contains(end)),
        "{left:?}"
    );
    for (flow, left) in flows.iter().zip(left) {
        assert_eq!(traced[flow].first(), Some(&Some(left)), "{flow}");
        assert_eq!(traced[flow].len(), 3, "{flow}");
    }
}

/// Where fields to hash by were chosen, kernels do not answer as they send.
fn hashed_dual_homed_path_stays_unknown() {
    let _fabric = fabric_of_two_ways("3");
    let flows = datagrams(41_000..41_002);
    let traced = Tracing::new().trace(&flows);
    for flow in &flows {
        assert_eq!(traced[flow], [None; 3], "{flow}");
    }
}

fn arriving_probe_disturbs_no_flow() {
    let _fabric = Fabric::new();
    let stream = Stream::start(Session::new(0, 2), 8 << 10, Duration::from_millis(1));
    let datagrams = Datagrams::start(0, 2);
    let flows = [stream.flow, datagrams.flow];
    let mut prober = within("h0", || Prober::open(ProbeMark(0xdead_0001))).expect("raw sockets");
    let resent = retransmits(0, &flows[0]);
    let duplicates = kernel_counter("h2", "TcpExt", "TCPDSACKRecv");
    for id in 1..=200 {
        for flow in flows {
            prober.send(&Probe {
                aim: ProbeAim::Hop(flow),
                ttl: 64,
                id,
            });
        }
    }
    wait_for("the probes to arrive", || {
        (checksum_errors(2) == 400).then_some(())
    });
    assert_eq!(retransmits(0, &flows[0]), resent);
    assert_eq!(kernel_counter("h2", "TcpExt", "TCPDSACKRecv"), duplicates);
    assert!(stream.finish() > 0);
    let (sent, arrived) = datagrams.finish();
    assert_eq!(arrived, sent);
    assert_eq!(
        flows.map(|flow| flow.protocol),
        [Protocol::Tcp, Protocol::Udp]
    );
}

/// An answer a second after a burst of six, which is fewer than there are flows.
fn rate_limited_routers_are_still_traced() {
    let _fabric = Fabric::new();
    for switch in ["leaf0", "leaf1", "spine0", "spine1"] {
        let reluctant = || fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "1000");
        within(switch, reluctant).expect("the limit is set");
    }
    let sessions: Vec<_> = (0..8).map(|_| Session::new(0, 2)).collect();
    let trace = sessions.iter().map(|session| session.flow).collect();
    let watch = Watch { trace };
    let begun = Instant::now();
    Tracing::new().heard(&watch, |heard| {
        let known = |routers: &Routers| routers.iter().all(Option::is_some);
        paths(heard)
            .values()
            .filter(|routers| known(routers))
            .count()
            == 8
    });
    eprintln!("8 flows traced in {:?}", begun.elapsed());
}
