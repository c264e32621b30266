//! Jobs that an orchestrator registers, starts, changes and ends, and jobs that vanish.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use reweave_common::bandwidth::{Bandwidth, BandwidthReading};
use reweave_common::cause::Class;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::health::Signal;
use reweave_common::operator::{
    Allocation, JobOrder, Mode, Refused, RegisteredJob, Request, Response, StartedJob,
};
use reweave_common::probing::PROBE_PORT;
use reweave_common::sample::Reading;
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::diagnosis::{causes, health, say};
use super::network::{Network, host_address};
use super::scene::{SETTLE_TIME, collision};
use crate::{Author, Core, Outcome, Policy};

pub(super) fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(super) fn tell(cluster: &mut Cluster, job: &str, order: JobOrder) -> Response {
    let job = job.to_owned();
    cluster.ask(Request::Job { job, order })
}

pub(super) fn register(cluster: &mut Cluster, job: &str, hosts: &[&str]) -> Response {
    let hosts = texts(hosts);
    let may_reorder = false;
    tell(cluster, job, JobOrder::Register { hosts, may_reorder })
}

/// The order in the reply.
pub(super) fn reordered(cluster: &mut Cluster, job: &str, hosts: &[&str]) -> Vec<String> {
    let (hosts, may_reorder) = (texts(hosts), true);
    match tell(cluster, job, JobOrder::Register { hosts, may_reorder }) {
        Response::Registered(report) => report[0].hosts.clone(),
        other => panic!("{other:?}"),
    }
}

pub(super) fn start(cluster: &mut Cluster, job: &str) -> StartedJob {
    match tell(cluster, job, JobOrder::Start { may_change: true }) {
        Response::Started(started) => *started,
        other => panic!("{other:?}"),
    }
}

pub(super) fn registered(cluster: &mut Cluster) -> Vec<RegisteredJob> {
    match cluster.ask(Request::Registered) {
        Response::Registered(jobs) => jobs,
        other => panic!("{other:?}"),
    }
}

pub(super) fn gate(cluster: &mut Cluster, hosts: &[&str]) -> Allocation {
    gate_of(cluster, None, hosts)
}

pub(super) fn gate_of(cluster: &mut Cluster, job: Option<&str>, hosts: &[&str]) -> Allocation {
    let (hosts, job) = (texts(hosts), job.map(str::to_owned));
    match cluster.ask(Request::Gate { hosts, job }) {
        Response::Allocation(allocation) => *allocation,
        other => panic!("{other:?}"),
    }
}

fn mbps(rate: u64) -> Rate {
    Rate::from_bits_per_s(rate * 1_000_000)
}

#[test]
fn job_registration_is_idempotent_conflicts_refused() {
    let mut cluster = Cluster::new(Mode::Manual);
    register(&mut cluster, "train", &["h0", "h3"]);
    let written = cluster.log.len();
    let again = register(&mut cluster, "train", &["h0", "h3"]);
    assert_eq!(again, Response::Registered(registered(&mut cluster)));
    assert_eq!(cluster.log.len(), written);
    let other = register(&mut cluster, "train", &["h0", "h4"]);
    let Response::Refused(refused) = other else {
        panic!("{other:?}")
    };
    assert_eq!(
        refused.to_string(),
        "train is registered on h0, h3, not on h0, h4; end that job first, or use another name"
    );
    register(&mut cluster, "train", &["h3", "h0"]);
    let registration = registered(&mut cluster);
    assert_eq!(
        (registration.len(), &registration[0].hosts[..]),
        (1, &texts(&["h3", "h0"])[..])
    );
    assert_eq!(registration[0].by, "ada");
}

#[test]
fn invalid_job_is_refused_with_reason() {
    let mut cluster = Cluster::new(Mode::Manual);
    let mut why = |job: &str, hosts: &[&str]| match register(&mut cluster, job, hosts) {
        Response::Refused(refused) => refused.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        why("a", &["h0", "h0"]),
        "h0 is listed twice among the hosts"
    );
    assert_eq!(why("a", &[]), "a job needs at least one host");
    assert!(why("a", &["h0", "leaf0"]).contains("no host named \"leaf0\""));
    assert!(why("a b", &["h0"]).contains("is not a valid name for a job"));
    let order = JobOrder::Start { may_change: true };
    let refused = Refused::NotRegistered {
        job: "never".to_owned(),
    };
    assert_eq!(
        tell(&mut cluster, "never", order),
        Response::Refused(refused)
    );
    let over = tell(&mut cluster, "never", JobOrder::End);
    assert_eq!(over, Response::Registered(vec![]));
}

