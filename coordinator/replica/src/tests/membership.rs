//! Membership changes, with the other members running.

use std::iter;

use super::room::{Room, member};
use crate::{
    Change, ChangeRefused, Effect, Entry, EntryContent, FolderId, Kind, Member, MemberId, Members,
    Message, Step, Transition, Welcome,
};

fn change(room: &mut Room, leader: u64, change: &Change) -> Result<(), ChangeRefused> {
    let changed = room.seats.get_mut(&leader).unwrap().replica.change(change);
    room.settle();
    changed
}

fn voters(room: &Room, id: u64) -> Vec<u64> {
    let configuration = &room.seats[&id].replica.members().configuration;
    assert_eq!(configuration.voters_outgoing, []);
    configuration.voters.iter().map(|id| id.0).collect()
}

#[test]
fn newcomer_votes_after_catching_up() {
    let mut room = Room::of(1);
    room.settle();
    for number in 0..70 {
        room.propose(1, &number.to_string());
    }
    room.join(2);
    room.cut_off.insert(2);
    let add = Change::Add {
        id: MemberId(2),
        member: member(2),
    };
    change(&mut room, 1, &add).unwrap();
    room.tick(15);
    assert_eq!(voters(&room, 1), [1]);
    assert!(room.seats[&1].replica.members().is_learner(MemberId(2)));
    room.propose(1, "alone still");
    room.cut_off.clear();
    room.tick(30);
    assert_eq!(
        (voters(&room, 1), voters(&room, 2)),
        (vec![1, 2], vec![1, 2])
    );
    assert_eq!(room.state(1), room.state(2));
}

/// In a short log, no member is far behind.
#[test]
fn unheard_newcomer_does_not_vote() {
    let mut room = Room::of(1);
    room.settle();
    let add = Change::Add {
        id: MemberId(2),
        member: member(2),
    };
    change(&mut room, 1, &add).unwrap();
    room.tick(30);
    assert_eq!(voters(&room, 1), [1]);
    room.join(2);
    room.tick(30);
    assert_eq!(voters(&room, 1), [1, 2]);
}

#[test]
fn dead_member_replaced_in_one_step() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let dead = if leader == 3 { 2 } else { 3 };
    room.seats.remove(&dead);
    room.join(4);
    let add = Change::Add {
        id: MemberId(4),
        member: Member {
            replaces: Some(MemberId(dead)),
            ..member(4)
        },
    };
    change(&mut room, leader, &add).unwrap();
    room.tick(30);
    let mut expected: Vec<_> = (1..=4).filter(|&id| id != dead).collect();
    expected.sort_unstable();
    assert_eq!(
        (voters(&room, leader), voters(&room, 4)),
        (expected.clone(), expected)
    );
    assert!(
        !room.seats[&4]
            .replica
            .members()
            .of
            .contains_key(&MemberId(dead))
    );
    room.propose(leader, "on");
    room.tick(3);
    assert_eq!(room.state(4), ["on"]);
    room.restart(4);
    room.tick(3);
    assert_eq!(room.state(4), ["on"]);
}

/// The replaced member stops, and two of the three old voters must agree on the next entry without it.
#[test]
fn replacement_waits_for_other_voters() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let others: Vec<_> = (1..=3).filter(|&id| id != leader).collect();
    let [old, away] = [others[0], others[1]];
    room.join(4);
    room.cut_off.insert(away);
    room.tick(21);
    let id = MemberId(4);
    let newcomer = Member {
        replaces: Some(MemberId(old)),
        ..member(4)
    };
    let add = Change::Add {
        id,
        member: newcomer,
    };
    change(&mut room, leader, &add).unwrap();
    room.tick(60);
    assert!(room.seats[&leader].replica.members().is_learner(id));
    room.propose(leader, "meanwhile");
    assert_eq!(room.state(leader), ["meanwhile"]);
    room.cut_off.clear();
    room.tick(60);
    let mut expected = vec![leader, away, 4];
    expected.sort_unstable();
    assert_eq!(voters(&room, leader), expected);
}

