//! The cluster version is lowered before coordinators are downgraded, and raised again.

use std::collections::BTreeMap;

use reweave_check::{Overload, Unsound};
use reweave_common::member::Role;
use reweave_common::operator::{Refused, Request, Response};
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::scene::*;
use crate::{Author, Change, Input, LATEST_MINOR, Reason};

const PREVIOUS_MINOR: u16 = LATEST_MINOR - 1;

fn set(cluster: &mut Cluster, minor: u16) -> Response {
    let minor = Some(minor);
    cluster.ask(Request::ClusterVersion { minor })
}

fn version(cluster: &Cluster) -> u16 {
    cluster.core.state().cluster_version()
}

/// The answer to the operator who lowers it.
fn lowered() -> Response {
    Response::ClusterVersion {
        minor: PREVIOUS_MINOR,
        lowered_by: Some("ada".to_owned()),
    }
}

fn raised() -> Response {
    Response::ClusterVersion {
        minor: LATEST_MINOR,
        lowered_by: None,
    }
}

/// The coordinators start at this version.
fn founded_at(minor: u16) -> Cluster {
    let (mut cluster, ..) = planned();
    cluster.founded = minor;
    cluster.restart();
    cluster.reconnect();
    cluster
}

/// A request whose entry came with the latest version.
fn policy_set() -> Request {
    let least_gain = ("least_gain".to_owned(), Some("0.2".to_owned()));
    Request::PolicySet {
        settings: BTreeMap::from([least_gain]),
        expected: None,
    }
}

#[track_caller]
fn why_it_stays(response: Response) -> String {
    match response {
        Response::Refused(Refused::VersionStays { why }) => why,
        other => panic!("{other:?}"),
    }
}

/// All coordinators read a later version, under any leader.
#[test]
fn lowered_version_waits_for_operator() {
    let (mut cluster, ..) = planned();
    assert_eq!(set(&mut cluster, PREVIOUS_MINOR), lowered());
    let too_low = Refused::ClusterVersionTooLow {
        needed: LATEST_MINOR,
        has: PREVIOUS_MINOR,
    };
    assert_eq!(cluster.ask(policy_set()), Response::Refused(too_low));
    let minor = LATEST_MINOR;
    for _ in 0..2 {
        cluster.handle(Input::MinVersion { minor });
        cluster.run_for(SETTLE_TIME);
        assert_eq!(version(&cluster), PREVIOUS_MINOR);
        cluster.restart();
        cluster.reconnect();
    }
    assert_eq!(
        cluster.ask(Request::ClusterVersion { minor: None }),
        lowered()
    );
    let why = why_it_stays(set(&mut cluster, minor));
    assert!(
        why.contains(&format!("does not speak 1.{minor}")),
        "no member has been heard: {why}"
    );
    cluster.handle(Input::MinVersion { minor });
    assert_eq!(set(&mut cluster, minor), raised());
    assert_eq!(version(&cluster), minor);
    let response = cluster.ask(policy_set());
    assert!(matches!(response, Response::Policy(_)), "{response:?}");
}

/// The later version may be confirmed by the next input or by the previous one.
#[test]
fn rising_version_is_never_promised() {
    let mut cluster = founded_at(PREVIOUS_MINOR);
    let why = why_it_stays(set(&mut cluster, PREVIOUS_MINOR));
    assert!(why.contains("rises by itself"), "{why}");
    assert_eq!(version(&cluster), PREVIOUS_MINOR);
    let (now, minor) = (cluster.now(), LATEST_MINOR);
    // Neither is decided before both were handled.
    cluster.core.handle(now, Input::MinVersion { minor });
    for _ in 0..2 {
        assert_eq!(set(&mut cluster, PREVIOUS_MINOR), lowered());
        cluster.run_for(SETTLE_TIME);
        assert_eq!(version(&cluster), PREVIOUS_MINOR);
    }
    assert_eq!(set(&mut cluster, minor), raised());
    assert_eq!(set(&mut cluster, minor), raised());
}

/// A new cluster of several coordinators begins at 1.0, and rises to what all of them read.
#[test]
fn new_cluster_rises_to_common_version() {
    let mut cluster = founded_at(0);
    for minor in [PREVIOUS_MINOR, LATEST_MINOR] {
        cluster.handle(Input::MinVersion { minor });
        cluster.run_for(SETTLE_TIME);
        assert_eq!(version(&cluster), minor);
    }
}

/// The plan may be in a phase that the previous release does not know.
#[test]
fn running_plan_keeps_cluster_version() {
    let (mut cluster, _, plan) = planned();
    cluster.apply(plan);
    let minor = PREVIOUS_MINOR;
    let why = why_it_stays(set(&mut cluster, minor));
    assert!(
        why.contains(&format!("plan {plan} is in progress")),
        "{why}"
    );
    let by = Author::Policy;
    cluster.append(Change::ClusterVersionLowered { minor, by });
    assert_eq!(version(&cluster), LATEST_MINOR);
    cluster.run_until_ended(1);
    assert_eq!(set(&mut cluster, minor), lowered());
}

/// Coordinators of 1.0 cannot read that reason.
#[test]
fn lowered_version_forgets_later_reasons() {
    let (mut cluster, _, generation) = planned();
    cluster.founded = 1;
    cluster.restart();
    cluster.reconnect();
    let overload = Overload {
        from: "leaf0".to_owned(),
        link: "leaf0-spine1".to_owned(),
        load: Rate::from_bits_per_s(2),
        rate: Rate::from_bits_per_s(1),
    };
    let later = Reason::Unsound(Unsound::Overload(overload));
    let refused = Change::PlanRefused {
        generation,
        reasons: vec![Reason::NoSafeOrder, later.clone()],
    };
    assert_eq!(refused.needed_version(), 1);
    cluster.append(refused);
    assert_eq!(reasons(&cluster), [Reason::NoSafeOrder, later]);
    let lowered = set(&mut cluster, 0);
    assert!(
        matches!(lowered, Response::ClusterVersion { minor: 0, .. }),
        "{lowered:?}"
    );
    assert_eq!(reasons(&cluster), [Reason::NoSafeOrder]);
}

#[test]
fn version_goes_back_one_release() {
    let (mut cluster, ..) = planned();
    let why = why_it_stays(set(&mut cluster, PREVIOUS_MINOR - 1));
    assert!(why.contains("by one release only"), "{why}");
    assert_eq!(version(&cluster), LATEST_MINOR);
}

#[test]
fn viewers_cannot_set_version() {
    let minors = [None, Some(0)];
    let may = minors.map(|minor| {
        let request = Request::ClusterVersion { minor };
        (request.may_be_asked_by(Role::Viewer), request.decides())
    });
    assert_eq!(may, [(true, false), (false, true)]);
}
