//! What the drive lives through is found in the history, and the drive never waits for it.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use reweave_common::hardware::Machine;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::operator::{Request, Response};
use reweave_common::sample::{HostReading, Reading, Sample};
use reweave_core::Input;
use reweave_history::{Kind, Past, Question, Resolution, Rules, Window};

use super::{History, LENGTH, Load, MOST_READINGS};
use crate::config::HistoryConfig;
use crate::intake::{Event, Origin, SessionId};
use crate::tests::scene::Scene;

fn everything(url: &str) -> Window {
    let past = Past::open(url).unwrap();
    let question = Question {
        from: Moment::default(),
        to: Moment::from_micros(u64::MAX / 4),
        resolution: Some(Resolution::FiveMinutes),
        kinds: Kind::ALL.into(),
    };
    past.look(&question).unwrap()
}

#[test]
fn what_the_drive_hears_and_decides_is_in_the_history() {
    let mut scene = Scene::new();
    scene.collide();
    scene.put(Event::Tick);
    for (node, _) in scene.fabric.clone().nodes() {
        let session = SessionId(1);
        scene.tell(Origin { node, session });
    }
    let mut answer = scene.ask(Request::Plan);
    let url = scene.folder.path().join("history").display().to_string();
    let config = HistoryConfig {
        url: url.clone(),
        rules: Rules::default(),
    };
    let history = History::begin(&config, scene.fabric.clone()).unwrap();
    let alone = scene.alone_with(Some(history));
    scene.run(alone).unwrap();
    let answer = answer.try_recv();
    assert!(matches!(answer, Ok(Response::Plan { plan: Some(_), .. })));
    let window = everything(&url);
    assert_eq!(window.warnings, [""; 0]);
    assert_eq!(window.agents.len(), scene.fabric.nodes().len());
    let links = window.links_on(&scene.fabric, Moment::default());
    let full = links
        .values()
        .filter(|state| state.rate.mbps() == 198.0)
        .count();
    assert_eq!(full, 2, "leaf0 > spine0 > leaf1");
    let flows = window.flows_on(&scene.fabric, Moment::default());
    let hops: Vec<_> = flows
        .iter()
        .map(|flow| flow.path.as_ref().map(Vec::len))
        .collect();
    assert_eq!(hops, [Some(4), Some(4)]);
    let what = |events: &[reweave_history::Seen<reweave_history::Event>]| {
        events
            .iter()
            .map(|event| event.what.what.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(what(&window.changes), ["plan-proposed"]);
    assert_eq!(what(&window.findings), ["ecmp-collision"]);
}

/// Nobody takes anything out of the queue.
#[test]
fn a_history_that_stands_still_makes_nobody_wait() {
    let (queue, stuck) = sync_channel(LENGTH);
    let load = Arc::<Load>::default();
    let history = History {
        queue: Some(queue),
        load: load.clone(),
        writing: None,
    };
    let node = NodeId::from_index(0);
    let reading = Reading::Host(HostReading::Machine(Machine::default()));
    let of = |readings| Input::Sample {
        node,
        sample: Sample {
            taken: Moment::default(),
            readings: vec![reading.clone(); readings],
        },
    };
    // Of four, three fit by their readings.
    (0..4).for_each(|_| history.hear(Moment::default(), &of(MOST_READINGS / 3)));
    assert_eq!(load.take_dropped() as usize, MOST_READINGS / 3);
    // The rest finds no place in the queue.
    (0..LENGTH).for_each(|_| history.hear(Moment::default(), &Input::Tick));
    assert_eq!(load.take_dropped(), 3);
    stuck.recv().unwrap();
    history.hear(Moment::default(), &Input::Tick);
    assert_eq!(load.take_dropped(), 0);
}

/// It is told, tried again, and the drive leads on.
#[test]
fn a_history_that_cannot_be_opened_stops_nobody() {
    let mut scene = Scene::new();
    scene.collide();
    let mut answer = scene.ask(Request::Status);
    let file = scene.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let config = HistoryConfig {
        url: file.join("history").display().to_string(),
        rules: Rules::default(),
    };
    let history = History::begin(&config, scene.fabric.clone()).unwrap();
    let alone = scene.alone_with(Some(history));
    scene.run(alone).unwrap();
    assert!(matches!(answer.try_recv(), Ok(Response::Status(_))));
}

#[test]
fn a_place_of_no_known_kind_is_an_error_before_anything_begins() {
    let scene = Scene::new();
    let config = HistoryConfig {
        url: "ftp://host/folder".to_owned(),
        rules: Rules::default(),
    };
    let error = History::begin(&config, scene.fabric.clone()).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
}
