//! A replay of a recorded run makes the same decisions, byte for byte.

use std::sync::Arc;
use std::time::Duration;

use reweave_common::operator::{Mode, Request};

use super::cluster::Cluster;
use super::mock_switch::Mood;
use crate::{Effect, Recording};

/// A run with a kept change, a rolled back one, requests, and a refusing switch.
fn eventful() -> Cluster {
    let mut cluster = Cluster::new(Mode::Auto);
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.network.start("h1", "h4", 1001, 0);
    cluster.run_until_ended(1);
    cluster.network.switch("leaf1").mood = Mood::Refuses;
    cluster.network.start("h3", "h0", 1002, 0);
    cluster.network.start("h4", "h1", 1003, 0);
    cluster.run_until_ended(2);
    for request in [
        Request::Status,
        Request::Diagnose,
        Request::Plan,
        Request::History { before: None },
    ] {
        cluster.ask(request);
        cluster.run_for(Duration::from_millis(500));
    }
    cluster
}

fn bytes(effects: &[Effect]) -> Vec<u8> {
    postcard::to_stdvec(effects).unwrap()
}

#[test]
fn recorded_run_replays_byte_for_byte() {
    let cluster = eventful();
    let written = postcard::to_stdvec(&cluster.recording).unwrap();
    #[expect(clippy::disallowed_methods, reason = "it was just written")]
    let read: Recording = postcard::from_bytes(&written).unwrap();
    let again = read.replay(Arc::clone(&cluster.network.fabric));
    assert!(again.len() > 20, "{} effects", again.len());
    assert_eq!(bytes(&again), bytes(&cluster.effects));
}

#[test]
fn run_resumed_from_log_replays() {
    let mut cluster = eventful();
    let log = cluster.log.clone();
    cluster.restart();
    cluster.effects.clear();
    cluster.recording = Recording {
        log,
        ..cluster.recording
    };
    cluster.recording.inputs.clear();
    cluster.reconnect();
    cluster.run_for(Duration::from_secs(5));
    let written = serde_json::to_vec(&cluster.recording).unwrap();
    let read: Recording = serde_json::from_slice(&written).unwrap();
    let again = read.replay(Arc::clone(&cluster.network.fabric));
    assert_eq!(bytes(&again), bytes(&cluster.effects));
}

#[test]
fn changed_input_changes_effects() {
    let cluster = eventful();
    let mut recording = cluster.recording.clone();
    recording.inputs.truncate(recording.inputs.len() / 2);
    let again = recording.replay(Arc::clone(&cluster.network.fabric));
    assert_ne!(bytes(&again), bytes(&cluster.effects));
}
