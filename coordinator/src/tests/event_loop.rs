//! The rules that the event loop keeps.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use reweave_common::instruction::{Instruction, Watch};
use reweave_common::moment::Moment;
use reweave_common::operator::{JobOrder, NotSeen, Plan, Request, Response, Steering};
use reweave_core::{Change, Command, LATEST_MINOR, Policy, State};
use reweave_replica::{Entry, EntryContent, Founding, MemberId, Proposal, RequestId, Saved};
use serde::Serialize;
use tokio::sync::mpsc;

use super::scene::{Scene, lines_with};
use crate::audit::Who;
use crate::error::CoordinatorError;
use crate::event_loop::saved_state;
use crate::intake::{Event, Origin, SessionId};
use crate::replication::{ReplicationError, look};

/// The kinds of the inputs that the core was given, apart from ticks.
fn inputs(scene: &Scene) -> Vec<String> {
    let lines = lines_with(&scene.recording(), "{\"input\"").into_iter();
    let kinds = lines.map(|line| {
        let (_, kind) = line.split_once("\"input\":{\"at\":").unwrap();
        let (_, kind) = kind.split_once("\"input\":").unwrap();
        let kind = kind.trim_start_matches(['{', '"']);
        kind.split('"').next().unwrap().to_owned()
    });
    kinds.filter(|kind| kind != "tick").collect()
}

fn sample(from: Origin) -> Event {
    let sample = reweave_common::sample::Sample {
        taken: reweave_common::moment::Moment::default(),
        readings: vec![],
    };
    Event::Measured { from, sample }
}

#[test]
fn newer_session_replaces_older() {
    let mut scene = Scene::new();
    let h0 = scene.node("h0");
    let old = scene.arrive(h0, 1, 8);
    scene.put(sample(old));
    let new = scene.arrive(h0, 2, 8);
    // What the old one had still to say, and that it is gone, is of no use.
    scene.put(sample(old));
    scene.put(Event::Left { from: old });
    scene.put(sample(new));
    // One that was made before, and comes late.
    scene.arrive(h0, 1, 8);
    scene.put(Event::Left { from: new });
    let alone = scene.alone();
    scene.run(alone).unwrap();
    let expected = [
        "agent_up",
        "sample",
        "agent_down",
        "agent_up",
        "sample",
        "agent_down",
    ];
    assert_eq!(inputs(&scene), expected);
}

#[test]
fn unseated_session_is_ignored() {
    let mut scene = Scene::new();
    let node = scene.node("h1");
    let session = SessionId(7);
    scene.put(sample(Origin { node, session }));
    let alone = scene.alone();
    scene.run(alone).unwrap();
    assert_eq!(inputs(&scene), [""; 0]);
}

/// The plan against a collision, as an operator is answered.
fn planned(scene: &mut Scene) -> (Box<Plan>, NotSeen) {
    scene.collide();
    let mut answer = scene.ask(Request::Plan);
    let alone = scene.alone();
    scene.run(alone).unwrap();
    match answer.try_recv() {
        Ok(Response::Plan {
            plan: Some(plan),
            not_seen,
        }) => (plan, not_seen),
        other => panic!("a plan was to be had: {other:?}"),
    }
}

/// Cut anywhere, at the end of a write too, which looks like a crash before it.
#[test]
fn log_missing_operator_answer_is_refused() {
    let mut scene = Scene::new();
    planned(&mut scene);
    let log = scene.folder.path().join("log");
    let whole = fs::read(&log).unwrap();
    let last = look(&log).unwrap().unwrap().last();
    let mut cuts = 0;
    for length in (0..whole.len()).rev() {
        fs::write(&log, &whole[..length]).unwrap();
        match look(&log) {
            // What follows the last decision was sent to no agent.
            Ok(saved) => assert_eq!((saved.unwrap().last(), cuts), (last, 0), "cut to {length}"),
            Err(error) => {
                assert!(error.is_bad_input(), "cut to {length}: {error}");
                cuts += 1;
            }
        }
    }
    assert!(cuts > 100, "{cuts}");
}

