//! Findings other than collisions, by the measurements of a cluster.

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reweave_common::bandwidth::{Bandwidth, BandwidthReading};
use reweave_common::cause::{Cause, Class, Subject};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::hardware::{Machine, NicReport, Pcie, PcieLink, Setting};
use reweave_common::health::{CounterSource, Health, Signal, SignalReading};
use reweave_common::operator::{About, Finding, Mode, Request, Response};
use reweave_common::probing::PROBE_PORT;
use reweave_common::sample::{HostReading, Reading, Sample};
use reweave_common::snapshot::Hop;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::network::{Network, host_address};
use super::scene::SETTLE_TIME;
use crate::Input;

/// The time to trace all probes and to get enough of them.
const LEARNING_TIME: Duration = Duration::from_secs(20);

/// Two leaves with four hosts each, and four spines.
pub(super) fn cluster() -> Cluster {
    let mut cluster = Cluster::on(Network::new(4, 4), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster
}

pub(super) fn say(cluster: &mut Cluster, host: &str, readings: Vec<Reading>) {
    let node = cluster.network.node(host);
    let taken = cluster.now();
    let sample = Sample { taken, readings };
    cluster.handle(Input::Sample { node, sample });
}

/// Runs with probe results from every host, once a second.
pub(super) fn probe_for(cluster: &mut Cluster, duration: Duration) {
    for _ in 0..duration.as_secs() {
        for host in (0..8).map(|it| format!("h{it}")) {
            let readings = cluster.network.probed(cluster.network.node(&host));
            say(cluster, &host, readings);
        }
        cluster.run_for(Duration::from_secs(1));
    }
}

pub(super) fn causes(cluster: &mut Cluster) -> Vec<Cause> {
    let Response::Findings(found) = cluster.ask(Request::Diagnose) else {
        panic!("no findings")
    };
    let causes = found.findings.into_iter().map(|finding| match finding {
        Finding::Cause(cause) => cause,
        other => panic!("{other:?}"),
    });
    causes.collect()
}

pub(super) fn only(cluster: &mut Cluster) -> (Class, String) {
    let found = causes(cluster);
    let [one] = &found[..] else {
        panic!("one cause: {found:#?}")
    };
    (one.class, one.subject.to_string())
}

pub(super) fn hop(cluster: &Cluster, from: &str, to: &str) -> Hop {
    let [from, to] = [from, to].map(|name| cluster.network.node(name));
    let link = cluster
        .network
        .fabric
        .links_between(from, to)
        .next()
        .unwrap();
    Hop { from, link }
}

/// With two leaves, every path up to a spine continues down to the other leaf: probes alone cannot distinguish these
/// two links, but the counters of their senders can.
#[test]
fn lossy_link_direction_is_named_alone() {
    for (leaf, spine) in (0..8).map(|it| (it % 2, it / 2)) {
        let ends = [format!("leaf{leaf}"), format!("spine{spine}")];
        for [from, to] in [[&ends[0], &ends[1]], [&ends[1], &ends[0]]] {
            let mut cluster = cluster();
            let lossy = hop(&cluster, from, to);
            cluster.network.lossy.insert(lossy);
            probe_for(&mut cluster, LEARNING_TIME);
            let subject = Subject::Hop {
                from: from.clone(),
                to: to.clone(),
                link: cluster.network.fabric.link_name(lossy.link),
            };
            let found = causes(&mut cluster);
            assert_eq!((found.len(), found[0].class), (1, Class::LossyLink));
            let both = found[0].subject.each();
            assert!(both.len() == 2 && both.contains(&subject), "{both:#?}");
            let links = cluster.network.fabric.links_of(lossy.from).iter();
            let port = links.clone().position(|it| *it == lossy.link).unwrap();
            let drops = health(&format!("swp{port}"), Signal::SendDrops, 20);
            say(&mut cluster, from, vec![drops]);
            let found = causes(&mut cluster);
            assert_eq!((found.len(), &found[0].subject), (1, &subject));
            // A full queue loses probes, too.
            let full = health(&format!("swp{port}"), Signal::QueueDrops, 20);
            say(&mut cluster, from, vec![full]);
            assert_eq!(causes(&mut cluster), []);
        }
    }
}

/// Both directions of a cable that was dead from the start: with two leaves, the same probes cross the spine's other
/// cable.
#[test]
fn dead_link_is_inferred_from_neighbours() {
    let mut cluster = cluster();
    let both = [
        hop(&cluster, "leaf0", "spine2"),
        hop(&cluster, "spine2", "leaf0"),
    ];
    cluster.network.dead.extend(both);
    probe_for(&mut cluster, LEARNING_TIME);
    let found = causes(&mut cluster);
    let [only] = &found[..] else {
        panic!("one cause: {found:#?}")
    };
    let said = (only.class, only.subject.to_string());
    let ambiguous = "ambiguous: spine2 or leaf0-spine2 or leaf1-spine2";
    assert_eq!(said, (Class::FaultySwitch, ambiguous.to_owned()));
    let reports = only.evidence.iter();
    let mut reports = reports.filter(|it| it.contains("could not be traced to their ends"));
    assert!(reports.next().is_some(), "{only:#?}");
}

#[test]
fn bad_host_is_named_as_host() {
    let mut cluster = cluster();
    let both = [hop(&cluster, "h5", "leaf1"), hop(&cluster, "leaf1", "h5")];
    cluster.network.lossy.extend(both);
    probe_for(&mut cluster, LEARNING_TIME);
    assert_eq!(only(&mut cluster), (Class::FaultyHost, "h5".to_owned()));
}

/// The number of probe flows in all lists.
fn asked(cluster: &Cluster) -> usize {
    let lists = cluster.network.probes.values();
    lists.map(|list| list.flows.len()).sum()
}

/// Runs until the lists are so for a second.
fn probe_until(cluster: &mut Cluster, is_so: impl Fn(usize) -> bool) {
    let is_so = |cluster: &mut Cluster| {
        probe_for(cluster, Duration::from_secs(1));
        is_so(asked(cluster))
    };
    assert!((0..120).any(|_| is_so(cluster)), "{}", asked(cluster));
}

#[test]
fn probe_flows_shrink_until_paths_change() {
    const FLOW_COUNT: usize = 8 * 7 * 4;
    let mut cluster = cluster();
    assert_eq!(asked(&cluster), FLOW_COUNT);
    probe_until(&mut cluster, |flows| flows < FLOW_COUNT / 2);
    let network = &cluster.network;
    let flows = network.probes.values().flat_map(|list| &list.flows);
    let pairs = flows
        .clone()
        .map(|flow| [*flow.source.ip(), *flow.destination.ip()]);
    assert_eq!(pairs.collect::<BTreeSet<_>>().len(), 8 * 7);
    let hops = flows.flat_map(|flow| [*flow, flow.reversed()]);
    let hops = hops.flat_map(|flow| network.path(&flow, &network.probe_flow(&flow)));
    let crossed: BTreeSet<_> = hops.collect();
    assert_eq!(crossed.len(), 2 * network.fabric.links().len());
    for list in network.probes.values() {
        let (flows, usual) = (list.flows.len() as u32, Duration::from_millis(400));
        assert_eq!(*list.period, usual * flows / 28, "as many probes as before");
    }
    let few = asked(&cluster);
    probe_for(&mut cluster, Duration::from_secs(60));
    assert_eq!(asked(&cluster), few, "and it stays so");
    cluster.network.shunned = Some(1);
    probe_until(&mut cluster, |flows| flows == FLOW_COUNT);
    probe_until(&mut cluster, |flows| flows < FLOW_COUNT / 2);
}

/// The same probes cross both links of a spine, as with losses.
#[test]
fn slower_link_or_host_is_named() {
    let mut cluster = cluster();
    probe_for(&mut cluster, Duration::from_secs(150));
    assert_eq!(causes(&mut cluster), []);
    let [up, down] = [("leaf0", "spine2"), ("spine2", "leaf1")];
    let slow = hop(&cluster, up.0, up.1);
    cluster.network.slow_us.insert(slow, 1400);
    probe_for(&mut cluster, Duration::from_secs(40));
    let found = causes(&mut cluster);
    let named = |(from, to): (&str, &str)| {
        let link = hop(&cluster, from, to).link;
        Subject::Hop {
            from: from.to_owned(),
            to: to.to_owned(),
            link: cluster.network.fabric.link_name(link),
        }
    };
    assert_eq!((found.len(), found[0].class), (1, Class::Latency));
    let both = found[0].subject.each();
    assert!(both.len() == 2 && both.contains(&named(up)) && both.contains(&named(down)));
    cluster.network.slow_us.clear();
    // The earlier slowness is over; from now on a host is slow.
    let slow = hop(&cluster, "h3", "leaf0");
    cluster.network.slow_us.insert(slow, 1600);
    probe_for(&mut cluster, Duration::from_secs(60));
    let found = causes(&mut cluster);
    let host = Subject::Host("h3".to_owned());
    assert!(
        found
            .iter()
            .any(|it| (it.class, &it.subject) == (Class::Latency, &host)),
        "{found:#?}"
    );
}

/// The finding stays the same with history, although links that share its probes seem to lose some, too.
#[test]
fn diagnosis_reports_when_loss_began() {
    let mut cluster = cluster();
    probe_for(&mut cluster, Duration::from_secs(17 * 30));
    assert_eq!(causes(&mut cluster), []);
    let lossy = hop(&cluster, "leaf0", "spine2");
    cluster.network.lossy.insert(lossy);
    probe_for(&mut cluster, Duration::from_secs(4 * 30));
    let found = causes(&mut cluster);
    assert_eq!((found.len(), found[0].class), (1, Class::LossyLink));
    let said = found[0].evidence.join("; ");
    assert!(said.contains("loss went from 0.000 to 0.1"), "{said}");
    cluster.network.lossy.clear();
    probe_for(&mut cluster, Duration::from_secs(4 * 30));
    assert_eq!(causes(&mut cluster), []);
}

/// NICs would show it: while a job fills a link, packets queue before it. The link itself is slow only if it is so
/// without traffic.
/// is the link.
#[test]
fn queueing_is_no_link_latency_change() {
    let mut cluster = cluster();
    cluster.network.queues_us = Some(100);
    probe_for(&mut cluster, Duration::from_secs(150));
    let flow = cluster.network.start("h0", "h4", 1000, 0);
    probe_for(&mut cluster, Duration::from_secs(60));
    assert_eq!(causes(&mut cluster), []);
    cluster.network.end(flow);
    probe_for(&mut cluster, Duration::from_secs(60));
    assert_eq!(causes(&mut cluster), []);
    let slow = hop(&cluster, "leaf0", "spine0");
    cluster.network.slow_us.insert(slow, 100);
    probe_for(&mut cluster, Duration::from_secs(60));
    let found = causes(&mut cluster);
    assert_eq!(
        (found.len(), found[0].class),
        (1, Class::Latency),
        "{found:#?}"
    );
}

/// Hosts that remain probe over longer paths; no link is slower because of that.
#[test]
fn missing_near_probes_show_no_slowdown() {
    let mut cluster = cluster();
    cluster.network.queues_us = Some(0);
    probe_for(&mut cluster, Duration::from_secs(150));
    for _ in 0..60 {
        let network = &cluster.network;
        // Two hosts of one rack only have their leaf between them.
        let is_far = |flow: &FlowKey| network.path(flow, &network.probe_flow(flow)).len() > 2;
        let mut lists = network.probes.clone();
        let lists_of = lists.values_mut();
        lists_of.for_each(|list| list.flows.retain(is_far));
        cluster.network.probes = lists;
        probe_for(&mut cluster, Duration::from_secs(1));
    }
    assert_eq!(causes(&mut cluster), []);
}

#[test]
fn clean_cluster_has_no_findings() {
    let mut cluster = cluster();
    probe_for(&mut cluster, LEARNING_TIME);
    assert_eq!(causes(&mut cluster), []);
}

/// Train results from one host to the others.
pub(super) fn measured(
    cluster: &Cluster,
    from: usize,
    slow: impl Fn(usize) -> bool,
) -> Vec<Reading> {
    let address = |host: usize| host_address(cluster.network.node(&format!("h{host}")));
    let others = (0..8).filter(|to| *to != from);
    let reading = |to: usize| {
        let usual = if from / 4 == to / 4 { 200 } else { 100 };
        let percent = if slow(to) { 65 } else { 100 };
        let rate = Rate::from_bits_per_s(usual * percent * 10_000);
        let bandwidth = Bandwidth::Known {
            rate,
            least: rate,
            most: rate,
            trains: 20,
        };
        let flow = FlowKey {
            protocol: Protocol::Udp,
            source: SocketAddrV4::new(address(from), 7400),
            destination: SocketAddrV4::new(address(to), PROBE_PORT),
        };
        Reading::Bandwidth(BandwidthReading {
            flow,
            bandwidth,
            routers: None,
        })
    };
    others.map(reading).collect()
}

/// All pairs across racks are slower than within, which is no fault.
#[test]
fn slow_pair_and_slow_host_named() {
    let found = |slow: fn(usize, usize) -> bool| {
        let mut cluster = cluster();
        for host in 0..8 {
            let readings = measured(&cluster, host, |to| slow(host, to));
            say(&mut cluster, &format!("h{host}"), readings);
        }
        causes(&mut cluster)
    };
    assert_eq!(found(|_, _| false), []);
    let subjects = |found: Vec<Cause>| -> Vec<_> {
        let reports = found
            .into_iter()
            .map(|it| (it.class, it.subject.to_string()));
        reports.collect()
    };
    let pair = subjects(found(|from, to| (from, to) == (1, 6)));
    assert_eq!(pair, [(Class::SlowPair, "h1 and h6".to_owned())]);
    let host = subjects(found(|from, to| from == 2 || to == 2));
    assert_eq!(host, [(Class::SlowPair, "h2".to_owned())]);
}

pub(super) fn health(interface: &str, signal: Signal, grown: u64) -> Reading {
    let reading = SignalReading {
        signal,
        total: grown,
        grown: Some(grown),
        of: Some(1_000_000),
    };
    Reading::Host(HostReading::Health(Health {
        place: CounterSource::Interface(interface.to_owned()),
        over: about_a_second().into(),
        signals: vec![reading],
    }))
}

/// The intervals of readings vary.
fn about_a_second() -> Duration {
    static READING_COUNT: AtomicU64 = AtomicU64::new(0);
    Duration::from_secs(1) + Duration::from_nanos(READING_COUNT.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn interface_counters_name_their_link() {
    let cases = [
        (Signal::LinkDowns, 1, Class::NicFlap, "h2-leaf0"),
        (
            Signal::FrameErrors,
            100,
            Class::BadOptic,
            "h2-leaf0 from leaf0",
        ),
        (Signal::Oversized, 5, Class::MtuMismatch, "h2-leaf0"),
        (Signal::PausedMicros(3), 400_000, Class::PfcStorm, "leaf0"),
    ];
    for (signal, grown, class, subject) in cases {
        let mut cluster = cluster();
        say(&mut cluster, "h2", vec![health("eth0", signal, grown)]);
        cluster.run_for(SETTLE_TIME);
        assert_eq!(only(&mut cluster), (class, subject.to_owned()), "{signal}");
    }
}

fn report_time(cluster: &mut Cluster, host: &str, skew_us: i64) {
    let about = About {
        build: "1".to_owned(),
        protocol: "1.2".to_owned(),
        good_for: TimeSpan::from_secs(3600),
        skew_us: Some(skew_us),
    };
    let node = cluster.network.node(host);
    cluster.handle(Input::About { node, about });
}

#[test]
fn delayed_message_shows_no_clock_skew() {
    let mut cluster = cluster();
    for skew_us in [-545_000, -600_000, -1000, -545_000] {
        report_time(&mut cluster, "h1", skew_us);
        assert_eq!(causes(&mut cluster), [], "{skew_us}");
    }
    for _ in 0..2 {
        report_time(&mut cluster, "h1", -545_000);
    }
    assert_eq!(only(&mut cluster), (Class::ClocksApart, "h1".to_owned()));
}

#[test]
fn differing_nic_and_skewed_clock_named() {
    let mut cluster = cluster();
    for host in 0..8 {
        let nic = NicReport {
            interface: "eth0".to_owned(),
            mtu_bytes: Some(if host == 6 { 1500 } else { 9000 }),
            ..NicReport::default()
        };
        let reading = Reading::Host(HostReading::Nic(Box::new(nic)));
        say(&mut cluster, &format!("h{host}"), vec![reading]);
    }
    assert_eq!(only(&mut cluster), (Class::MtuMismatch, "h6".to_owned()));
    let link = |lanes| PcieLink {
        mt_per_s: 16_000,
        lanes,
    };
    let nic = NicReport {
        interface: "eth0".to_owned(),
        mtu_bytes: Some(9000),
        pcie: Some(Pcie {
            now: link(4),
            most: link(16),
        }),
        ..NicReport::default()
    };
    say(
        &mut cluster,
        "h6",
        vec![Reading::Host(HostReading::Nic(Box::new(nic)))],
    );
    assert_eq!(only(&mut cluster), (Class::PcieDowngrade, "h6".to_owned()));
    report_time(&mut cluster, "h1", 900_000);
    let found: Vec<_> = causes(&mut cluster)
        .into_iter()
        .map(|it| it.class)
        .collect();
    assert_eq!(found, [Class::ClocksApart, Class::PcieDowngrade]);
}

/// The reported MTU of a node's interface.
fn takes(cluster: &mut Cluster, node: &str, interface: &str, mtu_bytes: u32) {
    let nic = NicReport {
        interface: interface.to_owned(),
        mtu_bytes: Some(mtu_bytes),
        ..NicReport::default()
    };
    let reading = Reading::Host(HostReading::Nic(Box::new(nic)));
    say(cluster, node, vec![reading]);
}

/// On a link between switches with equal MTUs, only large probes fail: with two leaves, on one of two links. The
/// ports' readings say which.
#[test]
fn narrow_mtu_link_is_one_finding() {
    let mut cluster = cluster();
    let both = [
        hop(&cluster, "leaf0", "spine2"),
        hop(&cluster, "spine2", "leaf0"),
    ];
    cluster.network.narrow.extend(both);
    probe_for(&mut cluster, LEARNING_TIME);
    let (class, said) = only(&mut cluster);
    assert_eq!(class, Class::MtuMismatch);
    assert_eq!(said, "ambiguous: spine2 or leaf0-spine2 or leaf1-spine2");
    takes(&mut cluster, "leaf0", "swp6", 1500);
    takes(&mut cluster, "spine2", "swp0", 1500);
    takes(&mut cluster, "leaf1", "swp6", 9000);
    let report = (Class::MtuMismatch, "leaf0-spine2".to_owned());
    assert_eq!(only(&mut cluster), report);
}

/// The host's setting, the ends of its cable and lost probes lead to one finding.
#[test]
fn small_host_mtu_is_one_finding() {
    let mut cluster = cluster();
    let to_it = hop(&cluster, "leaf1", "h6");
    cluster.network.narrow.insert(to_it);
    for host in (0..8).map(|it| format!("h{it}")) {
        takes(
            &mut cluster,
            &host,
            "eth0",
            if host == "h6" { 1500 } else { 9000 },
        );
    }
    takes(&mut cluster, "leaf1", "swp2", 9000);
    probe_for(&mut cluster, LEARNING_TIME);
    let found = causes(&mut cluster);
    let [one] = &found[..] else {
        panic!("one cause: {found:#?}")
    };
    assert_eq!(
        (one.class, one.subject.to_string()),
        (Class::MtuMismatch, "h6".to_owned())
    );
    assert_eq!(one.evidence.len(), 3, "{one:#?}");
}

#[test]
fn host_with_odd_setting_is_named() {
    assert_eq!(
        set_otherwise("TCP ECN", ["0", "1"]),
        "TCP ECN is 0, and 1 on 7 others"
    );
    assert_eq!(
        set_otherwise("PFC by priority", ["00000000", "00010000"]),
        "PFC by priority is 00000000, and 00010000 on 7 others"
    );
}

/// The finding about the only host with the first of these values.
fn set_otherwise(setting: &str, [one, others]: [&str; 2]) -> String {
    let mut cluster = cluster();
    for host in 0..8 {
        let value = if host == 2 { one } else { others };
        let machine = Machine {
            settings: vec![Setting {
                name: setting.to_owned(),
                value: value.to_owned(),
            }],
            ..Machine::default()
        };
        let reading = Reading::Host(HostReading::Machine(machine));
        say(&mut cluster, &format!("h{host}"), vec![reading]);
    }
    let found = causes(&mut cluster);
    let [cause] = &found[..] else {
        panic!("one cause: {found:#?}")
    };
    let report = (cause.class, cause.subject.to_string());
    assert_eq!(report, (Class::ConfigurationMismatch, "h2".to_owned()));
    cause.evidence.join("; ")
}

/// Probes that its firewall drops are no loss, and are reported.
#[test]
fn host_sending_no_probes_is_named() {
    let mut cluster = cluster();
    let mute = cluster.network.node("h3");
    cluster.network.mute.insert(mute);
    probe_for(&mut cluster, LEARNING_TIME);
    let found = causes(&mut cluster);
    assert_eq!((found.len(), found[0].class), (1, Class::UnsentProbes));
    assert_eq!(found[0].subject, Subject::Host("h3".to_owned()));
    assert!(found[0].evidence[0].contains("forbidden by its own kernel"));
    let Response::Status(status) = cluster.ask(Request::Status) else {
        panic!("no status")
    };
    let [lack] = &status.lacks[..] else {
        panic!("{:#?}", status.lacks)
    };
    assert_eq!(lack.nodes, ["h3"]);
    assert!(
        lack.lack.because.contains("probes to h7 never left"),
        "{lack:?}"
    );
}

/// The new path of the first of two colliding flows.
fn sent_to(lossy: Option<[&str; 2]>) -> String {
    let mut cluster = cluster();
    let lossy = lossy.map(|[from, to]| hop(&cluster, from, to));
    cluster.network.lossy.extend(lossy);
    cluster.network.start("h0", "h4", 1000, 0);
    cluster.network.start("h1", "h5", 1001, 0);
    probe_for(&mut cluster, LEARNING_TIME);
    let Response::Plan {
        plan: Some(plan), ..
    } = cluster.ask(Request::Plan)
    else {
        panic!("no plan")
    };
    plan.pins[0].hop.to.clone()
}

#[test]
fn plan_avoids_lossy_link() {
    assert_eq!(sent_to(None), "spine1");
    assert_eq!(sent_to(Some(["leaf0", "spine1"])), "spine2");
}