#[test]
fn job_start_repairs_and_end_unpins() {
    let (mut cluster, flows) = collision(Mode::Manual);
    register(&mut cluster, "train", &["h0", "h1", "h3", "h4"]);
    let early = start(&mut cluster, "train").because.unwrap();
    assert!(early.contains("a plan could fix, but"), "{early}");
    cluster.run_for(SETTLE_TIME);
    let order = JobOrder::Start { may_change: false };
    let Response::Started(looked) = tell(&mut cluster, "train", order) else {
        panic!("no start")
    };
    assert_eq!(looked.because.unwrap(), "no changes requested for it");
    let started = start(&mut cluster, "train");
    assert!(started.allocation.is_good && started.because.is_none());
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    let kept = cluster.core.state().history().next_back().unwrap();
    assert_eq!(Some(kept.plan.generation), started.generation);
    assert_eq!(kept.proposed.by, Author::Operator("ada".to_owned()));
    assert!(!cluster.core.state().in_force().pins.is_empty());

    let because = start(&mut cluster, "train").because.unwrap();
    assert!(
        because.contains("no finding that a plan could fix"),
        "{because}"
    );
    flows.into_iter().for_each(|flow| cluster.network.end(flow));
    cluster.run_for(2 * SETTLE_TIME);
    assert_eq!(cluster.core.state().ended(), 1, "nothing unasked");
    let mut jobs = registered(&mut cluster);
    jobs[0].silent_ms = 0;
    let ended = tell(&mut cluster, "train", JobOrder::End);
    assert_eq!(ended, Response::Registered(jobs));
    assert_eq!(registered(&mut cluster), []);
    cluster.run_until_ended(2);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert!(cluster.core.state().in_force().pins.is_empty());
    cluster.assert_one_generation();
}

#[test]
fn job_start_leaves_other_jobs_alone() {
    let (mut cluster, _) = collision(Mode::Manual);
    register(&mut cluster, "other", &["h2", "h5"]);
    cluster.run_for(SETTLE_TIME);
    let because = start(&mut cluster, "other").because.unwrap();
    assert!(
        because.contains("no finding concerns flows between its hosts"),
        "{because}"
    );
    assert!(cluster.core.state().rollouts().next().is_none());
}

#[test]
fn job_start_keeps_change_window() {
    let policy = Policy {
        // The clock of these tests starts on a Thursday at midnight.
        changes_only: vec!["Thu 02:00-03:00".parse().unwrap()],
        ..Policy::default()
    };
    let mut cluster = Cluster::with(Network::new(2, 3), policy);
    for (from, to, port) in [("h0", "h3", 1000), ("h1", "h4", 1001)] {
        cluster.network.start(from, to, port, 0);
    }
    register(&mut cluster, "train", &["h0", "h1", "h3", "h4"]);
    cluster.run_for(SETTLE_TIME);
    let because = start(&mut cluster, "train").because.unwrap();
    assert!(
        because.contains("change windows are Thu 02:00-03:00"),
        "{because}"
    );
}

fn brief(silence: Duration) -> Cluster {
    let policy = Policy {
        end_silent_jobs_after: silence,
        ..Policy::default()
    };
    Cluster::with(Network::new(2, 3), policy)
}

#[test]
fn vanished_job_expires_after_policy_ttl() {
    let silence = Duration::from_secs(20);
    let mut cluster = brief(silence);
    let flow = cluster.network.start("h0", "h3", 1000, 0);
    register(&mut cluster, "train", &["h0", "h3"]);
    register(&mut cluster, "idle", &["h1", "h4"]);
    register(&mut cluster, "early", &["h2", "h5"]);
    let hosts = texts(&["h1", "h4"]);
    cluster.ask(Request::Freeze { hosts });
    for _ in 0..3 {
        cluster.run_for(silence / 2);
        register(&mut cluster, "early", &["h2", "h5"]);
    }
    let names = |cluster: &mut Cluster| {
        let registration = registered(cluster).into_iter();
        registration.map(|it| it.job).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut cluster), ["early", "train"]);
    assert!(cluster.core.state().frozen().is_empty(), "nor is it frozen");
    // An idle job exists; one whose sessions have ended does not.
    cluster.network.pause(flow);
    cluster.run_for(2 * silence);
    assert_eq!(names(&mut cluster), ["train"]);
    cluster.network.end(flow);
    cluster.run_for(2 * silence);
    assert_eq!(names(&mut cluster), [""; 0]);
}

