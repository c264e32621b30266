//! A run that was written down leads to the same decisions when it is lived through again.

use std::fs;
use std::process::{Command, Output};

use libtest_mimic::Trial;
use reweave_tests::{Leadership, Stage};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, collide, ended, led, must};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "recorded_run_replays_byte_for_byte",
        STAGE_NEEDS,
        replayed,
    )]
}

fn replayed() {
    let mut stage = led(&Leadership {
        auto: true,
        record: Some("run.jsonl".to_owned()),
        ..Leadership::without_rate_rollback()
    });
    let job = collide(&stage);
    ended(&stage);
    must(job.stop());
    assert_eq!(must(must(stage.coordinator()).end()), 0);

    let recording = fs::read_to_string(stage.path("run.jsonl")).expect("it was made");
    let effects: Vec<_> = recording
        .lines()
        .filter(|line| line.starts_with("{\"effect\""))
        .collect();
    let replay = replay(&stage, "run.jsonl");
    let said = String::from_utf8_lossy(&replay.stderr);
    assert_eq!(replay.status.code(), Some(0), "{said}");
    let replayed = String::from_utf8_lossy(&replay.stdout).into_owned();
    assert_eq!(replayed.lines().collect::<Vec<_>>(), effects);
    for decided in [
        "plan_proposed",
        "plan_approved",
        "step_intent",
        "acked",
        "verified",
    ] {
        assert!(replayed.contains(decided), "nothing was {decided}");
    }
    eprint!("{said}");
    an_altered_recording_is_noticed(&stage, &recording);
}

/// What was kept would have been rolled back.
fn an_altered_recording_is_noticed(stage: &Stage, recording: &str) {
    let is_verified = |line: &str| line.contains("\"verified\"");
    let altered: Vec<_> = recording
        .lines()
        .map(|line| {
            if is_verified(line) {
                line.replacen("\"commit\"", "{\"roll_back\":{\"reasons\":[]}}", 1)
            } else {
                line.to_owned()
            }
        })
        .collect();
    let altered = altered.join("\n") + "\n";
    assert_ne!(altered, recording);
    fs::write(stage.path("altered.jsonl"), altered).expect("a file can be made");
    let replay = replay(stage, "altered.jsonl");
    assert_eq!(replay.status.code(), Some(1), "{replay:?}");
    let line = recording
        .lines()
        .position(is_verified)
        .expect("there is one")
        + 1;
    let said = String::from_utf8_lossy(&replay.stderr);
    assert!(
        said.contains(&format!("altered.jsonl:{line}: the run had")),
        "{said}"
    );
}

fn replay(stage: &Stage, name: &str) -> Output {
    let mut command = Command::new(stage.programs().coordinator());
    let output = command.arg("replay").arg(stage.path(name)).output();
    output.expect("the coordinator can be run")
}
