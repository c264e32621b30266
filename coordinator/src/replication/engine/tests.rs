//! A follower gets all there is from its leader, and its disk has no room for that. A leader decides what no peer can get.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use reweave_replica::{DISK_CHECK_INTERVAL_TICKS, Founding, Kind, MAX_PROPOSAL_BYTES, Member};

use super::*;
use crate::intake::{Event, Queue, queue};
use crate::replication::open;

const LEADER_ID: MemberId = MemberId(1);
const OWN_ID: MemberId = MemberId(2);
/// The leader has added it, and this one has missed that.
const ADDED_ID: MemberId = MemberId(9);

fn members() -> BTreeMap<MemberId, Member> {
    let members = [LEADER_ID, OWN_ID].map(|MemberId(id)| {
        let member = Member {
            name: format!("c{id}"),
            address: ([127, 0, 0, 1], 7332).into(),
            replaces: None,
            folder: Some(FolderId(id)),
        };
        (MemberId(id), member)
    });
    members.into()
}

fn snapshot() -> Message {
    let founding = Founding {
        members: members(),
        state: b"all there is".to_vec(),
    };
    let theirs = Saved::founding(LEADER_ID, Vec::new(), founding);
    Message {
        snapshot: Some(Box::new(theirs.snapshot)),
        ..Message::new(Kind::Snapshot, [LEADER_ID, OWN_ID], 2)
    }
}

fn restored(queue: &mut Queue) -> Vec<Vec<u8>> {
    let mut states = Vec::new();
    while let Ok(event) = queue.try_next() {
        if let Event::Replicated(Outcome::Restored { state }) = event {
            states.push(state);
        }
    }
    states
}

/// An engine with the state that was saved there, or else with `saved`.
fn engine(path: &Path, saved: Saved) -> (Engine, Queue) {
    let opened = open(path, Some(saved)).unwrap();
    let directory = Directory::new(OWN_ID, &members());
    let (intake, queue) = queue();
    let (cluster, _) = watch::channel(Cluster::unknown(directory.clone()));
    let outlets = Outlets {
        intake,
        posts: Posts::default(),
        cluster,
        peer_status: PeerStatus::default(),
    };
    let started = Engine::start(&opened.saved, opened.store, directory, outlets);
    let (engine, _) = started.unwrap();
    (engine, queue)
}

fn follower(log: &Path) -> (Engine, Queue) {
    let founding = Founding {
        members: members(),
        state: Vec::new(),
    };
    engine(log, Saved::founding(OWN_ID, Vec::new(), founding))
}

fn unadmitted(MemberId(id): MemberId, term: u64) -> Task {
    Task::Unadmitted {
        message: Message::new(Kind::Heartbeat, [MemberId(id), OWN_ID], term),
        name: format!("c{id}"),
        folder: FolderId(id),
    }
}

/// Any certificate may come with it.
#[test]
fn unadmitted_number_is_not_heard() {
    let folder = tempfile::tempdir().unwrap();
    let (mut engine, _queue) = follower(&folder.path().join("log"));
    let term = engine.durable.replica().term();
    engine.take(unadmitted(ADDED_ID, term + 7)).unwrap();
    assert_eq!(engine.durable.replica().term(), term);
    // It became known on the way.
    engine.take(unadmitted(LEADER_ID, term + 7)).unwrap();
    assert_eq!(engine.durable.replica().term(), term + 7);
}

/// Answers need a session, before this log has the number.
#[test]
fn vouched_number_is_heard_and_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (mut engine, _queue) = follower(&folder.path().join("log"));
    let term = engine.durable.replica().term();
    let mut of = members();
    let added = Member {
        name: "c9".to_owned(),
        folder: Some(FolderId(ADDED_ID.0)),
        ..of[&LEADER_ID].clone()
    };
    of.insert(ADDED_ID, added);
    let members = Members {
        of,
        last: ADDED_ID,
        ..Members::default()
    };
    let by = LEADER_ID;
    engine.take(Task::Vouched { by, members }).unwrap();
    engine.carry_out().unwrap();
    let to_come = |(id, member): (MemberId, &Member)| id == ADDED_ID && member.name == "c9";
    assert!(engine.directory.peers().any(to_come));
    assert!(engine.directory.is_pending(ADDED_ID, "c9"));
    engine.take(unadmitted(ADDED_ID, term + 7)).unwrap();
    assert_eq!(engine.durable.replica().term(), term + 7);
}

/// The entry that removes it never comes here, and its folder is of no use any more.
#[test]
fn member_word_ends_removed_coordinator() {
    let folder = tempfile::tempdir().unwrap();
    let (mut engine, _queue) = follower(&folder.path().join("log"));
    let mark = folder.path().join(REMOVED_FILE);
    engine.take(Task::Removed { by: ADDED_ID }).unwrap();
    assert!(!mark.exists(), "that is no member");
    let ended = engine.take(Task::Removed { by: LEADER_ID }).unwrap_err();
    let is_out = matches!(ended, ReplicationError::TakenOut { id: OWN_ID });
    assert!(is_out && mark.exists(), "{ended}");
}

#[test]
fn snapshot_waits_for_disk_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let joining = Saved::joining(OWN_ID, Vec::new(), Members::default());
    let (mut engine, mut queue) = engine(&path, joining);
    // Every write to this file fails because the device is full.
    symlink("/dev/full", path.with_extension("new")).unwrap();
    let before = fs::read(&path).unwrap();
    engine.take(Task::Message(snapshot())).unwrap();
    engine.carry_out().unwrap();
    assert!(restored(&mut queue).is_empty());
    assert_eq!(fs::read(&path).unwrap(), before);
    // The link is gone with what was written there in vain.
    for _ in 0..DISK_CHECK_INTERVAL_TICKS {
        engine.tick();
        engine.carry_out().unwrap();
    }
    assert!(
        engine.durable.disk_is_full(),
        "something waited at the look"
    );
    assert_eq!(restored(&mut queue), [b"all there is".to_vec()]);
    assert_eq!(engine.durable.replica().status().applied, 1);
}

/// What is refused never comes back as applied.
#[test]
fn oversized_proposal_ends_leadership() {
    let folder = tempfile::tempdir().unwrap();
    let founding = Founding {
        members: members().into_iter().filter(|it| it.0 == OWN_ID).collect(),
        state: Vec::new(),
    };
    let alone = Saved::founding(OWN_ID, Vec::new(), founding);
    let (mut engine, _queue) = engine(&folder.path().join("log"), alone);
    assert!(matches!(engine.standing, Standing::Leads { .. }));
    let last = engine.durable.replica().last();
    let request = RequestId {
        client: OWN_ID.0,
        number: 1,
    };
    let payload = vec![0; MAX_PROPOSAL_BYTES + 1];
    engine.take(Task::Propose { request, payload }).unwrap();
    engine.carry_out().unwrap();
    assert!(matches!(engine.standing, Standing::Follows { .. }));
    assert_eq!(engine.durable.replica().last(), last);
}
