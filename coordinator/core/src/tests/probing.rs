//! Probe lists, and the evaluation of probe results.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::instruction::Instruction;
use reweave_common::operator::{Mode, Request, Response};
use reweave_common::probing::{PROBE_PORT, ProbeList, ProbePart, ProbeReading, ProbeTally};
use reweave_common::sample::{Reading, Sample};

use super::cluster::Cluster;
use super::network::{Network, host_address};
use super::scene::{SETTLE_TIME, status};
use crate::ingest::round_robin::RoundRobin;
use crate::model::probe_summary::ProbeSummary;
use crate::{Effect, Input};

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster
}

fn lists_sent(cluster: &Cluster) -> usize {
    let is_list = |effect: &&Effect| {
        let Effect::Send { instruction, .. } = effect else {
            return false;
        };
        matches!(instruction, Instruction::Probe(_))
    };
    cluster.effects.iter().filter(is_list).count()
}

#[test]
fn hosts_probe_hosts_switches_probe_none() {
    let cluster = cluster();
    assert_eq!(cluster.network.probes.len(), 6);
    for (&node, list) in &cluster.network.probes {
        let pairs: BTreeSet<_> = list
            .flows
            .iter()
            .map(|flow| (*flow.source.ip(), *flow.destination.ip()))
            .collect();
        let hosts = ["h0", "h1", "h2", "h3", "h4", "h5"];
        let hosts = hosts.map(|name| cluster.network.node(name));
        let others = hosts.iter().filter(|host| **host != node);
        let expected = others.map(|host| (host_address(node), host_address(*host)));
        assert_eq!(pairs, expected.collect());
        let ports: BTreeSet<_> = list.flows.iter().map(|flow| flow.source.port()).collect();
        assert_eq!((list.flows.len(), ports.len()), (20, 4));
        assert!(
            list.flows
                .iter()
                .all(|flow| flow.destination.port() == PROBE_PORT)
        );
        let roster: BTreeSet<_> = list.roster.iter().copied().collect();
        assert_eq!(roster, hosts.map(host_address).into_iter().collect());
        assert_eq!(
            list.most_rate.bits_per_s(),
            200_000,
            "a thousandth of its link"
        );
    }
}

#[test]
fn probe_lists_renew_before_expiry() {
    let mut cluster = cluster();
    let before = lists_sent(&cluster);
    cluster.run_for(Duration::from_secs(60));
    let report = lists_sent(&cluster) - before;
    assert!((30..=42).contains(&report), "6 hosts in a minute: {report}");
}

#[test]
fn returning_host_gets_probe_list() {
    let mut cluster = cluster();
    let node = cluster.network.node("h3");
    cluster.disconnect(node);
    cluster.network.probes.clear();
    cluster.run_for(Duration::from_secs(12));
    assert_eq!(cluster.network.probes.len(), 5);
    let gone = host_address(node);
    for list in cluster.network.probes.values() {
        assert!(list.flows.iter().any(|flow| *flow.destination.ip() == gone));
    }
    cluster.connect(node);
    cluster.run_for(Duration::from_secs(1));
    assert!(cluster.network.probes.contains_key(&node));
}

/// Checks a cluster with more hosts than lists are sent per tick.
#[test]
fn only_instructed_hosts_are_probed() {
    let mut cluster = Cluster::on(Network::new(2, 260), Mode::Manual);
    for _ in 0..24 {
        cluster.run_for(Duration::from_millis(500));
        let probes = &cluster.network.probes;
        let roster = |list: &ProbeList| list.roster.iter().copied().collect::<BTreeSet<_>>();
        let rosters = probes
            .iter()
            .map(|(host, list)| (host_address(*host), roster(list)));
        let rosters: BTreeMap<_, _> = rosters.collect();
        for flow in probes.values().flat_map(|list| &list.flows) {
            let roster = rosters.get(flow.destination.ip());
            assert!(
                roster.is_some_and(|it| it.contains(flow.source.ip())),
                "{flow:?}"
            );
        }
    }
    let flows = |list: &ProbeList| list.flows.len();
    let probes = cluster.network.probes.values();
    assert_eq!((probes.len(), probes.map(flows).min()), (520, Some(157)));
}

fn say(cluster: &mut Cluster, from: &str, flow: FlowKey, tally: ProbeTally) {
    let node = cluster.network.node(from);
    let readings = vec![Reading::Probes(Box::new(ProbeReading { flow, tally }))];
    let taken = cluster.now();
    let sample = Sample { taken, readings };
    cluster.handle(Input::Sample { node, sample });
}

