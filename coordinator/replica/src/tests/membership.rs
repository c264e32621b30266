//! Who takes part changes while the others go on.

use super::room::{Room, member};
use crate::{Change, ChangeRefused, Member, MemberId};

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
fn a_newcomer_learns_first_and_votes_when_it_has_caught_up() {
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

#[test]
fn a_dead_member_is_replaced_in_one_step() {
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

#[test]
fn changes_that_make_no_sense_are_refused() {
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
fn a_number_is_never_given_twice() {
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
