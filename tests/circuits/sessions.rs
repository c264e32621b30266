//! Sessions over circuits that move: routes leave the fibres first, then the mirrors move, then the routes return.

use libtest_mimic::Trial;

use crate::LAB_NEEDS;
use crate::needs::trial;
use crate::scene::{Over, Scene, Thirds};
use crate::session_jobs::Running;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "sessions_outlive_circuits_that_move",
        LAB_NEEDS,
        sessions_outlive,
    )]
}

/// How often the circuits move there and back.
const MOVE_ROUNDS: usize = 5;

fn sessions_outlive() {
    let scene = Scene::up(Over::Restconf);
    scene.route(Thirds::Across);
    let running = Running::begin(&scene.0);
    let (mut from, before) = (Thirds::Across, scene.thrown_away());
    for to in [Thirds::Along, Thirds::Across]
        .into_iter()
        .cycle()
        .take(2 * MOVE_ROUNDS)
    {
        scene.route(Thirds::Unused);
        scene.wait_until_drained();
        let (expected, desired) = (from.circuits(), to.circuits());
        scene.drive(&[
            "apply",
            "ocs0",
            "--expected",
            &expected,
            "--desired",
            &desired,
        ]);
        scene.wait_for_light();
        scene.route(to);
        running.go_on(10);
        from = to;
    }
    assert_eq!(scene.thrown_away(), before, "packets were thrown away");
    running.end_without_loss();
}
