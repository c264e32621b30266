//! Kernel-bypass jobs, by the reports of their ranks.

use std::time::Duration;

use reweave_common::cause::Class;
use reweave_common::collective::{Rank, RankPeer, RankReading, Works};
use reweave_common::moment::Moment;
use reweave_common::operator::{Explanation, JobOrder, JobStatus, Request, Response};
use reweave_common::periodicity::{IterationPeriod, Periodicity};
use reweave_common::sample::{HostReading, Reading};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Percent, Rate};

use super::cluster::Cluster;
use super::diagnosis::{causes, cluster, hop, probe_for, say};

fn jobs(cluster: &mut Cluster) -> Vec<JobStatus> {
    let Response::Jobs(jobs) = cluster.ask(Request::Jobs) else {
        panic!("no jobs")
    };
    jobs
}

/// One rank on each of these hosts, each of which sends this much per second to the next, bypassing the kernel.
fn ring(cluster: &mut Cluster, hosts: &[&str], bits_per_s: u64, busy_ms: impl Fn(usize) -> u64) {
    timed_ring(cluster, hosts, bits_per_s, busy_ms, |_| 0);
}

/// The same, with reported transfer times.
fn timed_ring(
    cluster: &mut Cluster,
    hosts: &[&str],
    bits_per_s: u64,
    busy_ms: impl Fn(usize) -> u64,
    sending_ms: impl Fn(usize) -> u64,
) {
    let ranks = hosts.len().max(2) as u32;
    for (rank, host) in (0..ranks).zip(hosts) {
        let way_ms = sending_ms(rank as usize);
        let peer = |rank: u32, sent: u64, received: u64| RankPeer {
            rank: rank % ranks,
            sent: Bytes::new(sent),
            received: Bytes::new(received),
            sending: TimeSpan::from_millis(if sent > 0 { way_ms } else { 0 }),
            receiving: TimeSpan::ZERO,
        };
        let bytes = bits_per_s / 8;
        let works = Works {
            took: TimeSpan::from_millis(busy_ms(rank as usize)),
            timed: 10,
            ..all_reduces()
        };
        let peers = vec![peer(rank + 1, bytes, 0), peer(rank + ranks - 1, 0, bytes)];
        tell(cluster, host, of(5, "world", [rank, ranks]), works, peers);
    }
}

/// Ten all-reduces of unknown duration.
fn all_reduces() -> Works {
    Works {
        kind: "AllReduce".to_owned(),
        algorithm: "RING".to_owned(),
        protocol: "SIMPLE".to_owned(),
        count: 10,
        bytes: Bytes::new(1 << 20),
        took: TimeSpan::ZERO,
        timed: 0,
    }
}

fn of(communicator: u64, name: &str, [rank, ranks]: [u32; 2]) -> Rank {
    Rank {
        communicator,
        name: name.to_owned(),
        nodes: ranks,
        ranks,
        rank,
    }
}

/// Reports a second of work.
fn tell(cluster: &mut Cluster, host: &str, rank: Rank, works: Works, peers: Vec<RankPeer>) {
    let reading = RankReading {
        rank,
        over: TimeSpan::from_secs(1),
        missed: 0,
        works: vec![works],
        peers,
    };
    let reading = HostReading::Rank(Box::new(reading));
    say(cluster, host, vec![Reading::Host(reading)]);
}

/// Ten collectives a second, whose steps are detected.
#[test]
fn partial_collective_period_is_corrected() {
    let mut cluster = cluster();
    ring(&mut cluster, &["h0", "h5", "h2", "h7"], 90_000_000, |_| 500);
    for (heard_ms, reported_ms) in [(25, 100.0), (50, 100.0), (98, 98.0), (200, 200.0)] {
        let beat = beat_of(Duration::from_millis(heard_ms));
        let beat = Reading::Host(HostReading::Rhythm(Periodicity::Found(beat)));
        say(&mut cluster, "h0", vec![beat]);
        let [job] = jobs(&mut cluster).try_into().unwrap();
        assert_eq!(
            job.iteration_ms,
            Some(reported_ms),
            "{heard_ms} ms are heard"
        );
    }
}

fn beat_of(period: Duration) -> IterationPeriod {
    IterationPeriod {
        period: period.into(),
        gap: (period / 4).into(),
        sent: Bytes::new(1 << 20),
        received: Bytes::new(1 << 20),
        shape: None,
        confidence_percent: Percent::new(90).unwrap(),
        iterations: 40,
        since: Moment::default(),
        next_gap: Moment::default(),
    }
}