/// The change would never end and would block all others.
#[test]
fn replacement_takes_three_voters() {
    for count in [1, 2] {
        let mut room = Room::of(count);
        let leader = room.elect();
        let old = MemberId(if leader == 1 { count } else { 1 });
        room.join(4);
        let id = MemberId(4);
        let newcomer = |replaces| Change::Add {
            id,
            member: Member {
                replaces,
                ..member(4)
            },
        };
        let refused = change(&mut room, leader, &newcomer(Some(old))).unwrap_err();
        assert_eq!(refused, ChangeRefused::Few(old));
        change(&mut room, leader, &newcomer(None)).unwrap();
        room.tick(30);
        assert!(voters(&room, leader).contains(&4), "it is added instead");
    }
}

#[test]
fn invalid_membership_changes_are_refused() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let add = |id| Change::Add {
        id: MemberId(id),
        member: member(id),
    };
    let refused = change(&mut room, leader, &add(3)).unwrap_err();
    assert_eq!(refused, ChangeRefused::Used(MemberId(3)));
    let gone = Change::Remove { id: MemberId(9) };
    let refused = change(&mut room, leader, &gone).unwrap_err();
    assert_eq!(refused, ChangeRefused::Unknown(MemberId(9)));
    let follower = if leader == 1 { 2 } else { 1 };
    let refused = change(&mut room, follower, &add(4)).unwrap_err();
    assert_eq!(refused, ChangeRefused::NotLeading);
    let mut alone = Room::of(1);
    alone.settle();
    let refused = change(&mut alone, 1, &Change::Remove { id: MemberId(1) }).unwrap_err();
    assert_eq!(refused, ChangeRefused::Last(MemberId(1)));
}

#[test]
fn member_number_is_never_reused() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let gone = if leader == 3 { 2 } else { 3 };
    let remove = Change::Remove { id: MemberId(gone) };
    change(&mut room, leader, &remove).unwrap();
    room.tick(10);
    assert_eq!(voters(&room, leader).len(), 2);
    let again = Change::Add {
        id: MemberId(gone),
        member: member(gone),
    };
    let refused = change(&mut room, leader, &again).unwrap_err();
    assert_eq!(refused, ChangeRefused::Used(MemberId(gone)));
}

#[test]
fn member_number_belongs_to_one_folder() {
    let mut room = Room::of(3);
    let leader = room.elect();
    room.join(4);
    let id = MemberId(4);
    let add = Change::Add {
        id,
        member: member(4),
    };
    change(&mut room, leader, &add).unwrap();
    let [ours, another] = [FolderId(1), FolderId(2)];
    let welcome = |room: &Room, folder| {
        let members = room.seats[&leader].replica.members();
        (
            members.welcome("c4", folder),
            members.hears(id, "c4", folder),
        )
    };
    assert_eq!(welcome(&room, ours), (Welcome::Expected(id), true));
    let settle = Change::Settle { id, folder: ours };
    change(&mut room, leader, &settle).unwrap();
    assert_eq!(welcome(&room, ours), (Welcome::Member(id), true));
    assert_eq!(welcome(&room, another), (Welcome::Stranger, false));
    let refused = change(&mut room, leader, &settle).unwrap_err();
    assert_eq!(refused, ChangeRefused::Settled(id));
    room.tick(30);
    assert!(voters(&room, leader).contains(&4));
    let members = room.seats[&leader].replica.members();
    assert_eq!(members.welcome("c9", ours), Welcome::Unknown);
    let unknown = MemberId(9);
    assert!(!members.hears(unknown, "c9", ours) && members.may_be_new(unknown, "c9"));
    assert!(!members.was_removed(unknown, "c9") && !members.was_removed(id, "c9"));
    assert!(!members.hears(id, "c9", ours), "its number is another's");
    let remove = Change::Remove { id };
    change(&mut room, leader, &remove).unwrap();
    room.tick(3);
    let members = room.seats[&leader].replica.members();
    assert!(!members.hears(id, "c4", ours), "it was taken out");
    assert!(!members.may_be_new(unknown, "c4"), "by another number");
    assert!(members.was_removed(id, "c4") && members.was_removed(unknown, "c4"));
    let id = MemberId(5);
    let again = Change::Add {
        id,
        member: Member {
            name: "c4".to_owned(),
            ..member(5)
        },
    };
    room.join(5);
    change(&mut room, leader, &again).unwrap();
    let members = room.seats[&leader].replica.members();
    assert!(members.may_be_new(unknown, "c4"), "it was let in again");
    assert!(
        members.was_removed(MemberId(4), "c4"),
        "not by its old number"
    );
    assert!(!members.was_removed(id, "c4") && !members.was_removed(unknown, "c4"));
}

