//! What the driver reads, does and refuses, with the emulated optical switch at its best and at its
//! worst.

use libtest_mimic::Trial;
use serde_json::json;

use crate::LAB;
use crate::needs::trial;
use crate::scene::{Scene, Thirds};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "the_driver_reads_compares_applies_and_reverts",
            LAB,
            applies_and_reverts,
        ),
        trial(
            "the_driver_leaves_alone_what_is_not_as_expected",
            LAB,
            leaves_alone,
        ),
        trial("a_silent_switch_is_believed_when_it_has_moved", LAB, silent),
        trial("a_switch_that_moves_wrongly_is_told_of", LAB, wrong),
    ]
}

fn applies_and_reverts() {
    let scene = Scene::up();
    let read = || scene.drive(&["read", "ocs0"]);
    let [across, along] = [Thirds::Across, Thirds::Along].map(Thirds::circuits);
    assert_eq!(read(), "1-7 2-3 4-10 5-6 8-9 11-12");
    let diff = scene.drive(&["diff", "ocs0", "--desired", &along]);
    assert_eq!(diff, "-1-7 -4-10 +1-4 +7-10");
    let differs = scene.driver(&["diff", "ocs0", "--desired", &along, "--detailed-exitcode"]);
    assert_eq!(differs.status.code(), Some(3));
    assert_eq!(read(), "1-7 2-3 4-10 5-6 8-9 11-12", "a diff moves nothing");
    let held = scene.drive(&["apply", "ocs0", "--desired", &along, "--output", "json"]);
    let held: serde_json::Value = serde_json::from_str(&held).expect("JSON");
    assert_eq!(
        held,
        json!([[1, 4], [2, 3], [5, 6], [7, 10], [8, 9], [11, 12]])
    );
    assert_eq!(
        scene.drive(&["revert", "ocs0"]),
        "1-7 2-3 4-10 5-6 8-9 11-12"
    );
    assert_eq!(
        scene.drive(&["diff", "ocs0", "--desired", &across]),
        "nothing to move"
    );
}

#[track_caller]
fn refused(scene: &Scene, arguments: &[&str], code: i32, says: &str) {
    let output = scene.driver(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.starts_with("error: ") && said.contains(says), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

fn leaves_alone() {
    let scene = Scene::up();
    let along = Thirds::Along.circuits();
    let before = scene.drive(&["read", "ocs0"]);
    let apply = |desired| vec!["apply", "ocs0", "--desired", desired];
    let unexpected = [apply(&along), vec!["--expected", "1-7"]].concat();
    refused(&scene, &unexpected, 1, "which nobody expected");
    refused(&scene, &apply("1-7,7-2"), 1, "port 7 is in two circuits");
    refused(
        &scene,
        &apply("1-17"),
        1,
        "there is no port 17, only 1 to 16",
    );
    refused(
        &scene,
        &["read", "ocs1"],
        2,
        "no optical switch \"ocs1\"; it has ocs0",
    );
    refused(&scene, &["revert", "ocs0"], 2, "nothing was moved by hand");
    assert_eq!(scene.drive(&["read", "ocs0"]), before);
}

fn silent() {
    let scene = Scene::up();
    scene.goes_wrong("\"silent\"");
    let along = Thirds::Along.circuits();
    assert_eq!(
        scene.drive(&["apply", "ocs0", "--desired", &along]),
        "1-4 2-3 5-6 7-10 8-9 11-12"
    );
}

fn wrong() {
    let scene = Scene::up();
    let apply = |circuits| ["apply", "ocs0", "--desired", circuits];
    let one = format!("{},1-4", Thirds::Unused.circuits());
    scene.goes_wrong("\"wrong-port\"");
    refused(&scene, &apply(&one), 1, "which is not what it was told");
    scene.goes_wrong("null");
    let across = "1-7 2-3 4-10 5-6 8-9 11-12";
    assert_eq!(scene.drive(&["revert", "ocs0"]), across);
    let along = Thirds::Along.circuits();
    scene.goes_wrong("\"partial\"");
    refused(&scene, &apply(&along), 1, "which is not what it was told");
    scene.goes_wrong("null");
    assert_eq!(scene.drive(&["revert", "ocs0"]), across);
}
