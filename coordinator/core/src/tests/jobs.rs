//! Why a job is slow, on hosts that report nothing of jobs, and how quick pairs are beside each other.

use std::time::Duration;

use reweave_common::cause::Class;
use reweave_common::health::Signal;
use reweave_common::moment::Moment;
use reweave_common::operator::{
    Explanation, Finding, JobStatus, MeasuredPair, Mode, Refused, Request, Response,
};
use reweave_common::periodicity::{ExchangePattern, IterationPeriod, Periodicity};
use reweave_common::sample::{HostReading, Reading};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Percent, Rate};

use super::cluster::Cluster;
use super::diagnosis::{causes, cluster, health, measured, say};
use super::network::Network;
use super::scene::{SETTLE_TIME, collision, planned};

fn ask(cluster: &mut Cluster, job: &str, hosts: &[&str]) -> Response {
    cluster.ask(Request::Explain {
        job: job.to_owned(),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
    })
}

fn explanation(cluster: &mut Cluster, job: &str, hosts: &[&str]) -> Explanation {
    match ask(cluster, job, hosts) {
        Response::Explanation(Some(report)) => *report,
        other => panic!("{other:?}"),
    }
}

/// Two flows with one uplink, one each way.
fn colliding() -> Cluster {
    let (mut cluster, _) = collision(Mode::Manual);
    cluster.network.start("h4", "h1", 1002, 1);
    cluster.run_for(SETTLE_TIME);
    cluster
}

#[test]
fn running_job_is_explained_by_collision() {
    let mut cluster = colliding();
    let report = explanation(&mut cluster, "h0", &[]);
    assert_eq!(
        (&report.job[..], &report.hosts),
        ("h0 and h3", &["h0", "h3"].map(str::to_owned))
    );
    assert_eq!(report.path, ["h0", "leaf0", "spine0", "leaf1", "h3"]);
    assert_eq!(report.link.unwrap().to_string(), "leaf0-spine0 from leaf0");
    let cause = report.cause.unwrap();
    assert_eq!(cause.class, Class::EcmpCollision);
    assert_eq!(cause.jobs, ["h0 and h3"]);
    assert_eq!((report.ranks, report.iteration_ms), (None, None));
    assert_eq!(report.doubts, [""; 0]);
}

#[test]
fn slowest_pair_of_hosts_is_explained() {
    let mut cluster = colliding();
    let report = explanation(&mut cluster, "train", &["h1", "h4"]);
    assert_eq!(report.job, "train");
    assert_eq!(report.hosts, ["h1", "h4"].map(str::to_owned));
    let mbps = |rate: Option<Rate>| rate.unwrap().mbps().round();
    let [slow, other] = [report.pair_bits_per_s, report.others_bits_per_s].map(mbps);
    assert!((49.0..=51.0).contains(&slow) && (99.0..=101.0).contains(&other));
}

#[test]
fn idle_host_has_no_job() {
    let mut cluster = colliding();
    assert_eq!(ask(&mut cluster, "h2", &[]), Response::Explanation(None));
    assert_eq!(
        ask(&mut cluster, "all", &["h0", "h1"]),
        Response::Explanation(None)
    );
    for (job, hosts, name) in [
        ("h9", &[][..], "h9"),
        ("leaf0", &[], "leaf0"),
        ("x", &["h0", "y"], "y"),
    ] {
        let refused = Refused::NoSuchHost {
            name: name.to_owned(),
        };
        assert_eq!(ask(&mut cluster, job, hosts), Response::Refused(refused));
    }
}