#[test]
fn operator_is_answered_after_append() {
    let mut scene = Scene::new();
    let (plan, _) = planned(&mut scene);
    let effects = lines_with(&scene.recording(), "{\"effect\"");
    let at = |words: &str| {
        effects
            .iter()
            .position(|line| line.contains(words))
            .unwrap()
    };
    assert!(at("plan_proposed") < at("\"reply\""), "{effects:#?}");
    // A coordinator that starts on this log offers the same plan.
    let logged = scene.logged();
    assert_eq!(logged.len(), 1);
    let mut core = reweave_core::Core::new(reweave_core::Policy::default(), scene.fabric.clone());
    core.apply(logged[0].clone());
    let offered = core.state().rollouts().next().unwrap().plan.generation;
    assert_eq!(offered, plan.generation);
}

#[test]
fn restart_keeps_offer_and_continues() {
    let mut scene = Scene::new();
    let (plan, not_seen) = planned(&mut scene);
    let mut again = scene.again();
    again.collide();
    let (generation, seal) = (plan.generation, plan.seal.clone());
    let mut offered = again.ask(Request::Plan);
    let mut applied = again.ask(Request::Apply { generation });
    let alone = again.alone();
    again.run(alone).unwrap();
    let same = Response::Plan {
        plan: Some(plan),
        not_seen,
    };
    assert_eq!(offered.try_recv().unwrap(), same);
    let started = applied.try_answered().unwrap();
    assert_eq!(started.response, Response::ApplyStarted { generation });
    assert_eq!(started.seal, Some(seal));
}

/// No request to approve it has one.
#[test]
fn plan_of_started_job_is_audited() {
    let mut scene = Scene::new();
    scene.collide();
    for _ in 0..Policy::default().readings {
        for (node, _) in scene.fabric.clone().nodes() {
            let session = SessionId(1);
            scene.report_sample(Origin { node, session });
        }
    }
    let send_order = |order| {
        let job = "train".to_owned();
        scene.ask(Request::Job { job, order })
    };
    let hosts = vec!["h0".to_owned(), "h2".to_owned()];
    let may_reorder = false;
    send_order(JobOrder::Register { hosts, may_reorder });
    let mut started = send_order(JobOrder::Start { may_change: true });
    let alone = scene.alone();
    scene.run(alone).unwrap();
    let generation = match started.try_recv() {
        Ok(Response::Started(started)) => started.generation.expect("there is a plan for it"),
        other => panic!("it was not started: {other:?}"),
    };
    // Lines are written in the order of what they are about.
    let last = scene
        .audit
        .put(Who::Known("test".to_owned()), "look", Ok(()));
    last.blocking_recv().unwrap();
    let lines = scene.audit.page(None);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[1].who, "operator ops");
    assert_eq!(lines[1].what, format!("approve plan {generation}"));
    assert!(lines[1].seal.is_some());
}

/// What cannot be made durable does not happen.
#[test]
fn failed_disk_ends_loop_before_answer() {
    let mut scene = Scene::new();
    scene.collide();
    let mut answer = scene.ask(Request::Plan);
    let mut alone = scene.alone();
    alone.engine.break_down();
    let ended = scene.run(alone);
    let is_the_log = matches!(
        ended,
        Err(CoordinatorError::Replication(ReplicationError::Log(_)))
    );
    assert!(is_the_log, "{ended:?}");
    assert!(answer.try_recv().is_err());
    assert_eq!(scene.logged().len(), 0);
}

