//! An agent that reports about other nodes.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use reweave_common::bandwidth::{Bandwidth, BandwidthReading, Unclear};
use reweave_common::cause::Class;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::operator::{Mode, Request, Response};
use reweave_common::probing::{PROBE_PORT, ProbePart, ProbeReading, ProbeTally, Routers};
use reweave_common::sample::{FlowReading, Interface, Reading, Sample, TracedPath};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Rate};

use super::cluster::Cluster;
use super::diagnosis::{self, hop, only, probe_for, say};
use super::network::host_address;
use crate::estimate::probe_paths::ProbePaths;
use crate::{Command, Input, Outcome};

/// A run in which an agent sends `lies` before every report of the others.
fn run(liar: &str, lies: impl Fn(&Cluster, [FlowKey; 2]) -> Vec<Reading>) -> Cluster {
    let mut cluster = Cluster::new(Mode::Auto);
    let flows = [("h0", "h3", 1000), ("h1", "h4", 1001)]
        .map(|(from, to, port)| cluster.network.start(from, to, port, 0));
    let node = cluster.network.node(liar);
    cluster.run_for(Duration::from_millis(200));
    while cluster.core.state().ended() == 0 {
        let readings = lies(&cluster, flows);
        let taken = cluster.now();
        cluster.handle(Input::Sample {
            node,
            sample: Sample { taken, readings },
        });
        cluster.step();
    }
    cluster
}

fn log(cluster: &Cluster) -> Vec<Command> {
    cluster.log.clone()
}

fn slow(flow: FlowKey) -> Reading {
    Reading::Flow(FlowReading {
        flow,
        bytes: Bytes::ZERO,
        rate: Some(Rate::from_bits_per_s(1)),
        rtt: Some(TimeSpan::from_secs(9)),
        retransmits: Some(99),
    })
}

#[test]
fn spoofed_reports_have_no_effect() {
    let honest = run("h5", |_, _| vec![]);
    assert_eq!(honest.last_outcome(), &Outcome::Committed);
    let lying = run("h5", |cluster, flows| {
        let victim = host_address(cluster.network.node("h0"));
        let routers = vec![Some(Ipv4Addr::new(10, 192, 0, 1))];
        vec![
            Reading::Interface(Interface {
                name: "eth7".to_owned(),
                addresses: vec![victim],
                gateways: vec![],
            }),
            slow(flows[0]),
            Reading::Path(TracedPath {
                flow: flows[1],
                routers,
                confirmed: false,
            }),
            Reading::FlowEnded(flows[0]),
        ]
    });
    assert_eq!(log(&lying), log(&honest));
    assert!(discarded(lying, "h5") > 10);
}

/// The first claim is accepted, right or wrong, and operators see both.
#[test]
fn conflicting_address_claims_are_named() {
    let mut cluster = Cluster::new(Mode::Manual);
    let [liar, honest] = ["h5", "h0"].map(|name| cluster.network.node(name));
    let address = host_address(honest);
    for (node, name) in [(liar, "eth7"), (honest, "eth0")] {
        cluster.handle(Input::AgentUp { node });
        let claim = Reading::Interface(Interface {
            name: name.to_owned(),
            addresses: vec![address],
            gateways: vec![],
        });
        let (taken, readings) = (cluster.now(), vec![claim]);
        let sample = Sample { taken, readings };
        cluster.handle(Input::Sample { node, sample });
    }
    let named = format!("addresses reported by two agents: {address} (h5 is accepted, h0 is not)");
    assert!(warnings(&mut cluster).contains(&named), "{named}");
    cluster.handle(Input::AgentDown { node: honest });
    assert!(!warnings(&mut cluster).contains(&named));
}

