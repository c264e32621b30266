//! Switches whose software supports no pins or no weights.

use std::time::Duration;

use reweave_common::hardware::Lack;
use reweave_common::operator::{Mode, Refused, Request, Response};

use super::cluster::Cluster;
use super::network::Network;
use super::scene::{SETTLE_TIME, assert_nothing_installed, collision, nothing_planned, status};
use crate::Outcome;

const UNPINNED_REASON: &str = "leaf0 cannot pin flows: SONiC forwards in hardware";

/// The path past the second spine has half the capacity.
const UNEVEN_FABRIC: &str = "
kind = \"graph\"
node = [
    { name = \"h0\", role = \"host\" }, { name = \"h1\", role = \"host\" },
    { name = \"leaf0\", role = \"switch\" }, { name = \"leaf1\", role = \"switch\" },
    { name = \"spine0\", role = \"switch\" }, { name = \"spine1\", role = \"switch\" },
]
link = [
    { a = \"h0\", b = \"leaf0\", gbps = 0.2 }, { a = \"h1\", b = \"leaf1\", gbps = 0.2 },
    { a = \"leaf0\", b = \"spine0\", gbps = 0.1 }, { a = \"leaf0\", b = \"spine1\", gbps = 0.1 },
    { a = \"leaf1\", b = \"spine0\", gbps = 0.1 }, { a = \"leaf1\", b = \"spine1\", gbps = 0.05 },
]
";

fn lack(cluster: &mut Cluster, switch: &str, measurement: &str, because: &str) {
    let node = cluster.network.node(switch);
    let lack = Lack {
        measurement: measurement.to_owned(),
        because: because.to_owned(),
        remedy: "none".to_owned(),
    };
    cluster.network.lacks.entry(node).or_default().push(lack);
}

#[test]
fn no_pin_is_proposed_where_unpinnable() {
    let (mut cluster, _) = collision(Mode::Auto);
    lack(
        &mut cluster,
        "leaf0",
        Lack::HARDWARE_PINS,
        "SONiC forwards in hardware",
    );
    cluster.run_for(Duration::from_secs(20));
    assert_eq!(cluster.core.state().rollouts().count(), 0);
    assert_eq!(cluster.core.state().ended(), 0);
    assert_nothing_installed(&cluster);
    let waits = status(&mut cluster).waits_because.unwrap();
    assert!(waits.contains(UNPINNED_REASON), "{waits}");
    let Response::Findings(found) = cluster.ask(Request::Diagnose) else {
        panic!("no findings")
    };
    assert_eq!(found.findings.len(), 1, "they collide all the same");
    assert!(
        found.not_seen.doubts.contains(&UNPINNED_REASON.to_owned()),
        "{:?}",
        found.not_seen
    );
    let Response::Plan { plan, not_seen } = cluster.ask(Request::Plan) else {
        panic!("no answer")
    };
    assert_eq!(
        (plan, not_seen.doubts),
        (None, vec![UNPINNED_REASON.to_owned()])
    );
    cluster.network.lacks.clear();
    cluster.run_until_ended(1);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
}

/// The switch on the other side chooses no path for these flows.
#[test]
fn unpinnable_switch_elsewhere_hinders_nothing() {
    let (mut cluster, _) = collision(Mode::Manual);
    lack(
        &mut cluster,
        "leaf1",
        Lack::HARDWARE_PINS,
        "SONiC forwards in hardware",
    );
    cluster.run_for(SETTLE_TIME);
    assert!(!nothing_planned(&mut cluster));
    let Response::Plan { not_seen, .. } = cluster.ask(Request::Plan) else {
        panic!("no answer")
    };
    assert!(not_seen.is_nothing(), "{not_seen:?}");
}

#[test]
fn weights_are_refused_where_unweighable() {
    let mut cluster = Cluster::on(Network::of(UNEVEN_FABRIC), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    let weigh = Request::Weigh { by_worth: true };
    let planned = cluster.ask(weigh.clone());
    assert!(
        matches!(planned, Response::Plan { plan: Some(_), .. }),
        "{planned:?}"
    );
    lack(&mut cluster, "leaf0", Lack::WEIGHTS, "FRR takes none");
    cluster.run_for(SETTLE_TIME);
    let reasons = vec!["leaf0 cannot weight routes: FRR takes none".to_owned()];
    assert_eq!(
        cluster.ask(weigh),
        Response::Refused(Refused::Unfit { reasons })
    );
}