/// A host that exchanges flows with one of a job's hosts works for it, too.
#[test]
fn findings_name_affected_jobs() {
    let mut cluster = colliding();
    cluster.network.start("h3", "h5", 1003, 1);
    cluster.run_for(SETTLE_TIME);
    say(
        &mut cluster,
        "h5",
        vec![health("eth0", Signal::LinkDowns, 1)],
    );
    let Response::Findings(found) = cluster.ask(Request::Diagnose) else {
        panic!("no findings")
    };
    let flap = found.findings.iter().find_map(|it| match it {
        Finding::Cause(cause) if cause.class == Class::NicFlap => Some(cause),
        _ => None,
    });
    assert_eq!(flap.unwrap().jobs, ["h0 and 2 others"]);
}

fn ring(hosts: [&str; 4]) -> Vec<(Class, String)> {
    let mut cluster = Cluster::new(Mode::Manual);
    for (place, port) in (0..4).zip(1000..) {
        let spine = usize::from(port) % 2;
        cluster
            .network
            .start(hosts[place], hosts[(place + 1) % 4], port, spine);
    }
    cluster.run_for(SETTLE_TIME);
    let Response::Findings(found) = cluster.ask(Request::Diagnose) else {
        panic!("no findings")
    };
    let causes = found.findings.into_iter().filter_map(|it| match it {
        Finding::Cause(cause) => Some((cause.class, cause.subject.to_string())),
        _ => None,
    });
    causes.collect()
}

#[test]
fn ring_crossing_racks_needlessly_is_named() {
    let job = "job h0 and 3 others".to_owned();
    assert_eq!(ring(["h0", "h3", "h1", "h4"]), [(Class::RankOrder, job)]);
    assert_eq!(ring(["h0", "h1", "h3", "h4"]), []);
}

#[test]
fn host_bound_job_spares_fabric() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.run_for(SETTLE_TIME);
    let beat = IterationPeriod {
        period: TimeSpan::from_millis(200),
        gap: TimeSpan::from_millis(190),
        sent: Bytes::new(1 << 20),
        received: Bytes::new(1 << 20),
        shape: Some(ExchangePattern::Ring),
        confidence_percent: Percent::new(90).unwrap(),
        iterations: 20,
        since: Moment::default(),
        next_gap: Moment::default(),
    };
    say(
        &mut cluster,
        "h0",
        vec![Reading::Host(HostReading::Rhythm(Periodicity::Found(beat)))],
    );
    let report = explanation(&mut cluster, "h3", &[]);
    assert_eq!(
        (report.iteration_ms, report.collective_ms),
        (Some(200.0), Some(10.0))
    );
    assert_eq!(
        report.collective.unwrap(),
        "what an iteration sends around a ring"
    );
    assert_eq!(
        report.doubts,
        [
            "no measurement explains it",
            "the wires rest 95 % of the time: it is not the fabric that it waits for"
        ]
    );
}

#[test]
fn pairs_list_slowest_first() {
    let mut cluster = cluster();
    for host in 0..8 {
        let readings = measured(&cluster, host, |to| (host, to) == (1, 6));
        say(&mut cluster, &format!("h{host}"), readings);
    }
    let Response::Pairs(report) = cluster.ask(Request::Pairs { most: 20 }) else {
        panic!("no pairs")
    };
    let mbit = |mbps: u64| Rate::from_bits_per_s(mbps * 1_000_000);
    let slowest = MeasuredPair {
        from: "h1".to_owned(),
        to: "h6".to_owned(),
        rail: 0,
        in_rack: false,
        rate_bits_per_s: mbit(65),
        usual_bits_per_s: mbit(100),
        peers: 32,
        is_slow: true,
        age_ms: 0,
    };
    assert_eq!((report.pairs.len(), &report.pairs[0]), (20, &slowest));
    let near = report.pairs.iter().find(|it| it.in_rack).unwrap();
    assert_eq!(
        (near.usual_bits_per_s, near.peers, near.is_slow),
        (mbit(200), 24, false)
    );
}

/// By name, the links that will be full, in the words of the finding.
fn foreseen(cluster: &mut Cluster) -> Vec<(String, String)> {
    let found = causes(cluster).into_iter();
    let found = found.filter(|cause| cause.class == Class::Saturation);
    found
        .map(|cause| (cause.subject.to_string(), cause.evidence.concat()))
        .collect()
}

