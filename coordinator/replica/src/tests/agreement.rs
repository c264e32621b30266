//! All replicas have the same log.

use std::collections::BTreeSet;

use super::room::Room;
use crate::{
    Entry, EntryContent, Kind, LostLog, MAX_PROPOSAL_BYTES, MemberId, Message, Proposal,
    ProposalRefused, ReadId, RequestId, Standing,
};

#[test]
fn single_member_leads_at_once() {
    let mut room = Room::of(1);
    room.settle();
    assert_eq!(room.leaders(), [1]);
    room.propose(1, "a");
    assert_eq!(room.state(1), ["a"]);
    room.restart(1);
    room.settle();
    assert_eq!(
        (room.leaders(), room.state(1)),
        (vec![1], vec!["a".to_owned()])
    );
}

#[test]
fn proposal_is_applied_on_all() {
    let mut room = Room::of(3);
    let leader = room.elect();
    for payload in ["a", "b", "c"] {
        room.propose(leader, payload);
    }
    room.tick(3);
    for id in 1..=3 {
        assert_eq!(room.state(id), ["a", "b", "c"], "{id}");
    }
}

#[test]
fn repeated_request_is_applied_once() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let request = room.propose(leader, "once");
    let replica = &mut room.seats.get_mut(&leader).unwrap().replica;
    replica.propose(request, "once".into()).unwrap();
    room.propose(leader, "more");
    let replica = &mut room.seats.get_mut(&leader).unwrap().replica;
    replica.propose(request, "once".into()).unwrap();
    room.tick(3);
    for id in 1..=3 {
        assert_eq!(room.state(id), ["once", "more"], "{id}");
    }
}

#[test]
fn oversized_proposal_is_refused() {
    let mut room = Room::of(1);
    room.settle();
    let replica = &mut room.seats.get_mut(&1).unwrap().replica;
    let request = RequestId {
        client: 9,
        number: 1,
    };
    let refused = replica.propose(request, vec![0; MAX_PROPOSAL_BYTES + 1]);
    let oversized = ProposalRefused::Oversized {
        length_bytes: MAX_PROPOSAL_BYTES + 1,
        limit_bytes: MAX_PROPOSAL_BYTES,
    };
    assert_eq!(refused, Err(oversized));
    let taken = replica.propose(request, vec![0; MAX_PROPOSAL_BYTES]);
    assert_eq!(taken, Ok(()));
}

#[test]
fn partitioned_leader_steps_down_without_loss() {
    let mut room = Room::of(3);
    let old = room.elect();
    room.propose(old, "kept");
    room.cut_off.insert(old);
    room.propose(old, "lost");
    let new = room.elect();
    room.tick(30);
    assert_eq!(room.leaders(), [new]);
    room.propose(new, "after");
    room.cut_off.clear();
    room.tick(30);
    for id in 1..=3 {
        assert_eq!(room.state(id), ["kept", "after"], "{id}");
    }
}

/// A new leader's entries are not mistaken for proposals of the old one.
#[test]
fn deposed_leader_learns_before_applying() {
    let mut room = Room::of(3);
    let old = room.elect();
    room.propose(old, "before");
    let replica = &mut room.seats.get_mut(&old).unwrap().replica;
    let (index, log_term) = replica.last();
    let term = log_term + 1;
    let request = RequestId {
        client: 9,
        number: 1,
    };
    let payload = b"another's".to_vec();
    let proposal = postcard::to_stdvec(&Proposal { request, payload }).unwrap();
    let new = (1..=3).find(|id| *id != old).map(MemberId).unwrap();
    let both = Message {
        entries: vec![Entry {
            term,
            index: index + 1,
            content: EntryContent::Proposal(proposal),
        }],
        index,
        log_term,
        commit: index + 1,
        ..Message::new(Kind::Append, [new, MemberId(old)], term)
    };
    replica.handle_message(both).unwrap();
    room.settle();
    assert_eq!(room.state(old), ["before", "another's"]);
}

#[test]
fn read_waits_for_quorum() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let replica = &mut room.seats.get_mut(&leader).unwrap().replica;
    replica.read(ReadId(1)).unwrap();
    room.settle();
    assert_eq!(room.seats[&leader].ready, [ReadId(1)]);
    room.cut_off.insert(leader);
    let replica = &mut room.seats.get_mut(&leader).unwrap().replica;
    replica.read(ReadId(2)).unwrap();
    room.tick(30);
    assert_eq!(room.seats[&leader].ready, [ReadId(1)]);
    let standing = room.seats[&leader].replica.standing();
    assert!(matches!(standing, Standing::Follows { .. }), "{standing:?}");
}

/// The first answer was lost.
#[test]
fn unanswered_read_is_retried() {
    let mut room = Room::of(3);
    let leader = room.elect();
    room.cut_off.insert(leader);
    let replica = &mut room.seats.get_mut(&leader).unwrap().replica;
    replica.read(ReadId(1)).unwrap();
    room.settle();
    room.cut_off.clear();
    room.tick(12);
    assert_eq!(room.seats[&leader].ready, [ReadId(1)]);
}

#[test]
fn restart_of_all_keeps_state() {
    let mut room = Room::of(3);
    let leader = room.elect();
    for number in 0..50 {
        room.propose(leader, &number.to_string());
    }
    room.tick(3);
    let before = room.state(leader);
    for id in 1..=3 {
        room.restart(id);
    }
    let leader = room.elect();
    room.propose(leader, "on");
    room.tick(3);
    for id in 1..=3 {
        assert_eq!(room.state(id)[..50], before, "{id}");
        assert_eq!(room.state(id)[50], "on", "{id}");
    }
}

