//! The second story: between plan and change another job takes the uplink that the plan counts on.

use reweave_common::operator::Mode;
use reweave_core::Outcome;
use reweave_tests::world::network::forwarding::Kernels;
use reweave_tests::world::wire::Weather;

use crate::scene::{LOOK, apply, collided, ended, planned, rates_mbps};

/// How far a rate may be from what it was.
const WANDER: f64 = 0.1;

#[test]
fn a_prediction_that_is_wrong_is_taken_back_to_exactly_the_old_rules() {
    let mut world = collided(Mode::Manual, 1, Weather::FAIR);
    let plan = planned(&mut world);
    let rules = |kernels: &Kernels| -> Vec<_> {
        kernels
            .values()
            .map(|kernel| kernel.rules().to_vec())
            .collect()
    };
    let held = rules(&world.network.kernels);
    world.start_job("late");
    let flows = [world.jobs.flows("train"), world.jobs.flows("late")].concat();
    let before = rates_mbps(&mut world, &flows, LOOK);

    apply(&mut world, plan);
    world.run_until("pinned", |world| rules(&world.network.kernels) != held);
    let ended = ended(&mut world, 1);
    let Outcome::RolledBack {
        generation,
        reasons,
    } = ended.outcome
    else {
        world.fail("not taken back")
    };
    assert!(!reasons.is_empty());
    assert_eq!(generation, plan.next(), "agents refuse old ones");
    assert_eq!(rules(&world.network.kernels), held);
    assert_eq!(world.laws.looks.taken_back, 1);
    let after = rates_mbps(&mut world, &flows, LOOK);
    for (before, after) in before.iter().zip(&after) {
        assert!((after / before - 1.0).abs() < WANDER, "{before} -> {after}");
    }
    world.look_at_rest();
}
