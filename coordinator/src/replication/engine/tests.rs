//! A follower gets its whole log from the leader, and its disk has no space for that.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use reweave_replica::{DISK_CHECK_INTERVAL_TICKS, Founding, Kind, Member, Members};

use super::*;
use crate::intake::{Event, Queue, queue};
use crate::replication::open;

const LEADER_ID: MemberId = MemberId(1);
const OWN_ID: MemberId = MemberId(2);

fn members() -> BTreeMap<MemberId, Member> {
    let member = |MemberId(id)| Member {
        name: format!("c{id}"),
        address: ([127, 0, 0, 1], 7332).into(),
        replaces: None,
        folder: Some(FolderId(id)),
    };
    [LEADER_ID, OWN_ID].map(|id| (id, member(id))).into()
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

#[test]
fn snapshot_waits_for_disk_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let joining = Saved::joining(OWN_ID, Vec::new(), Members::default());
    let opened = open(&path, Some(joining)).unwrap();
    let directory = Directory::new(OWN_ID, &members());
    let (intake, mut queue) = queue();
    let (cluster, _kept) = watch::channel(Cluster::unknown(directory.clone()));
    let outlets = Outlets {
        intake,
        posts: Posts::default(),
        cluster,
        peer_status: PeerStatus::default(),
    };
    let started = Engine::start(&opened.saved, opened.store, directory, outlets);
    let (mut engine, _replication) = started.unwrap();
    // Whatever is written there finds no room.
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
    assert_eq!(restored(&mut queue), [b"all there is".to_vec()]);
    assert_eq!(engine.durable.replica().status().applied, 1);
}