#[test]
fn lagging_member_receives_snapshot() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let away = if leader == 1 { 2 } else { 1 };
    room.cut_off.insert(away);
    for number in 0..100 {
        room.propose(leader, &number.to_string());
    }
    room.cut_off.clear();
    room.tick(30);
    assert_eq!(room.state(away), room.state(leader));
    assert!(room.seats[&away].restored > 0);
    room.restart(away);
    room.tick(3);
    assert_eq!(room.state(away), room.state(leader));
}

/// It could vote for a member that lacks entries which it once held.
#[test]
fn member_with_lost_log_is_refused() {
    let mut room = Room::of(3);
    let leader = room.elect();
    for number in 0..5 {
        room.propose(leader, &number.to_string());
    }
    room.tick(2);
    let victim = if leader == 1 { 2 } else { 1 };
    let mut blank = Room::of(3).seats.remove(&victim).unwrap();
    room.cut_off.insert(victim);
    let status = room.seats[&leader].replica.status();
    let between = [leader, victim].map(MemberId);
    let heartbeat = Message {
        commit: status.matched[&MemberId(victim)],
        ..Message::new(Kind::Heartbeat, between, status.term)
    };
    let stranger = Message {
        from: MemberId(9),
        ..heartbeat.clone()
    };
    let heard = blank.replica.handle_message(stranger);
    assert!(heard.is_ok(), "it ends over the word of a stranger");
    let lost = blank.replica.handle_message(heartbeat).unwrap_err();
    assert!(matches!(lost, LostLog { ends: 1, .. }), "{lost}");
}

/// A new leader takes each peer for empty at first: that is no news of the peer.
#[test]
fn unheard_progress_is_not_reported() {
    let mut room = Room::of(3);
    let old = room.elect();
    for number in 0..5 {
        room.propose(old, &number.to_string());
    }
    room.tick(2);
    room.cut_off.insert(old);
    let new = room.elect();
    room.tick(2);
    let status = room.seats[&new].replica.status();
    assert_eq!(status.matched.get(&MemberId(old)), None);
    assert!(status.matched.values().all(|matched| *matched > 5));
    assert_eq!(status.matched.len(), 2);
    room.cut_off.clear();
    room.tick(3);
    let status = room.seats[&new].replica.status();
    assert_eq!(status.matched.get(&MemberId(old)), Some(&status.last));
}

#[test]
fn resigning_leader_hands_over_without_loss() {
    let mut room = Room::of(3);
    let old = room.elect();
    room.propose(old, "before");
    room.seats
        .get_mut(&old)
        .unwrap()
        .replica
        .resign(&BTreeSet::new());
    room.tick(3);
    let leaders = room.leaders();
    assert!(leaders.len() == 1 && leaders != [old], "{leaders:?}");
    room.propose(leaders[0], "after");
    room.tick(3);
    assert_eq!(room.state(old), ["before", "after"]);
}

/// A leader with a full disk hands over only to a replica with space.
#[test]
fn leader_hands_over_to_fit_only() {
    let mut room = Room::of(3);
    let old = room.elect();
    let others: BTreeSet<_> = (1..=3).filter(|id| *id != old).map(MemberId).collect();
    let mut resign = |unfit: &BTreeSet<MemberId>| {
        let replica = &mut room.seats.get_mut(&old).unwrap().replica;
        replica.resign(unfit);
        room.tick(3);
        room.leaders()
    };
    assert_eq!(resign(&others), [old]);
    let fit = others.last().unwrap();
    let unfit = others.iter().filter(|id| *id != fit).copied().collect();
    assert_eq!(resign(&unfit), [fit.0]);
}

#[test]
fn single_member_keeps_leading_after_resign() {
    let mut room = Room::of(1);
    room.settle();
    room.seats
        .get_mut(&1)
        .unwrap()
        .replica
        .resign(&BTreeSet::new());
    room.propose(1, "a");
    assert_eq!(room.state(1), ["a"]);
}

/// Snapshots are taken every twenty entries.
#[test]
fn failed_compaction_keeps_all_entries() {
    let mut room = Room::of(1);
    room.settle();
    room.seats.get_mut(&1).unwrap().is_full = true;
    let all: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    for payload in &all {
        room.propose(1, payload);
    }
    room.restart(1);
    room.settle();
    assert_eq!(room.state(1), all);
}

/// A compaction without space is retried after twenty ticks. Until then the previous snapshot is used.
#[test]
fn compaction_without_room_is_tried_again() {
    let mut room = Room::of(1);
    room.settle();
    room.seats.get_mut(&1).unwrap().is_full = true;
    for number in 0..30 {
        room.propose(1, &number.to_string());
    }
    let held = |room: &Room| room.seats[&1].replica.log(0).len();
    assert_eq!(room.begins(1), 1);
    assert!(held(&room) > 30);
    room.seats.get_mut(&1).unwrap().is_full = false;
    room.tick(20);
    assert!(room.begins(1) > 20);
    assert!(held(&room) < 10);
}

/// No peer can get a snapshot of this state; a peer that was away gets the entries.
#[test]
fn oversized_state_keeps_all_entries() {
    let mut room = Room::of(3);
    let leader = room.elect();
    let away = if leader == 1 { 2 } else { 1 };
    room.cut_off.insert(away);
    let seats = room.seats.values_mut();
    seats.for_each(|seat| seat.is_oversized = true);
    for number in 0..100 {
        room.propose(leader, &number.to_string());
    }
    assert_eq!(room.begins(leader), 1);
    room.cut_off.clear();
    room.tick(30);
    assert_eq!(room.state(away), room.state(leader));
    assert_eq!(room.seats[&away].restored, 0);
    let seats = room.seats.values_mut();
    seats.for_each(|seat| seat.is_oversized = false);
    room.tick(20);
    assert!(room.begins(leader) > 100);
}
