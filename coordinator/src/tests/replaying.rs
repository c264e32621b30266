//! Recorded runs, lived through again: as they were, altered, and cut short.

use std::collections::BTreeMap;
use std::fs;

use reweave_common::operator::{Request, Response};

use super::scene::{Scene, lines_with};
use crate::intake::Event;
use crate::replay::{ReplayError, Replayed, replay_to};

/// A run in which a plan was made and approved; its recording.
fn recorded() -> (Scene, String) {
    let mut scene = Scene::new();
    scene.collide();
    let generation = reweave_common::plan::Generation(1);
    let _answers = [
        scene.ask(Request::Plan),
        scene.ask(Request::Apply { generation }),
        scene.ask(Request::History { before: None }),
    ];
    scene.put(Event::Tick);
    let alone = scene.alone();
    scene.run(alone).unwrap();
    let text = fs::read_to_string(scene.recording()).unwrap();
    (scene, text)
}

fn replayed(scene: &Scene, text: &str) -> Result<(Replayed, String), ReplayError> {
    let path = scene.folder.path().join("altered.jsonl");
    fs::write(&path, text).unwrap();
    let mut out = Vec::new();
    let replayed = replay_to(&path, &mut out)?;
    Ok((replayed, String::from_utf8(out).unwrap()))
}

#[test]
fn recorded_run_replays_same_effects() {
    let (scene, text) = recorded();
    let (replayed, effects) = replayed(&scene, &text).unwrap();
    let recorded = lines_with(&scene.recording(), "{\"effect\"");
    assert_eq!(effects.lines().collect::<Vec<_>>(), recorded);
    assert_eq!(replayed.effects, recorded.len());
    for decided in ["plan_proposed", "plan_approved", "step_intent", "install"] {
        assert!(effects.contains(decided), "{decided}\n{effects}");
    }
}

/// A leader begins with the settings of the log, which its file does not have.
#[test]
fn replay_begins_with_logged_policy() {
    let mut scene = Scene::new();
    let settings = BTreeMap::from([("least_gain".to_owned(), Some("0.25".to_owned()))]);
    let expected = None;
    let mut set = scene.ask(Request::PolicySet { settings, expected });
    let alone = scene.alone();
    scene.run(alone).unwrap();
    let response = set.try_recv();
    assert!(matches!(response, Ok(Response::Policy(_))), "{response:?}");

    let mut again = scene.again();
    let _answer = again.ask(Request::Policy);
    let alone = again.alone();
    again.run(alone).unwrap();
    assert_eq!(lines_with(&again.recording(), "{\"tail\"").len(), 1);
    let text = fs::read_to_string(again.recording()).unwrap();
    let (_, effects) = replayed(&again, &text).unwrap();
    assert!(effects.contains("0.25"), "{effects}");
}

#[test]
fn altered_measurement_diverges_at_named_line() {
    let (scene, text) = recorded();
    let altered = text.replacen("\"bits_per_s\":99000000", "\"bits_per_s\":1000000", 99);
    let altered = altered.replacen("99000000", "1000000", 99);
    assert_ne!(altered, text);
    let error = replayed(&scene, &altered).unwrap_err();
    let ReplayError::Differs { line, .. } = &error else {
        panic!("{error}");
    };
    assert!(text.lines().nth(line - 1).is_some());
    assert!(error.to_string().contains("altered.jsonl:"), "{error}");
}

#[test]
fn removed_or_added_effect_is_noticed() {
    let (scene, text) = recorded();
    let lines: Vec<_> = text.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.contains("plan_approved"))
        .unwrap();
    let mut fewer = lines.clone();
    fewer.remove(at);
    let mut more = lines.clone();
    more.insert(at, lines[at]);
    for altered in [fewer, more] {
        let error = replayed(&scene, &(altered.join("\n") + "\n")).unwrap_err();
        assert!(matches!(error, ReplayError::Differs { .. }), "{error}");
    }
}

#[test]
fn missing_effect_before_input_is_noticed() {
    let (scene, text) = recorded();
    let lines: Vec<_> = text.lines().collect();
    let is_last =
        |pair: &[&str]| pair[0].starts_with("{\"effect\"") && !pair[1].starts_with("{\"effect\"");
    let at = lines.windows(2).position(is_last).unwrap();
    let mut fewer = lines.clone();
    fewer.remove(at);
    let error = replayed(&scene, &(fewer.join("\n") + "\n")).unwrap_err();
    let ReplayError::Differs { recorded, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(recorded, "no further effect");
}

#[test]
fn recording_without_run_is_refused() {
    let (scene, text) = recorded();
    for cut in ["", "garbage", &text[..100]] {
        let error = replayed(&scene, cut).unwrap_err();
        assert!(matches!(error, ReplayError::NoRun { .. }), "{cut}: {error}");
        assert!(error.is_bad_input());
    }
}

/// The run was killed: the last line is not whole, or effects of the last input are missing.
#[test]
fn truncated_recording_replays() {
    let (scene, text) = recorded();
    for cut in [1, 7, 50, 200] {
        let (replayed, _) = replayed(&scene, &text[..text.len() - cut]).unwrap();
        assert!(replayed.inputs > 0);
    }
}

#[test]
fn invalid_recording_names_its_line() {
    let (scene, text) = recorded();
    let broken = text.replacen("{\"input\"", "{\"inptu\"", 3);
    let error = replayed(&scene, &broken).unwrap_err();
    assert!(
        matches!(error, ReplayError::NotALine { line: 3, .. }),
        "{error}"
    );
    assert!(error.is_bad_input());
    let (_, headless) = text.split_once('\n').unwrap();
    let error = replayed(&scene, headless).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(":1: a leader appears before the start of the run"),
        "{error}"
    );
}
