//! A circuit is taken away on the device itself: the coordinator learns of it, and a plan sets the circuit again.

use std::time::Duration;

use reweave_common::circuit::CircuitSet;
use reweave_common::fabric::Circuits;
use reweave_common::ids::OpticalId;
use reweave_common::operator::{Request, Response};
use reweave_core::Outcome;
use reweave_sim_cluster::circuits::world::World;

use crate::maintained::{carry_out, rings};

/// More than a message takes.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

fn alarms(world: &mut World) -> Vec<String> {
    match world.ask(Request::Status) {
        Some(Response::Status(status)) => status.alarms,
        other => panic!("no status: {other:?}"),
    }
}

fn in_force(world: &World, optical: OpticalId) -> Option<&CircuitSet> {
    world.state()?.in_force().circuits.get(&optical)
}

#[test]
fn lost_circuit_is_set_again() {
    let mut world = World::new(rings(2), 1);
    // No packets pass the second switch, so none are lost.
    let links = vec!["ocs1".to_owned()];
    let drain = world.ask(Request::Drain { links });
    carry_out(&mut world, drain.expect("an answer"));
    let optical = OpticalId::from_index(1);
    let whole = world.cluster.driver(optical).device.circuits.clone();
    let left: CircuitSet = whole.iter().skip(1).collect();
    world.change_by_hand(optical, left.clone());
    let is_known = |world: &World| in_force(world, optical) == Some(&left);
    assert!(
        world.run_until(REPORT_TIMEOUT, is_known),
        "{:?}",
        world.state()
    );
    let said = alarms(&mut world);
    let lost = "ocs1 has lost circuit 1-6, which is in the fabric's file";
    assert!(said.iter().any(|it| it.starts_with(lost)), "{said:?}");
    world.rewire(&Circuits::from([(optical, whole.clone())]));
    assert!(world.run_until(Duration::from_mins(1), |world| !world.is_busy()));
    assert_eq!(world.outcome(), Some(Outcome::Committed));
    assert_eq!(world.cluster.driver(optical).device.circuits, whole);
    let said = alarms(&mut world);
    assert!(!said.iter().any(|it| it.contains("ocs1")), "{said:?}");
}