#[test]
fn new_leader_restarts_job_ttl() {
    let silence = Duration::from_secs(20);
    let mut cluster = brief(silence);
    register(&mut cluster, "train", &["h0", "h3"]);
    cluster.run_for(silence * 3 / 4);
    cluster.restart();
    cluster.reconnect();
    cluster.run_for(silence * 3 / 4);
    assert_eq!(registered(&mut cluster).len(), 1);
    cluster.run_for(silence / 2);
    assert_eq!(registered(&mut cluster), []);
}

fn foreseen(cluster: &mut Cluster) -> Vec<String> {
    let found = causes(cluster).into_iter();
    let found = found.filter(|cause| cause.class == Class::Saturation);
    found.map(|cause| cause.evidence.concat()).collect()
}

#[test]
fn phase_forecast_lasts_until_job_end() {
    let mut cluster = Cluster::new(Mode::Manual);
    let quick = cluster.network.node("h0");
    cluster.network.caps.insert(quick, 40e6);
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.run_for(SETTLE_TIME);
    register(&mut cluster, "next", &["h1", "h4", "h2", "h5"]);
    let mut enter = |name: &str, rate| {
        let name = name.to_owned();
        let ring_bits_per_s = rate;
        let order = JobOrder::Phase {
            name,
            ring_bits_per_s,
        };
        tell(&mut cluster, "next", order);
        foreseen(&mut cluster)
    };
    assert_eq!(enter("small", Some(mbps(1))), [""; 0]);
    let found = enter("gradients", Some(mbps(80)));
    assert!(found[0].contains("job next will bring"), "{found:?}");
    assert_eq!(enter("compute", None), [""; 0]);
    assert!(!enter("gradients", Some(mbps(80))).is_empty());
    let registration = registered(&mut cluster);
    assert_eq!(registration[0].phase.as_ref().unwrap().name, "gradients");
    // Any next leader starts with the registered jobs.
    let state = cluster.core.clone().into_state();
    let fabric = Arc::clone(&cluster.network.fabric);
    cluster.core = Core::resume(Policy::default(), fabric, state);
    cluster.reconnect();
    cluster.run_for(SETTLE_TIME);
    assert!(!foreseen(&mut cluster).is_empty());
    tell(&mut cluster, "next", JobOrder::End);
    assert_eq!(foreseen(&mut cluster), [""; 0]);
}

/// Link counters include it; it may be the announced traffic of the job, or another's.
#[test]
fn unseen_traffic_counts_in_forecast() {
    let mut cluster = Cluster::new(Mode::Manual);
    let [others, own] = ["h0", "h1"].map(|host| cluster.network.node(host));
    for (from, to) in [("h0", "h3"), ("h1", "h4")] {
        let host = cluster.network.node(from);
        cluster.network.caps.insert(host, 40e6);
        cluster.network.start(from, to, 1000, 0);
    }
    cluster.network.past_the_kernel.insert(others);
    cluster.run_for(SETTLE_TIME);
    register(&mut cluster, "next", &["h1", "h4", "h2", "h5"]);
    let order = JobOrder::Phase {
        name: "gradients".to_owned(),
        ring_bits_per_s: Some(mbps(60)),
    };
    tell(&mut cluster, "next", order);
    assert_eq!(foreseen(&mut cluster), [""; 0], "it sends already");
    cluster.network.past_the_kernel.insert(own);
    cluster.run_for(SETTLE_TIME);
    assert_eq!(
        foreseen(&mut cluster),
        [""; 0],
        "its own traffic is not all to come once more"
    );
    cluster.network.flows.retain(|_, flow| flow.from == others);
    cluster.run_for(SETTLE_TIME);
    let found = foreseen(&mut cluster);
    assert!(
        found[0].contains("it carries 40.0 Mb/s of 100.0 Mb/s"),
        "{found:?}"
    );
}