/// An agent does not repeat its claim; one that only restarts keeps its address.
#[test]
fn honest_claim_returns_after_liar_leaves() {
    let mut cluster = Cluster::new(Mode::Manual);
    let [liar, honest] = ["h5", "h0"].map(|name| cluster.network.node(name));
    let address = Ipv4Addr::new(192, 0, 2, 7);
    let claim = |cluster: &mut Cluster, node| {
        cluster.handle(Input::AgentUp { node });
        let interface = Reading::Interface(Interface {
            name: "eth9".to_owned(),
            addresses: vec![address],
            gateways: vec![],
        });
        let (taken, readings) = (cluster.now(), vec![interface]);
        let sample = Sample { taken, readings };
        cluster.handle(Input::Sample { node, sample });
    };
    claim(&mut cluster, liar);
    claim(&mut cluster, honest);
    let is_reported = |cluster: &mut Cluster, node: &str| {
        let Response::Status(status) = cluster.ask(Request::Status) else {
            panic!("no status");
        };
        let mut agents = status.agents.iter();
        let agent = agents.find(|agent| agent.node == node).unwrap();
        agent.addresses.contains(&address)
    };
    cluster.handle(Input::AgentDown { node: liar });
    cluster.handle(Input::Tick);
    cluster.run_for(Duration::from_millis(2000));
    assert!(!is_reported(&mut cluster, "h0"), "it may only start again");
    cluster.run_for(Duration::from_millis(1500));
    assert!(is_reported(&mut cluster, "h0"));
    let contested = |warnings: Vec<String>| warnings.iter().any(|it| it.contains("192.0.2.7"));
    assert!(!contested(warnings(&mut cluster)));
    claim(&mut cluster, liar);
    assert!(contested(warnings(&mut cluster)));
    assert!(!is_reported(&mut cluster, "h5"));
}

fn warnings(cluster: &mut Cluster) -> Vec<String> {
    match cluster.ask(Request::Status) {
        Response::Status(status) => status.warnings,
        other => panic!("no status: {other:?}"),
    }
}

/// Everything that is stored about an agent is limited.
#[test]
fn reported_names_and_paths_are_bounded() {
    let cluster = run("h5", |cluster, _| {
        let own = host_address(cluster.network.node("h5"));
        let end = |host, port| std::net::SocketAddrV4::new(host, port);
        let flow = FlowKey {
            protocol: reweave_common::flow::Protocol::Tcp,
            source: end(own, 1),
            destination: end(Ipv4Addr::LOCALHOST, 2),
        };
        vec![
            Reading::Interface(Interface {
                name: "x".repeat(65),
                addresses: vec![],
                gateways: vec![],
            }),
            Reading::Path(TracedPath {
                flow,
                confirmed: true,
                routers: vec![None; 256],
            }),
            Reading::Bandwidth(BandwidthReading {
                flow,
                bandwidth: Bandwidth::Unknown {
                    why: Unclear::Few,
                    trains: 0,
                },
                routers: Some(vec![None; 256]),
            }),
        ]
    });
    let kept = format!("{:?}", cluster.core);
    assert!(!kept.contains(&"x".repeat(65)));
    assert!(!kept.contains("BandwidthReading"), "{kept}");
    assert!(discarded(cluster, "h5") > 10);
}

fn discarded(mut cluster: Cluster, name: &str) -> u64 {
    let Response::Status(status) = cluster.ask(Request::Status) else {
        panic!("no status")
    };
    status
        .agents
        .iter()
        .find(|agent| agent.node == name)
        .unwrap()
        .discarded_readings
}

#[test]
fn unconnected_agents_are_ignored() {
    let mut cluster = Cluster::new(Mode::Auto);
    let before = format!("{:?}", cluster.core);
    let node = reweave_common::ids::NodeId::from_index(1000);
    let taken = cluster.now();
    let sample = Sample {
        taken,
        readings: vec![],
    };
    cluster.handle(Input::AgentUp { node });
    cluster.handle(Input::Sample { node, sample });
    cluster.handle(Input::AgentDown { node });
    assert!(cluster.effects.is_empty());
    let after = format!("{:?}", cluster.core);
    assert_eq!(after, before);
}

