//! How evenly flows are spread: of each job alone, and over time.

use std::time::Duration;

use reweave_common::operator::{Imbalances, Mode, Request, Response};

use super::cluster::Cluster;
use super::registered::register;
use super::scene::SETTLE_TIME;

fn imbalances(cluster: &mut Cluster) -> Imbalances {
    match cluster.ask(Request::Imbalance) {
        Response::Imbalances(found) => found,
        other => panic!("no imbalance: {other:?}"),
    }
}

/// Two jobs of two flows each: the one has both on one uplink, the other one on each.
fn two_jobs() -> Cluster {
    let mut cluster = Cluster::new(Mode::Manual);
    for (from, to, port, spine) in [
        ("h0", "h3", 1000, 0),
        ("h0", "h3", 1001, 0),
        ("h1", "h4", 1002, 0),
        ("h1", "h4", 1003, 1),
    ] {
        cluster.network.start(from, to, port, spine);
    }
    cluster.run_for(SETTLE_TIME);
    cluster
}

#[test]
fn job_imbalances_list_worst_first() {
    let found = imbalances(&mut two_jobs());
    let jobs = found.jobs.iter();
    let figures = jobs.map(|it| {
        let worst = it.all.worst;
        let fims = [worst.fim_percent, worst.floor_percent];
        (&*it.job, it.flows, it.all.mean_fim_percent, fims)
    });
    let expected = [
        ("h0 and h3", 2, 100.0, [100.0, 0.0]),
        ("h1 and h4", 2, 0.0, [0.0, 0.0]),
    ];
    assert_eq!(figures.collect::<Vec<_>>(), expected);
    let over = found.jobs[0].all.worst_over.iter();
    let over: Vec<_> = over.map(|hop| &*hop.to).collect();
    assert_eq!(over, ["spine0", "spine1"]);
    // Three against one, when both are there.
    assert_eq!(found.all.unwrap().worst.fim_percent, 50.0);
}

/// The names of jobs in the imbalance and in the list of jobs.
fn names(cluster: &mut Cluster) -> [Vec<String>; 2] {
    let uneven = imbalances(cluster).jobs.into_iter().map(|it| it.job);
    let Response::Jobs(jobs) = cluster.ask(Request::Jobs) else {
        panic!("no jobs")
    };
    let mut names = [
        uneven.collect::<Vec<_>>(),
        jobs.into_iter().map(|it| it.job).collect(),
    ];
    for names in &mut names {
        names.sort();
    }
    names
}

#[test]
fn jobs_use_registered_names() {
    let mut cluster = two_jobs();
    register(&mut cluster, "train", &["h3", "h0"]);
    register(&mut cluster, "wider", &["h1", "h4", "h5"]);
    let called = |names: [&str; 2]| [0, 1].map(|_| names.map(str::to_owned).to_vec());
    assert_eq!(names(&mut cluster), called(["h1 and h4", "train"]));
    // Which of two that are registered on the same hosts this is, is unknown.
    register(&mut cluster, "twin", &["h0", "h3"]);
    assert_eq!(names(&mut cluster), called(["h0 and h3", "h1 and h4"]));
}

#[test]
fn imbalance_history_is_exported_once() {
    let mut cluster = two_jobs();
    cluster.run_for(Duration::from_secs(9));
    for port in [1000, 1001] {
        let flows = cluster.network.flows.keys();
        let flow = flows.copied().find(|flow| flow.source.port() == port);
        cluster.network.end(flow.unwrap());
    }
    let (at, kept) = cluster.core.poll_evenness().unwrap();
    assert_eq!(kept.all.unwrap().worst.fim_percent, 50.0);
    assert_eq!(kept.jobs.len(), 2);
    assert!(cluster.now().since(at) < Duration::from_secs(5));
    assert!(cluster.core.poll_evenness().is_none());
    cluster.run_for(Duration::from_secs(15));
    let history = imbalances(&mut cluster).history;
    let fims: Vec<_> = history.iter().map(|it| it.worst.fim_percent).collect();
    assert_eq!((fims.first(), fims.last()), (Some(&50.0), Some(&0.0)));
    let every: Vec<_> = history
        .windows(2)
        .map(|two| two[0].age_ms - two[1].age_ms)
        .collect();
    assert!(every.iter().all(|ms| *ms == 5000), "{every:?}");
    assert!((4..=6).contains(&history.len()), "{history:?}");
    assert!(cluster.core.poll_evenness().is_some());
}