/// While everything else goes on.
#[test]
fn stuck_agent_loses_its_session() {
    let mut scene = Scene::new();
    scene.collide();
    let (outbox, stuck) = mpsc::channel(1);
    outbox
        .try_send(Box::new(Instruction::Watch(Watch::default())))
        .unwrap();
    let node = scene.node("h0");
    let session = SessionId(2);
    scene.put(Event::Arrived {
        from: Origin { node, session },
        outbox,
    });
    scene.report_sample(Origin { node, session });
    scene.put(Event::Tick);
    let alone = scene.alone();
    let driving = scene.run_aside(alone);
    let deadline = Instant::now() + Duration::from_mins(2);
    while !stuck.is_closed() {
        assert!(
            Instant::now() < deadline,
            "nothing else had room, and still it leads there"
        );
        thread::park_timeout(Duration::from_millis(1));
    }
    assert_eq!(stuck.len(), 1, "what was there before");
    scene.put(Event::End);
    driving.join().unwrap().unwrap();
}

fn founded(cluster_version: u16) -> Saved {
    let founding = Founding {
        members: BTreeMap::new(),
        state: State::founded(cluster_version).encode().unwrap(),
    };
    Saved::founding(MemberId(1), Vec::new(), founding)
}

#[test]
fn build_older_than_cluster_fails_start() {
    let saved = founded(LATEST_MINOR + 1);
    let error = saved_state(&saved, Path::new("data")).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("upgrade it"), "{error}");
}

fn with_entry(decided: &impl Serialize) -> Saved {
    let proposal = Proposal {
        request: RequestId {
            client: 1,
            number: 1,
        },
        payload: postcard::to_stdvec(decided).unwrap(),
    };
    let mut saved = founded(LATEST_MINOR);
    saved.entries.push(Entry {
        term: 1,
        index: 2,
        content: EntryContent::Proposal(postcard::to_stdvec(&proposal).unwrap()),
    });
    saved
}

/// Checks an entry of a kind that a later release added.
#[test]
fn unreadable_entry_is_refused_before_start() {
    let saved = with_entry(&(Moment::default(), 200_u32));
    let error = saved_state(&saved, Path::new("data")).unwrap_err();
    let is_named = matches!(error, CoordinatorError::UnknownCommand { index: 2, .. });
    assert!(is_named, "{error}");
}

#[test]
fn log_raising_version_is_refused() {
    let minor = LATEST_MINOR + 1;
    let change = Change::Together(vec![Change::ClusterVersion { minor }]);
    let at = Moment::default();
    let error = saved_state(&with_entry(&Command { at, change }), Path::new("data")).unwrap_err();
    let is_named = matches!(error, CoordinatorError::ClusterVersionTooHigh { version, .. } if version == minor);
    assert!(is_named, "{error}");
}

/// Checks that lowering the version compacts the log in the file, from which the previous release is to start.
#[test]
fn lowered_version_compacts_log() {
    let mut scene = Scene::new();
    scene.collide();
    let alone = scene.alone();
    let driving = scene.run_aside(alone);
    let answered = |request| scene.ask(request).blocking_recv().unwrap();
    let generation = match answered(Request::Plan) {
        Response::Plan {
            plan: Some(plan), ..
        } => plan.generation,
        other => panic!("a plan was to be had: {other:?}"),
    };
    let how = Steering::Abort;
    let steered = answered(Request::Steer { generation, how });
    assert_eq!(steered, Response::Steered { generation, how });
    let minor = LATEST_MINOR - 1;
    let lowered = answered(Request::ClusterVersion { minor: Some(minor) });
    let lowered_by = Some("ops".to_owned());
    assert_eq!(lowered, Response::ClusterVersion { minor, lowered_by });
    let log = scene.folder.path().join("log");
    let deadline = Instant::now() + Duration::from_mins(2);
    loop {
        let saved = look(&log).unwrap().unwrap();
        let state = saved_state(&saved, Path::new("data")).unwrap();
        if state.cluster_version() == minor {
            break;
        }
        let entries = saved.entries.len();
        assert!(Instant::now() < deadline, "{entries} entries stay there");
        thread::park_timeout(Duration::from_millis(1));
    }
    scene.put(Event::End);
    driving.join().unwrap().unwrap();
    let later = scene.logged().into_iter();
    let later: Vec<_> = later.filter(|it| it.change.since() > minor).collect();
    assert!(later.is_empty(), "{later:?}");
}