/// It keeps its sessions, and will send again as it did.
#[test]
fn resting_job_is_forecast_to_collide() {
    let mut cluster = Cluster::on(Network::new(4, 4), Mode::Manual);
    let rests = cluster.network.start("h0", "h4", 1000, 0);
    cluster.run_for(SETTLE_TIME);
    cluster.network.pause(rests);
    cluster.run_for(Duration::from_mins(1));
    assert_eq!(foreseen(&mut cluster), [], "no flow is in its way");
    let quick = cluster.network.node("h1");
    cluster.network.caps.insert(quick, 40e6);
    let other = cluster.network.start("h1", "h5", 1001, 0);
    let elsewhere = cluster.network.start("h2", "h6", 1002, 1);
    cluster.run_for(SETTLE_TIME);
    let found = foreseen(&mut cluster);
    let links: Vec<_> = found.iter().map(|(link, _)| &link[..]).collect();
    assert_eq!(
        links,
        ["leaf0-spine0 from leaf0", "leaf1-spine0 from spine0"]
    );
    assert!(
        found[0].1.contains("job h0 and h4 will bring "),
        "{found:?}"
    );
    cluster.network.end(other);
    cluster.run_for(2 * SETTLE_TIME);
    assert_eq!(foreseen(&mut cluster), []);
    // An agent whose session has ended reports nothing.
    cluster.network.end(elsewhere);
    cluster.network.start("h1", "h5", 1003, 0);
    cluster.network.end(rests);
    cluster.run_for(2 * SETTLE_TIME);
    assert_eq!(foreseen(&mut cluster), []);
}

fn listed(cluster: &mut Cluster) -> Vec<JobStatus> {
    match cluster.ask(Request::Jobs) {
        Response::Jobs(jobs) => jobs,
        other => panic!("{other:?}"),
    }
}

#[test]
fn jobs_list_achieved_beside_promised() {
    let (mut cluster, _, plan) = planned();
    let before = listed(&mut cluster);
    let mut names: Vec<_> = before.iter().map(|job| &job.job[..]).collect();
    names.sort_unstable();
    assert_eq!(names, ["h0 and h3", "h1 and h4"]);
    assert!(
        before
            .iter()
            .all(|job| job.promise.is_none() && job.sending == 1)
    );
    cluster.apply(plan);
    cluster.run_until_ended(1);
    cluster.run_for(SETTLE_TIME);
    for job in listed(&mut cluster) {
        let promise = job.promise.unwrap();
        let [low, high] = promise.predicted_bits_per_s;
        assert_eq!((promise.generation, promise.flows), (plan, 1));
        assert!(
            (low..=high).contains(&promise.achieved_bits_per_s),
            "{promise:?}"
        );
        assert_eq!(Some(promise.achieved_bits_per_s), job.slowest_bits_per_s);
        assert!(job.seen_for_ms >= 3000, "{}", job.seen_for_ms);
    }
}

#[test]
fn resting_job_listed_until_sessions_end() {
    let (mut cluster, [first, second]) = collision(Mode::Manual);
    cluster.run_for(2 * SETTLE_TIME);
    cluster.network.pause(first);
    cluster.run_for(2 * SETTLE_TIME);
    let jobs = listed(&mut cluster);
    assert_eq!((jobs[0].job.as_str(), jobs[0].sending), ("h1 and h4", 1));
    assert_eq!((jobs[1].job.as_str(), jobs[1].sending), ("h0 and h3", 0));
    assert!(jobs[1].seen_for_ms > 4000 && jobs[1].slowest_bits_per_s.is_none());
    cluster.network.end(first);
    cluster.network.end(second);
    cluster.run_for(2 * SETTLE_TIME);
    assert_eq!(listed(&mut cluster), []);
}
