//! A collision and a plan to repair it, and common checks of a cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::operator::{Mode, Phase, Request, Response, Status};
use reweave_common::plan::Generation;

use super::cluster::Cluster;
use crate::{Outcome, Reason, Rollout};

pub(super) const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Two flows that meet on the way to the first spine, while the other one is idle.
pub(super) fn collision(mode: Mode) -> (Cluster, [FlowKey; 2]) {
    let mut cluster = Cluster::new(mode);
    let flows = [("h0", "h3", 1000), ("h1", "h4", 1001)]
        .map(|(from, to, port)| cluster.network.start(from, to, port, 0));
    (cluster, flows)
}

/// The same, with a plan to repair it.
pub(super) fn planned() -> (Cluster, [FlowKey; 2], Generation) {
    let (mut cluster, flows) = collision(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    let plan = cluster.plan();
    (cluster, flows, plan)
}

pub(super) fn status(cluster: &mut Cluster) -> Status {
    match cluster.ask(Request::Status) {
        Response::Status(status) => *status,
        other => panic!("no status: {other:?}"),
    }
}

pub(super) fn nothing_planned(cluster: &mut Cluster) -> bool {
    matches!(
        cluster.ask(Request::Plan),
        Response::Plan { plan: None, .. }
    )
}

pub(super) fn reasons(cluster: &Cluster) -> Vec<Reason> {
    match cluster.last_outcome() {
        Outcome::Committed => vec![],
        Outcome::Refused { reasons }
        | Outcome::Withdrawn { reasons }
        | Outcome::RolledBack { reasons, .. } => reasons.clone(),
    }
}

pub(super) fn moved(cluster: &Cluster) -> FlowKey {
    cluster.core.state().rollouts().next().unwrap().plan.moves[0].flow
}

pub(super) fn assert_rolled_back(cluster: &Cluster) {
    assert!(
        matches!(cluster.last_outcome(), Outcome::RolledBack { .. }),
        "{cluster:?}"
    );
    assert!(cluster.core.state().in_force().pins.is_empty());
    cluster.assert_one_generation();
}

pub(super) fn assert_nothing_installed(cluster: &Cluster) {
    assert!(
        cluster
            .network
            .switches
            .values()
            .all(|switch| switch.install_count == 0)
    );
    cluster.assert_one_generation();
}

pub(super) fn phase(cluster: &Cluster) -> Option<Phase> {
    let mut rollouts = cluster.core.state().rollouts();
    rollouts.next().map(Rollout::shown_phase)
}

/// Sets this key of the policy.
#[track_caller]
pub(super) fn set_policy(cluster: &mut Cluster, key: &str, value: &str) {
    let settings = BTreeMap::from([(key.to_owned(), Some(value.to_owned()))]);
    let expected = None;
    let response = cluster.ask(Request::PolicySet { settings, expected });
    assert!(matches!(response, Response::Policy(_)), "{response:?}");
}
