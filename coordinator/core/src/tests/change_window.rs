//! Change windows. The clock of these tests starts on a Thursday at midnight.

use std::time::Duration;

use reweave_common::operator::{Mode, Refused, Request, Response};

use super::cluster::Cluster;
use super::network::Network;
use super::scene::{SETTLE_TIME, moved, status};
use crate::{Outcome, Policy};

/// Two flows meet on one spine, and changes are allowed in these hours.
fn cluster(mode: Mode, hours: &str) -> Cluster {
    let policy = Policy {
        mode,
        changes_only: vec![hours.parse().unwrap()],
        ..Policy::default()
    };
    let mut cluster = Cluster::with(Network::new(2, 3), policy);
    for (from, to, port) in [("h0", "h3", 1000), ("h1", "h4", 1001)] {
        cluster.network.start(from, to, port, 0);
    }
    cluster.run_for(SETTLE_TIME);
    cluster
}

#[test]
fn apply_waits_for_change_window() {
    let mut cluster = cluster(Mode::Manual, "Thu 02:00-03:00");
    let generation = cluster.plan();
    for request in [
        Request::Apply { generation },
        Request::ApplyAnyway { generation },
    ] {
        let Response::Refused(Refused::OutOfHours { hours, opens_in_s }) = cluster.ask(request)
        else {
            panic!("it is midnight")
        };
        assert_eq!(hours, "Thu 02:00-03:00");
        assert!((7100..=7200).contains(&opens_in_s), "{opens_in_s}");
    }
    let anyway = false;
    let now = cluster.ask(Request::ApplyNow { generation, anyway });
    assert_eq!(now, Response::ApplyStarted { generation });
    cluster.run_until_ended(1);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
}

#[test]
fn apply_runs_inside_change_window() {
    let mut cluster = cluster(Mode::Manual, "Mon-Fri 23:00-01:00");
    let generation = cluster.plan();
    cluster.apply(generation);
    cluster.run_until_ended(1);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
}

#[test]
fn policy_plan_waits_for_change_window() {
    let mut cluster = cluster(Mode::Auto, "Thu 00:01-02:00");
    cluster.run_for(Duration::from_secs(20));
    assert_eq!(cluster.installs_sent(), 0);
    assert!(cluster.network.flows.contains_key(&moved(&cluster)));
    let why = status(&mut cluster).waits_because.unwrap();
    assert!(
        why.starts_with("change windows are Thu 00:01-02:00 (UTC), the next in 1 min"),
        "{why}"
    );
    let waited = cluster.run_until_ended(1);
    assert!(waited > Duration::from_secs(30), "{waited:?}");
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
}

/// A flow that is pinned to a dead path cannot wait.
#[test]
fn dead_path_is_repaired_any_time() {
    let mut cluster = cluster(Mode::Auto, "Thu 00:00-00:01");
    cluster.run_until_ended(1);
    let moved = cluster.core.state().in_force().pins[0].flow;
    cluster.run_for(Duration::from_mins(1));
    let up = cluster.network.uplink(&moved);
    cluster
        .network
        .fail("leaf0", up.strip_prefix("leaf0-").unwrap());
    cluster.run_until_ended(2);
    assert!(cluster.core.state().in_force().pins.is_empty());
}