/// Only the impossible reading is left out, and that is reported.
#[test]
fn impossible_measurement_is_left_out() {
    let mut cluster = diagnosis::cluster();
    let both = [("h5", "leaf1"), ("leaf1", "h5")].map(|(from, to)| hop(&cluster, from, to));
    cluster.network.lossy.extend(both);
    probe_for(&mut cluster, Duration::from_secs(20));
    let own = host_address(cluster.network.node("h3"));
    let to_itself = FlowKey {
        protocol: Protocol::Udp,
        source: SocketAddrV4::new(own, 7400),
        destination: SocketAddrV4::new(own, PROBE_PORT),
    };
    let rate = Rate::from_bits_per_s(1_000_000);
    let bandwidth = Reading::Bandwidth(BandwidthReading {
        flow: to_itself,
        bandwidth: Bandwidth::Known {
            rate,
            least: rate,
            most: rate,
            trains: 20,
        },
        routers: None,
    });
    let mut tally = ProbeTally {
        answered: 20,
        ..ProbeTally::default()
    };
    tally.routers = Some(Routers { there: 1, back: 1 });
    let flow = to_itself;
    let probes = Reading::Probes(Box::new(ProbeReading { flow, tally }));
    say(&mut cluster, "h3", vec![bandwidth, probes]);
    assert_eq!(only(&mut cluster), (Class::FaultyHost, "h5".to_owned()));
    let Response::Findings(found) = cluster.ask(Request::Diagnose) else {
        panic!("no findings")
    };
    let expected = [
        "left out: the bandwidth of h3 to h3 cannot be 0.001",
        "left out: the number of hops of h3 to h3 cannot be 1",
    ];
    assert_eq!(found.not_seen.doubts, expected);
}

/// They would make links of the victim look slow.
#[test]
fn latencies_of_others_are_discarded() {
    let mut cluster = diagnosis::cluster();
    let end = |host: &str, port| {
        let address = host_address(cluster.network.node(host));
        SocketAddrV4::new(address, port)
    };
    let flow = FlowKey {
        protocol: Protocol::Udp,
        source: end("h0", 7477),
        destination: end("h4", PROBE_PORT),
    };
    let mut tally = ProbeTally {
        answered: 20,
        ..ProbeTally::default()
    };
    let slow = Duration::from_secs(1);
    tally.times.record(ProbePart::Network, slow);
    let is_kept_of = |cluster: &mut Cluster, host: &str| {
        let tally = tally.clone();
        let probes = Reading::Probes(Box::new(ProbeReading { flow, tally }));
        say(cluster, host, vec![probes]);
        format!("{:?}", cluster.core).contains(&flow.source.to_string())
    };
    assert!(!is_kept_of(&mut cluster, "h5"));
    assert!(is_kept_of(&mut cluster, "h0"));
}

/// If each packet of a flow takes another path, none is accepted; a changed path is, once it stays.
#[test]
fn flapping_path_is_not_believed() {
    let cluster = diagnosis::cluster();
    let way = |spine| vec![hop(&cluster, "leaf0", spine), hop(&cluster, spine, "leaf1")];
    let [one, other] = ["spine0", "spine1"].map(way);
    let flow = FlowKey {
        protocol: Protocol::Udp,
        source: SocketAddrV4::new(host_address(cluster.network.node("h0")), 7400),
        destination: SocketAddrV4::new(host_address(cluster.network.node("h4")), PROBE_PORT),
    };
    let mut ways = ProbePaths::default();
    ways.note(flow, one.clone(), cluster.now());
    assert_eq!(ways.way(&flow), Some(&one[..]));
    for way in [&other, &one, &other, &one] {
        ways.note(flow, way.clone(), cluster.now());
        assert_eq!(ways.way(&flow), None);
    }
    ways.note(flow, one.clone(), cluster.now());
    assert_eq!(ways.way(&flow), Some(&one[..]));
}

/// Losses on changing paths cannot be located, and that is reported.
#[test]
fn contradictory_paths_are_reported() {
    let mut cluster = diagnosis::cluster();
    probe_for(&mut cluster, Duration::from_secs(20));
    cluster.network.shunned = Some(1);
    let doubts = |cluster: &mut Cluster| {
        probe_for(cluster, Duration::from_secs(1));
        let Response::Findings(found) = cluster.ask(Request::Diagnose) else {
            panic!("no findings")
        };
        found.not_seen.doubts
    };
    let reports = (0..60).find_map(|_| doubts(&mut cluster).pop());
    let reports = reports.expect("ways that changed are doubted");
    assert!(reports.ends_with("traces disagree"), "{reports}");
    let is_over = (0..60).any(|_| doubts(&mut cluster).is_empty());
    assert!(is_over, "what stays is believed");
}