/// It has the name of the member that replaced it.
#[test]
fn replaced_name_is_still_heard() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let old = if leader == 1 { 2 } else { 1 };
    room.join(4);
    let replaces = Some(MemberId(old));
    let newcomer = Member {
        replaces,
        ..member(old)
    };
    let id = MemberId(4);
    let add = Change::Add {
        id,
        member: newcomer,
    };
    change(&mut room, leader, &add).unwrap();
    room.tick(60);
    let members = room.seats[&leader].replica.members();
    assert!(members.votes(id) && !members.of.contains_key(&MemberId(old)));
    let name = member(old).name;
    assert!(members.may_be_new(MemberId(9), &name));
}

/// It may lead, and be the first to send the entry that adds it.
#[test]
fn added_member_is_expected_before_commit() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let follower = if leader == 1 { 2 } else { 1 };
    let (id, folder) = (MemberId(4), FolderId(4));
    let add = Change::Add {
        id,
        member: member(4),
    };
    let replica = &mut room.seats.get_mut(&follower).unwrap().replica;
    assert!(!replica.expects(id, "c4", folder), "nothing adds it");
    let ((index, log_term), term) = (replica.last(), replica.term());
    let entry = Entry {
        term,
        index: index + 1,
        content: EntryContent::Membership {
            steps: vec![(Step::AddLearner, id)],
            transition: Transition::Auto,
            change: postcard::to_stdvec(&add).unwrap(),
        },
    };
    let append = Message {
        log_term,
        index,
        entries: vec![entry],
        ..Message::new(Kind::Append, [leader, follower].map(MemberId), term)
    };
    replica.handle_message(append).unwrap();
    assert!(!replica.members().hears(id, "c4", folder), "not applied");
    assert!(replica.expects(id, "c4", folder));
    let mut effects = iter::from_fn(|| replica.poll_effect());
    let has_way =
        |it: Effect| matches!(it, Effect::PendingMembers(to_come) if to_come.contains_key(&id));
    assert!(effects.any(has_way), "answers need a way to it");
    assert!(!replica.expects(id, "c9", folder), "by another name");
    assert!(
        !replica.expects(MemberId(5), "c4", folder),
        "by another number"
    );
}

#[test]
fn changes_losing_quorum_are_refused() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let others: Vec<_> = (1..=3).filter(|&id| id != leader).collect();
    room.join(4);
    let newcomer = |id: u64| Change::Add {
        id: MemberId(id),
        member: member(id),
    };
    room.cut_off.insert(4);
    change(&mut room, leader, &newcomer(4)).unwrap();
    let refused = change(&mut room, leader, &newcomer(5)).unwrap_err();
    assert_eq!(refused, ChangeRefused::Learning(MemberId(4)));
    let remove = |id| Change::Remove { id: MemberId(id) };
    change(&mut room, leader, &remove(4)).unwrap();
    room.cut_off.insert(others[0]);
    room.tick(21);
    let refused = change(&mut room, leader, &remove(others[1])).unwrap_err();
    let expected = ChangeRefused::NoQuorum {
        voters: 2,
        needed: 2,
        heard: 1,
    };
    assert_eq!(refused, expected, "{refused}");
    change(&mut room, leader, &remove(others[0])).unwrap();
    assert_eq!(voters(&room, leader).len(), 2);
    let named = Change::Add {
        id: MemberId(6),
        member: member(others[1]),
    };
    let refused = change(&mut room, leader, &named).unwrap_err();
    assert_eq!(refused, ChangeRefused::Named(MemberId(others[1])));
}

