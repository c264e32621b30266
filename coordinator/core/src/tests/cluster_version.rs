//! The cluster version is lowered before coordinators are downgraded, and raised again.

use reweave_check::{Overload, Unsound};
use reweave_common::member::Role;
use reweave_common::operator::{Refused, Request, Response, Steering};
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::scene::*;
use crate::{Author, Change, Input, Reason};

fn set(cluster: &mut Cluster, minor: u16) -> Response {
    let minor = Some(minor);
    cluster.ask(Request::ClusterVersion { minor })
}

fn version(cluster: &Cluster) -> u16 {
    cluster.core.state().cluster_version()
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
    let (mut cluster, _, generation) = planned();
    let lowered = Response::ClusterVersion {
        minor: 0,
        lowered_by: Some("ada".to_owned()),
    };
    assert_eq!(set(&mut cluster, 0), lowered);
    let how = Steering::Abort;
    let abort = Request::Steer { generation, how };
    let too_low = Refused::ClusterVersionTooLow { needed: 1, has: 0 };
    assert_eq!(cluster.ask(abort), Response::Refused(too_low));
    for _ in 0..2 {
        cluster.handle(Input::MinVersion { minor: 1 });
        cluster.run_for(SETTLE_TIME);
        assert_eq!(version(&cluster), 0);
        cluster.restart();
        cluster.reconnect();
    }
    assert_eq!(
        cluster.ask(Request::ClusterVersion { minor: None }),
        lowered
    );
    let why = why_it_stays(set(&mut cluster, 1));
    assert!(
        why.contains("does not speak 1.1"),
        "no member has been heard: {why}"
    );
    cluster.handle(Input::MinVersion { minor: 1 });
    let raised = Response::ClusterVersion {
        minor: 1,
        lowered_by: None,
    };
    assert_eq!(set(&mut cluster, 1), raised);
    assert_eq!(version(&cluster), 1);
}

/// The later version may be confirmed by the next input or by the previous one.
#[test]
fn rising_version_is_never_promised() {
    let (mut cluster, ..) = planned();
    cluster.founded = 0;
    cluster.restart();
    cluster.reconnect();
    let why = why_it_stays(set(&mut cluster, 0));
    assert!(why.contains("rises by itself"), "{why}");
    assert_eq!(version(&cluster), 0);
    let now = cluster.now();
    let lowered = Response::ClusterVersion {
        minor: 0,
        lowered_by: Some("ada".to_owned()),
    };
    // Neither is decided before both were handled.
    cluster.core.handle(now, Input::MinVersion { minor: 1 });
    for _ in 0..2 {
        assert_eq!(set(&mut cluster, 0), lowered);
        cluster.run_for(SETTLE_TIME);
        assert_eq!(version(&cluster), 0);
    }
    let raised = Response::ClusterVersion {
        minor: 1,
        lowered_by: None,
    };
    assert_eq!(set(&mut cluster, 1), raised);
    assert_eq!(set(&mut cluster, 1), raised);
}

/// The plan may be in a phase that the previous release does not know.
#[test]
fn running_plan_keeps_cluster_version() {
    let (mut cluster, _, plan) = planned();
    cluster.apply(plan);
    let why = why_it_stays(set(&mut cluster, 0));
    assert!(
        why.contains(&format!("plan {plan} is in progress")),
        "{why}"
    );
    let by = Author::Policy;
    cluster.append(Change::ClusterVersionLowered { minor: 0, by });
    assert_eq!(version(&cluster), 1);
    cluster.run_until_ended(1);
    let lowered = set(&mut cluster, 0);
    assert!(
        matches!(lowered, Response::ClusterVersion { minor: 0, .. }),
        "{lowered:?}"
    );
}

/// The previous release cannot read that reason.
#[test]
fn lowered_version_forgets_later_reasons() {
    let (mut cluster, _, generation) = planned();
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
    cluster.founded = 2;
    cluster.restart();
    cluster.reconnect();
    let why = why_it_stays(set(&mut cluster, 0));
    assert!(why.contains("by one release only"), "{why}");
    assert_eq!(version(&cluster), 2);
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