#[test]
fn gate_reports_order_and_objections() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    let report = gate(&mut cluster, &["h0", "h3", "h1", "h4"]);
    assert!(report.is_good, "{report:?}");
    assert_eq!(report.groups.len(), 2);
    for group in &report.groups {
        let place = |host: &String| report.order.iter().position(|it| it == host).unwrap();
        let places = [place(&group[0]), place(&group[1])];
        assert!(matches!(places[0].abs_diff(places[1]), 1 | 3), "{report:?}");
    }
    let [listed, ordered] = report.ring_bits_per_s.unwrap();
    assert!(ordered > listed, "{listed} {ordered}");

    register(&mut cluster, "train", &["h1", "h2"]);
    let flaps = vec![health("eth0", Signal::LinkDowns, 1)];
    say(&mut cluster, "h5", flaps);
    let gone = cluster.network.node("h4");
    cluster.disconnect(gone);
    let report = gate(&mut cluster, &["h1", "h4", "h5"]);
    assert!(!report.is_good);
    let has = |words: &str| report.against.iter().any(|it| it.contains(words));
    for words in ["the agent on h4 is silent", "train runs on h1", "h5"] {
        assert!(has(words), "{words}: {:?}", report.against);
    }
    assert!(gate(&mut cluster, &["h0"]).ring_bits_per_s.is_none());
}

pub(super) const BOTH_RACKS_HOSTS: [&str; 4] = ["h0", "h3", "h1", "h4"];

/// Hosts of one rack have next to no bandwidth between them.
pub(super) fn slow_within_racks(cluster: &mut Cluster) {
    for (host, peer) in [("h0", "h1"), ("h1", "h0"), ("h3", "h4"), ("h4", "h3")] {
        let readings = vec![between(cluster, host, peer, 1)];
        say(cluster, host, readings);
    }
}

fn between(cluster: &Cluster, from: &str, to: &str, rate: u64) -> Reading {
    let address = |host| host_address(cluster.network.node(host));
    let rate = mbps(rate);
    Reading::Bandwidth(BandwidthReading {
        flow: FlowKey {
            protocol: Protocol::Udp,
            source: SocketAddrV4::new(address(from), 7400),
            destination: SocketAddrV4::new(address(to), PROBE_PORT),
        },
        bandwidth: Bandwidth::Known {
            rate,
            least: rate,
            most: rate,
            trains: 20,
        },
        routers: None,
    })
}

#[test]
fn job_order_stays_when_pairs_change() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    register(&mut cluster, "train", &BOTH_RACKS_HOSTS);
    let order = start(&mut cluster, "train").allocation.order;
    let written = cluster.log.len();
    slow_within_racks(&mut cluster);
    assert_ne!(gate(&mut cluster, &BOTH_RACKS_HOSTS).order, order);
    let again = start(&mut cluster, "train").allocation;
    assert_eq!(again.order, order);
    let [listed, kept] = again.ring_bits_per_s.unwrap();
    assert!(kept < listed, "what pairs have now: {listed} {kept}");
    let asked = gate_of(&mut cluster, Some("train"), &BOTH_RACKS_HOSTS);
    assert_eq!(asked.order, order);
    assert_eq!(cluster.log.len(), written, "registered once, written once");
    let stranger = gate_of(&mut cluster, Some("never"), &BOTH_RACKS_HOSTS);
    assert_ne!(stranger.order, order);
    let others = gate_of(&mut cluster, Some("train"), &["h0", "h3"]);
    assert_eq!(others.order.len(), 2);

    cluster.restart();
    cluster.reconnect();
    cluster.run_for(SETTLE_TIME);
    slow_within_racks(&mut cluster);
    assert_ne!(gate(&mut cluster, &BOTH_RACKS_HOSTS).order, order);
    assert_eq!(start(&mut cluster, "train").allocation.order, order);
    tell(&mut cluster, "train", JobOrder::End);
    register(&mut cluster, "train", &BOTH_RACKS_HOSTS);
    assert_ne!(start(&mut cluster, "train").allocation.order, order);
}

/// The ring of a phase follows the order that the orchestrator got for its start.
#[test]
fn reorderable_ranks_keep_reported_order() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    let best = gate(&mut cluster, &BOTH_RACKS_HOSTS).order;
    assert_ne!(best, texts(&BOTH_RACKS_HOSTS));
    assert_eq!(reordered(&mut cluster, "train", &BOTH_RACKS_HOSTS), best);
    let written = cluster.log.len();
    slow_within_racks(&mut cluster);
    let elsewhere = ["h4", "h3", "h1", "h0"];
    assert_eq!(reordered(&mut cluster, "train", &elsewhere), best);
    let started = start(&mut cluster, "train").allocation;
    assert_eq!(started.order, best);
    assert_eq!(registered(&mut cluster)[0].hosts, best);
    assert_eq!(cluster.log.len(), written);
    // The reported hosts of ranks are accepted.
    register(&mut cluster, "train", &elsewhere);
    assert_eq!(registered(&mut cluster)[0].hosts, texts(&elsewhere));
}
