//! Frozen jobs, under which nothing is changed.

use reweave_common::operator::{Mode, Refused, Request, Response};

use super::cluster::Cluster;
use super::network::Network;
use super::scene::{SETTLE_TIME, status};
use crate::Outcome;

/// Two flows that collide on the way to the first spine, and one beside them.
fn cluster(mode: Mode) -> Cluster {
    let mut cluster = Cluster::on(Network::new(3, 4), mode);
    for (from, to, port, spine) in [
        ("h0", "h4", 1000, 0),
        ("h1", "h5", 1001, 0),
        ("h2", "h6", 1002, 1),
    ] {
        cluster.network.start(from, to, port, spine);
    }
    cluster.run_for(SETTLE_TIME);
    cluster
}

fn freeze(cluster: &mut Cluster, hosts: &[&str]) -> Response {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    cluster.ask(Request::Freeze { hosts })
}

fn thaw(cluster: &mut Cluster, host: &str) -> Response {
    let hosts = vec![host.to_owned()];
    cluster.ask(Request::Thaw { hosts })
}

fn froze(hosts: &[&str]) -> Response {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    Response::Froze { hosts }
}

#[track_caller]
fn hindered_by(response: Response) -> Vec<String> {
    match response {
        Response::Plan {
            plan: Some(plan), ..
        } => plan.hindered_by,
        other => panic!("no plan: {other:?}"),
    }
}

#[test]
fn frozen_job_blocks_plan_until_thaw() {
    let mut cluster = cluster(Mode::Manual);
    assert_eq!(freeze(&mut cluster, &["h1"]), froze(&["h1", "h5"]));
    let links = vec!["leaf0-spine0".to_owned()];
    let why = hindered_by(cluster.ask(Request::Drain { links }));
    assert_eq!(why.len(), 1, "{why:?}");
    assert!(
        why[0].contains("which the frozen job of h1 uses; `reweave job thaw h1` allows it"),
        "{why:?}"
    );
    let generation = cluster
        .core
        .state()
        .rollouts()
        .next()
        .unwrap()
        .plan
        .generation;
    let refused = cluster.ask(Request::Apply { generation });
    assert_eq!(refused, Response::Refused(Refused::Unfit { reasons: why }));
    assert_eq!(cluster.installs_sent(), 0);
    assert_eq!(thaw(&mut cluster, "h5"), froze(&["h1", "h5"]));
    cluster.apply(generation);
    cluster.run_until_ended(1);
    assert_eq!(cluster.network.uplink(&cluster.flow("h2")), "leaf0-spine1");
}

/// The frozen job uses nothing of what the plan changes.
#[test]
fn plan_beside_frozen_job_is_applied() {
    let mut cluster = cluster(Mode::Manual);
    cluster.network.answer(cluster.flow("h2"), 1);
    cluster.run_for(SETTLE_TIME);
    assert_eq!(freeze(&mut cluster, &["h2"]), froze(&["h2", "h6"]));
    let planned = cluster.ask(Request::Plan);
    assert_eq!(hindered_by(planned), Vec::<String>::new());
    let generation = cluster.plan();
    cluster.apply(generation);
    cluster.run_until_ended(1);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    assert_eq!(cluster.network.uplink(&cluster.flow("h2")), "leaf0-spine1");
}

#[test]
fn policy_spares_frozen_job_with_reason() {
    let mut cluster = Cluster::on(Network::new(2, 3), Mode::Auto);
    let hosts = ["h0", "h3"];
    assert_eq!(freeze(&mut cluster, &hosts), froze(&hosts));
    for (from, to, port) in [("h0", "h3", 1000), ("h1", "h4", 1001)] {
        cluster.network.start(from, to, port, 0);
    }
    cluster.run_for(10 * SETTLE_TIME);
    assert_eq!(cluster.installs_sent(), 0);
    let why = status(&mut cluster).waits_because.unwrap();
    assert!(why.contains("which the frozen job of h0 uses"), "{why}");
    thaw(&mut cluster, "h0");
    cluster.run_until_ended(1);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
}

#[test]
fn freeze_survives_leader_change() {
    let mut cluster = cluster(Mode::Manual);
    freeze(&mut cluster, &["h0"]);
    freeze(&mut cluster, &["h0", "h4"]);
    cluster.restart();
    cluster.reconnect();
    cluster.run_for(SETTLE_TIME);
    let frozen = status(&mut cluster).frozen;
    let [only] = &frozen[..] else {
        panic!("once: {frozen:?}")
    };
    assert_eq!(
        (&only.hosts[..], &only.by[..]),
        (&["h0".to_owned(), "h4".to_owned()][..], "ada")
    );
}

#[test]
fn host_without_job_cannot_be_frozen() {
    let mut cluster = cluster(Mode::Manual);
    let host = "h7".to_owned();
    let idle = freeze(&mut cluster, &["h7"]);
    assert_eq!(idle, Response::Refused(Refused::NoJob { host }));
    let name = "leaf0".to_owned();
    let switch = freeze(&mut cluster, &["leaf0"]);
    assert_eq!(switch, Response::Refused(Refused::NoSuchHost { name }));
    let warm = thaw(&mut cluster, "h0");
    assert_eq!(warm, Response::Refused(Refused::NothingToChange));
}

/// The frozen job's packets are lost anyway.
#[test]
fn dead_path_is_repaired_under_freeze() {
    let mut cluster = Cluster::on(Network::new(2, 3), Mode::Auto);
    for (from, to, port) in [("h0", "h3", 1000), ("h1", "h4", 1001)] {
        cluster.network.start(from, to, port, 0);
    }
    cluster.run_until_ended(1);
    let moved = cluster.core.state().in_force().pins[0].flow;
    for hosts in [["h0", "h3"], ["h1", "h4"]] {
        assert_eq!(freeze(&mut cluster, &hosts), froze(&hosts));
    }
    let up = cluster.network.uplink(&moved);
    let spine = up.strip_prefix("leaf0-").unwrap();
    cluster.network.fail("leaf0", spine);
    cluster.run_until_ended(2);
    assert!(cluster.core.state().in_force().pins.is_empty());
}
