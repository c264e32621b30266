//! Members whose messages are accepted before an applied entry adds them.

use std::collections::BTreeMap;
use std::iter;

use super::room::{Room, member};
use crate::{Change, Effect, FolderId, Kind, LostLog, Member, MemberId, Members, Message, Replica};

const ADDED_ID: MemberId = MemberId(4);
const ADDED_FOLDER: FolderId = FolderId(4);

/// Three replicas, one of which was away while the leader changed the members.
struct Scene {
    room: Room,
    leader: u64,
    away: u64,
}

impl Scene {
    /// Another member was added.
    fn with_added() -> Self {
        let mut room = Room::of(3);
        let leader = room.elect();
        let away = if leader == 1 { 2 } else { 1 };
        room.cut_off.insert(away);
        room.join(ADDED_ID.0);
        let mut scene = Self { room, leader, away };
        let newcomer = Member {
            folder: Some(ADDED_FOLDER),
            ..member(ADDED_ID.0)
        };
        scene.change(&Change::Add {
            id: ADDED_ID,
            member: newcomer,
        });
        assert!(scene.list().votes(ADDED_ID));
        scene
    }

    fn change(&mut self, change: &Change) {
        let leader = self.room.seats.get_mut(&self.leader).unwrap();
        leader.replica.change(change).unwrap();
        self.room.tick(30);
    }

    /// The members that the leader has applied.
    fn list(&self) -> Members {
        self.room.seats[&self.leader].replica.members().clone()
    }

    fn away(&mut self) -> &mut Replica {
        &mut self.room.seats.get_mut(&self.away).unwrap().replica
    }

    /// Whether the replica that was away accepts messages of the added one.
    fn hears(&mut self) -> bool {
        self.away().expects(ADDED_ID, "c4", ADDED_FOLDER)
    }
}

/// The last reported ones.
fn pending_members(replica: &mut Replica) -> Option<BTreeMap<MemberId, Member>> {
    let effects = iter::from_fn(|| replica.poll_effect());
    let pending_members = effects.filter_map(|effect| match effect {
        Effect::PendingMembers(pending_members) => Some(pending_members),
        _ => None,
    });
    pending_members.last()
}

/// No other member sends the missing entry, and this one votes.
#[test]
fn member_vouches_for_missed_number() {
    let mut scene = Scene::with_added();
    assert!(!scene.hears(), "the entry is missing");
    let (list, by) = (scene.list(), MemberId(scene.leader));
    scene.away().handle_reported_members(by, list);
    assert!(scene.hears());
    let away = scene.away();
    let to_come = pending_members(away).expect("answers need a way");
    assert!(to_come.keys().eq([&ADDED_ID]));
    assert!(!away.expects(ADDED_ID, "c9", ADDED_FOLDER), "another name");
    assert!(!away.expects(ADDED_ID, "c4", FolderId(9)), "another folder");
    let unknown = MemberId(5);
    assert!(!away.expects(unknown, "c4", ADDED_FOLDER), "another number");
    scene.room.cut_off.clear();
    scene.room.tick(30);
    assert!(scene.away().members().votes(ADDED_ID), "it catches up");
}

/// The list of a coordinator that no entry here adds may hold any number.
#[test]
fn unknown_number_vouches_for_none() {
    let mut scene = Scene::with_added();
    let list = scene.list();
    scene.away().handle_reported_members(ADDED_ID, list.clone());
    scene.away().handle_reported_members(MemberId(9), list);
    assert!(!scene.hears());
}

#[test]
fn removed_number_is_heard_no_longer() {
    let mut scene = Scene::with_added();
    let (before, by) = (scene.list(), MemberId(scene.leader));
    scene.change(&Change::Remove { id: ADDED_ID });
    let after = scene.list();
    assert!(!after.of.contains_key(&ADDED_ID));
    for list in [before.clone(), after, before] {
        scene.away().handle_reported_members(by, list);
    }
    assert!(!scene.hears());
}

/// A member that was removed here stays refused, whatever lists of others say.
#[test]
fn earlier_list_vouches_for_none() {
    let mut scene = Scene::with_added();
    let (before, by) = (scene.list(), MemberId(scene.leader));
    scene.change(&Change::Remove { id: ADDED_ID });
    scene.room.cut_off.clear();
    scene.room.tick(30);
    assert_eq!(scene.away().members().last, ADDED_ID);
    scene.away().handle_reported_members(by, before);
    assert!(!scene.hears());
}

/// Only voters can report that this log has lost its end.
#[test]
fn vouched_heartbeat_ends_no_replica() {
    let mut scene = Scene::with_added();
    let (list, by) = (scene.list(), MemberId(scene.leader));
    let own = MemberId(scene.away);
    let away = scene.away();
    away.handle_reported_members(by, list);
    let heartbeat = |from| Message {
        commit: 1000,
        ..Message::new(Kind::Heartbeat, [from, own], 9)
    };
    assert_eq!(away.handle_message(heartbeat(ADDED_ID)), Ok(()));
    let lost = away.handle_message(heartbeat(by));
    assert!(matches!(lost, Err(LostLog { held: 1000, .. })), "{lost:?}");
}