#[test]
fn unreachable_member_address_is_refused() {
    let mut room = Room::of(3);
    let leader = room.elect();
    room.join(4);
    let mut come = |address: &str, replaces: Option<u64>| {
        let newcomer = Member {
            address: address.parse().unwrap(),
            replaces: replaces.map(MemberId),
            ..member(4)
        };
        let id = MemberId(4);
        let refused = change(
            &mut room,
            leader,
            &Change::Add {
                id,
                member: newcomer,
            },
        );
        refused.map_err(|refused| refused.to_string())
    };
    for (address, why) in [
        ("10.0.0.4:0", "has no port that can be connected to"),
        ("0.0.0.0:7332", "is not the address of one machine"),
        ("[::]:7332", "is not the address of one machine"),
        ("[::ffff:0.0.0.0]:7332", "is not the address of one machine"),
        ("224.0.0.1:7332", "is the address of many machines"),
        ("255.255.255.255:7332", "is the address of many machines"),
        ("[ff02::1]:7332", "is the address of many machines"),
        ("127.0.0.1:7332", "is a loopback address"),
        ("[::1]:7372", "is a loopback address"),
        ("[::ffff:127.0.0.1]:7332", "is a loopback address"),
        ("10.0.0.2:7332", "is the address of member 2"),
    ] {
        for replaces in [None, Some(3)] {
            let said = come(address, replaces).unwrap_err();
            assert!(said.starts_with(&format!("{address} {why}")), "{said}");
        }
    }
    come("10.0.0.2:7332", Some(2)).unwrap();
}

/// On one machine, for a trial.
#[test]
fn loopback_members_get_loopback_newcomer() {
    let at = |id: u64, address: &str| Member {
        address: address.parse().unwrap(),
        ..member(id)
    };
    let founded = |others: [&str; 2]| Members {
        of: (1..)
            .map(MemberId)
            .zip(others.map(|address| at(1, address)))
            .collect(),
        last: MemberId(2),
        ..Members::default()
    };
    let add = Change::Add {
        id: MemberId(3),
        member: at(3, "127.0.0.1:7373"),
    };
    for others in [
        ["127.0.0.1:7371", "[::1]:7372"],
        // Of a coordinator that began alone.
        ["127.0.0.1:7371", "0.0.0.0:7332"],
    ] {
        assert_eq!(founded(others).objection(&add), None, "{others:?}");
    }
    let others = founded(["127.0.0.1:7371", "10.0.0.2:7332"]);
    assert!(others.objection(&add).is_some());
}

/// Its number belongs to the folder that it lost, and it would learn for ever.
#[test]
fn learner_without_folder_can_be_replaced() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let newcomer = |id: u64, replaces: Option<u64>| Change::Add {
        id: MemberId(id),
        member: Member {
            replaces: replaces.map(MemberId),
            ..member(4)
        },
    };
    change(&mut room, leader, &newcomer(4, None)).unwrap();
    let (id, folder) = (MemberId(4), FolderId(1));
    change(&mut room, leader, &Change::Settle { id, folder }).unwrap();
    let refused = change(&mut room, leader, &newcomer(5, None)).unwrap_err();
    assert_eq!(refused, ChangeRefused::Learning(id));
    let refused = change(&mut room, leader, &newcomer(5, Some(1))).unwrap_err();
    assert_eq!(refused, ChangeRefused::Learning(id));
    change(&mut room, leader, &newcomer(5, Some(4))).unwrap();
    let members = room.seats[&leader].replica.members();
    let welcome = members.welcome("c4", FolderId(2));
    assert_eq!(welcome, Welcome::Expected(MemberId(5)));
    room.join(5);
    room.tick(30);
    assert_eq!(voters(&room, leader), [1, 2, 3, 5]);
    let members = room.seats[&leader].replica.members();
    assert!(!members.of.contains_key(&id) && !members.is_removed("c4"));
}

#[test]
fn leader_hands_over_before_removal() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let remove = Change::Remove {
        id: MemberId(leader),
    };
    let refused = change(&mut room, leader, &remove).unwrap_err();
    assert_eq!(refused, ChangeRefused::HandingOver(MemberId(leader)));
    let next = room.elect();
    assert_ne!(next, leader);
    change(&mut room, next, &remove).unwrap();
    assert_eq!(voters(&room, next).len(), 2);
}

/// It may return as an earlier release.
#[test]
fn lowest_version_unknown_until_all_heard() {
    let members = Members {
        of: (1..=3).map(|id| (MemberId(id), member(id))).collect(),
        ..Members::default()
    };
    let lowest = |known: [Option<u16>; 3]| {
        members.min_version(|MemberId(id)| known[usize::try_from(id).unwrap() - 1])
    };
    assert_eq!(lowest([Some(3), Some(1), Some(2)]), Some(1));
    assert_eq!(lowest([Some(3), None, Some(2)]), None);
    assert_eq!(Members::default().min_version(|_| Some(1)), None);
}