/// A flow by which one host probes another.
fn flow(cluster: &Cluster, from: &str, to: &str, path: usize) -> FlowKey {
    let list = &cluster.network.probes[&cluster.network.node(from)];
    let to = host_address(cluster.network.node(to));
    let flows = list.flows.iter();
    let mut flows = flows.filter(|flow| *flow.destination.ip() == to);
    *flows.nth(path).unwrap()
}

fn tally(answered: u32, lost: u32, micros: u64) -> ProbeTally {
    let mut tally = ProbeTally {
        answered,
        ..ProbeTally::default()
    };
    tally.lost.somewhere = lost;
    let took = Duration::from_micros(micros);
    tally.times.record(ProbePart::Network, took);
    tally
}

#[test]
fn status_lists_worst_host_pairs_first() {
    let mut cluster = cluster();
    let flows = [
        ("h0", "h1", 0),
        ("h0", "h1", 1),
        ("h2", "h4", 0),
        ("h4", "h2", 0),
    ];
    let flows = flows.map(|(from, to, path)| flow(&cluster, from, to, path));
    say(&mut cluster, "h0", flows[0], tally(100, 0, 70));
    say(&mut cluster, "h0", flows[0], tally(100, 0, 90));
    say(&mut cluster, "h0", flows[1], tally(100, 1, 50));
    say(&mut cluster, "h2", flows[2], tally(100, 0, 500));
    say(&mut cluster, "h4", flows[3], tally(100, 0, 300));
    // Results of another host's flow are refused.
    say(&mut cluster, "h5", flows[2], tally(0, 100, 1));
    let probes = status(&mut cluster).probes;
    let pairs: Vec<_> = probes
        .worst
        .iter()
        .map(|pair| (pair.from.as_str(), pair.to.as_str(), pair.summary.sent))
        .collect();
    assert_eq!(
        pairs,
        [("h0", "h1", 301), ("h2", "h4", 100), ("h4", "h2", 100)]
    );
    let all = probes.all.unwrap();
    assert_eq!((probes.pairs, all.sent, all.lost), (3, 501, 1));
    cluster.run_for(Duration::from_secs(120));
    assert_eq!(
        status(&mut cluster).probes.all,
        None,
        "it was not reported for long"
    );
}

#[test]
fn requests_are_answered_within_tick() {
    let mut small = Cluster::new(Mode::Manual);
    small.handle(Input::Tick);
    assert!(!small.core.is_amid_tick());
    let mut large = Cluster::on(Network::new(2, 300), Mode::Manual);
    let mut answered = 0;
    large.handle(Input::Tick);
    while large.core.is_amid_tick() {
        assert!(matches!(large.ask(Request::Status), Response::Status(_)));
        answered += 1;
        large.handle(Input::Tick);
    }
    assert_eq!(answered, 8);
}

/// Checks a cluster that summarizes the probes of its hosts in turns, as with thousands of hosts.
#[test]
fn probe_summary_is_same_in_turns() {
    let mut cluster = cluster();
    let hosts = ["h0", "h1", "h2", "h3", "h4", "h5"];
    let pairs = hosts.iter().flat_map(|from| hosts.map(|to| (*from, to)));
    let mut expected = Vec::new();
    for ((from, to), number) in pairs.filter(|(from, to)| from != to).zip(0_u32..) {
        let (lost, micros) = (number % 3, u64::from(50 + number * 7 % 11));
        let [one, other] = [from, to].map(|name| cluster.network.node(name));
        expected.push((Reverse((lost, micros)), (one, other)));
        let flow = flow(&cluster, from, to, 0);
        say(&mut cluster, from, flow, tally(100, lost, micros));
    }
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|(_, pair)| pair).collect();
    let known = cluster.core.known_at(cluster.now());
    let (mut all, mut some) = (
        ProbeSummary::default(),
        ProbeSummary::in_turns(RoundRobin::of(1)),
    );
    all.look(known);
    for looks in 1..=hosts.len() {
        some.look(known);
        assert_eq!(some.pairs(), looks * (hosts.len() - 1));
    }
    assert_eq!((all.pairs(), all.all()), (some.pairs(), some.all()));
    assert_eq!((&all.worst(100), &some.worst(100)), (&expected, &expected));
    assert_eq!(all.worst(7), expected[..7]);
    // After the first look, turns continue without a request.
    let mut tended = ProbeSummary::in_turns(RoundRobin::of(1));
    tended.look(known);
    for seconds in 1..hosts.len() as u64 {
        let later = cluster.now() + Duration::from_secs(seconds);
        tended.handle_time(cluster.core.known_at(later));
    }
    assert_eq!(tended.pairs(), all.pairs());
}