#[test]
fn kernel_bypass_job_known_by_reports() {
    let mut cluster = cluster();
    let hosts = ["h0", "h5", "h2", "h7"];
    ring(&mut cluster, &hosts, 90_000_000, |_| 500);
    let [job] = jobs(&mut cluster).try_into().unwrap();
    assert_eq!(job.hosts, ["h0", "h2", "h5", "h7"].map(str::to_owned));
    assert_eq!((job.flows, job.sending), (4, 4));
    assert_eq!(job.rate_bits_per_s.mbps().round(), 360.0);
    let ask = Request::Explain {
        job: "h5".to_owned(),
        hosts: vec![],
    };
    let Response::Explanation(Some(report)) = cluster.ask(ask) else {
        panic!("it exchanges something")
    };
    let place = hosts.iter().position(|it| *it == report.hosts[0]).unwrap();
    assert_eq!(report.hosts[1..], [hosts[(place + 1) % 4]]);
    assert_eq!(
        report.pair_bits_per_s,
        Some(Rate::from_bits_per_s(90_000_000))
    );
    // Even the order of its ranks.
    let found = causes(&mut cluster).into_iter();
    let found: Vec<_> = found.map(|it| it.class).collect();
    assert_eq!(found, [Class::RankOrder]);
}

#[test]
fn straggler_found_by_rank_reports() {
    let mut cluster = cluster();
    let hosts = ["h0", "h2", "h5", "h7"];
    ring(&mut cluster, &hosts, 90_000_000, |rank| {
        if rank == 1 { 200 } else { 600 }
    });
    let found = causes(&mut cluster);
    let [only] = &found[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(
        (only.class, only.subject.to_string()),
        (Class::Straggler, "h2".to_owned())
    );
    // Old reports expire.
    cluster.run_for(Duration::from_secs(30));
    assert_eq!(causes(&mut cluster), []);
}

#[test]
fn unreported_rank_forms_no_pair() {
    let mut cluster = cluster();
    ring(&mut cluster, &["h0"], 90_000_000, |_| 500);
    assert_eq!(jobs(&mut cluster), []);
}

fn explained(cluster: &mut Cluster, job: &str) -> Explanation {
    let ask = Request::Explain {
        job: job.to_owned(),
        hosts: vec![],
    };
    match cluster.ask(ask) {
        Response::Explanation(Some(report)) => *report,
        other => panic!("{other:?}"),
    }
}

fn register(cluster: &mut Cluster, job: &str, hosts: &[&str]) {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    cluster.ask(Request::Job {
        job: job.to_owned(),
        order: JobOrder::Register {
            hosts,
            may_reorder: false,
        },
    });
}

/// From the job's name to the cause: probes identify the paths over the faulty link.
#[test]
fn registered_job_explained_to_lossy_link() {
    let mut cluster = cluster();
    let lossy = hop(&cluster, "leaf0", "spine0");
    cluster.network.lossy.insert(lossy);
    probe_for(&mut cluster, Duration::from_secs(20));
    let hosts = ["h0", "h4", "h1", "h5"];
    register(&mut cluster, "train", &hosts);
    let slow = |rank| if rank == 2 { 900 } else { 100 };
    timed_ring(&mut cluster, &hosts, 90_000_000, |_| 500, slow);
    let report = explained(&mut cluster, "train");
    assert_eq!(report.job, "train");
    assert_eq!(report.collective.as_deref(), Some("AllReduce RING SIMPLE"));
    assert_eq!(report.collective_ms, Some(50.0));
    assert_eq!(report.ranks, Some([2, 3]));
    assert_eq!(report.hosts, ["h1", "h5"]);
    let mbps = |rate: Option<Rate>| rate.unwrap().mbps().round();
    assert_eq!(mbps(report.pair_bits_per_s), 100.0);
    assert_eq!(mbps(report.others_bits_per_s), 900.0);
    assert_eq!((report.pair_ms, report.others_ms), (None, None));
    let path = ["h1", "leaf0", "spine0", "leaf1", "h5"];
    assert_eq!(report.path, path);
    assert_eq!(report.cause.unwrap().class, Class::LossyLink);
    let link = report.link.unwrap().to_string();
    assert!(link.contains("leaf0-spine0"), "{link}");
    let [doubt] = &report.doubts[..] else {
        panic!("{:?}", report.doubts)
    };
    let begin = "its own path is unknown: 1 of the ";
    assert!(doubt.starts_with(begin), "{doubt}");
}

/// The known part of a path is shown, and no healthy hop is blamed.
#[test]
fn bypass_path_shown_where_probes_agree() {
    let mut cluster = cluster();
    probe_for(&mut cluster, Duration::from_secs(20));
    let hosts = ["h0", "h4", "h1", "h5"];
    let slow = |rank| if rank == 2 { 900 } else { 100 };
    timed_ring(&mut cluster, &hosts, 90_000_000, |_| 500, slow);
    let report = explained(&mut cluster, "h1");
    assert_eq!(report.path, ["h1", "leaf0", "*", "leaf1", "h5"]);
    let doubts = ["not every hop from h1 to h5 is known"];
    assert_eq!(report.doubts[..1], doubts);
}

/// Ranks of a group with this name that only do this with the next one, each on its host.
fn group(cluster: &mut Cluster, name: &str, kind: &str, hosts: &[&str]) {
    let ranks = hosts.len() as u32;
    for (rank, host) in (0..ranks).zip(hosts) {
        let next = (rank + 1 < ranks).then(|| sends(rank + 1));
        let works = Works {
            kind: kind.to_owned(),
            ..all_reduces()
        };
        let peers = next.into_iter().collect();
        tell(cluster, host, of(7, name, [rank, ranks]), works, peers);
    }
}

fn sends(rank: u32) -> RankPeer {
    RankPeer {
        rank,
        sent: Bytes::new(10_000_000),
        received: Bytes::ZERO,
        sending: TimeSpan::ZERO,
        receiving: TimeSpan::ZERO,
    }
}

#[test]
fn groups_across_hosts_or_racks_found() {
    let found = |name: &str, kind: &str, hosts: &[&str]| {
        let mut cluster = cluster();
        group(&mut cluster, name, kind, hosts);
        assert_eq!(jobs(&mut cluster).len(), 1, "it exchanges something");
        let found = causes(&mut cluster).into_iter();
        found.map(|it| it.class).collect::<Vec<_>>()
    };
    let (across, along) = (["h0", "h4", "h1", "h5"], ["h0", "h1", "h4", "h5"]);
    let pipeline = [Class::PipelineAcrossSpine];
    assert_eq!(found("undefined", "Send", &across), pipeline);
    assert_eq!(found("undefined", "Send", &along), []);
    assert_eq!(found("undefined", "AllReduce", &across), []);
    let tensors = "TENSOR_MODEL_PARALLEL_GROUP";
    assert_eq!(
        found(tensors, "AllReduce", &along),
        [Class::TensorAcrossHosts]
    );
    let both = "TENSOR_AND_DATA_PARALLEL_GROUP";
    assert_eq!(found(both, "AllReduce", &along), []);
}

/// Ten all-reduces of these ranks, hosts and bytes; each takes this long, and slightly longer for ranks that do not
/// arrive last.
fn reduce(cluster: &mut Cluster, [ranks, hosts]: [u32; 2], bytes: u64, ms: u64) {
    for rank in 0..ranks {
        let works = Works {
            bytes: Bytes::new(10 * bytes),
            took: TimeSpan::from_millis(10 * ms + u64::from(rank)),
            timed: 10,
            ..all_reduces()
        };
        let peers = vec![sends((rank + 1) % ranks)];
        let rank = of(u64::from(ranks), "dp", [rank, ranks]);
        let host = format!("h{}", rank.rank % hosts);
        tell(cluster, &host, rank, works, peers);
    }
}

#[test]
fn linear_all_reduce_scaling_is_found() {
    let found_on = |report: [(u32, u64, u64); 3], hosts: [u32; 3]| {
        let mut cluster = cluster();
        for ((ranks, bytes, ms), hosts) in report.into_iter().zip(hosts) {
            reduce(&mut cluster, [ranks, hosts], bytes, ms);
        }
        assert_eq!(jobs(&mut cluster).len(), 1, "it exchanges something");
        let found = causes(&mut cluster).into_iter();
        found
            .map(|it| (it.class, it.subject.to_string()))
            .collect::<Vec<_>>()
    };
    let found = |report| found_on(report, [2, 4, 8]);
    let alike = 1 << 20;
    let linear = [(2, alike, 20), (4, alike, 40), (8, alike, 81)];
    let job = "job h0 and 7 others".to_owned();
    assert_eq!(found(linear), [(Class::AllreduceLinear, job)]);
    // As with a tree algorithm.
    assert_eq!(found([(2, alike, 20), (4, alike, 40), (8, alike, 60)]), []);
    // All-reduces within a host say nothing about the fabric.
    assert_eq!(found_on(linear, [1, 4, 8]), []);
    // Larger messages take longer anyway.
    let larger = linear.map(|(ranks, bytes, ms)| (ranks, bytes * u64::from(ranks), ms));
    assert_eq!(found(larger), []);
}
