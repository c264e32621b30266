//! Full links that no plan relieves.

use reweave_common::health::Signal;
use reweave_common::operator::{Mode, Request, Response};

use super::diagnosis::{health, say};
use super::scene::{SETTLE_TIME, collision};

#[test]
fn missing_plan_names_unusable_uplink() {
    let (mut cluster, _) = collision(Mode::Manual);
    cluster.network.fail("leaf0", "spine1");
    let leaf = cluster.network.node("leaf0");
    let interface = cluster.network.interface(leaf, "spine1");
    let flap = health(&interface, Signal::LinkDowns, 1);
    say(&mut cluster, "leaf0", vec![flap]);
    cluster.run_for(SETTLE_TIME);
    let response = cluster.ask(Request::Plan);
    let Response::Plan {
        plan: None,
        not_seen,
    } = response
    else {
        panic!("a plan: {response:?}")
    };
    let [why] = &not_seen.doubts[..] else {
        panic!("one reason: {not_seen:?}")
    };
    let expected = "% full and stays as it is: leaf0-spine1 is down (NIC flap)";
    assert!(
        why.starts_with("leaf0 > spine0 is ") && why.ends_with(expected),
        "{why}"
    );
}
