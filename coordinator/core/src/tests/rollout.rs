//! A plan from the collision to its end.

use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::operator::{Mode, Request, Response};

use super::cluster::Cluster;
use crate::Outcome;

const A_WHILE: Duration = Duration::from_secs(2);

/// Two flows that meet on the way to the first spine, while the other one is idle.
fn collision(mode: Mode) -> (Cluster, [FlowKey; 2]) {
    let mut cluster = Cluster::new(mode);
    let flows = [("h0", "h3", 1000), ("h1", "h4", 1001)]
        .map(|(from, to, port)| cluster.network.start(from, to, port, 0));
    (cluster, flows)
}

#[test]
fn a_collision_is_found_planned_applied_verified_and_committed() {
    let (mut cluster, flows) = collision(Mode::Manual);
    cluster.run_for(A_WHILE);
    let Response::Findings(found) = cluster.ask(Request::Diagnose) else {
        panic!()
    };
    assert_eq!(found.findings.len(), 1, "{found:?}");
    let plan = cluster.plan();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert_ne!(
        cluster.network.uplink(&flows[0]),
        cluster.network.uplink(&flows[1])
    );
    cluster.assert_one_generation();
}
