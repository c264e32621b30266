//! Work without NCCL. A program in C drives the interface: see `tests/nccl.rs`.

use crate::handle::Place;
use crate::works::{Done, DonePeer, MAX_PEERS, Work, Works};

fn work(member: u8) -> Work {
    Work {
        member,
        kind: 0,
        algorithm: 0,
        protocol: 0,
        channels: 2,
        bytes: 8,
    }
}

/// After this many looks nothing more comes to what has ended.
fn settled(works: &Works) -> Vec<Done> {
    (0..4).flat_map(|_| works.take_done()).collect()
}

#[test]
fn work_ends_with_kernels_and_transfers() {
    static WORKS: Works = Works::new();
    let works = &WORKS;
    let ticket = works.begin(work(3)).unwrap();
    works.stop(ticket);
    works.kernel_began(ticket, 1_000);
    works.kernel_began(ticket, 900);
    let place = works.transfer_began(ticket, 5, true, 70).unwrap();
    works.kernel_ended(ticket, 4_000);
    assert!(settled(works).is_empty(), "a kernel runs");
    works.kernel_ended(ticket, 3_000);
    assert!(settled(works).is_empty(), "a transfer is under way");
    works.moved(ticket, place, 8);
    works.transfer_ended(ticket, place, 90);
    let [done] = settled(works).try_into().unwrap();
    assert_eq!((done.work.member, done.took_ns), (3, Some(3_100)));
    let peer = DonePeer {
        rank: 5,
        bytes: [8, 0],
        ticks: [20, 0],
    };
    assert_eq!(done.peers, [peer]);
}

#[test]
fn late_events_change_nothing() {
    static WORKS: Works = Works::new();
    let works = &WORKS;
    let late = works.begin(work(0)).unwrap();
    works.stop(late);
    assert_eq!(settled(works).len(), 1, "no kernel was ever reported");
    let place = Place {
        peer: 0,
        sends: true,
    };
    works.moved(late, place, 8);
    works.transfer_ended(late, place, 7);
    assert_eq!(works.transfer_began(late, 1, true, 7), None);
    works.kernel_ended(late, 7);
    works.stop(late);
    assert!(settled(works).is_empty());
}

#[test]
fn works_without_slot_count_missed() {
    static WORKS: Works = Works::new();
    let works = &WORKS;
    let begun = (0..10_000).filter(|_| works.begin(work(9)).is_some());
    let begun = begun.count() as u64;
    assert!(begun > 1_000);
    assert_eq!(works.take_missed(9), 10_000 - begun);
    assert_eq!(works.take_missed(9), 0);
    works.forget(9);
    assert!(works.begin(work(9)).is_some());
}

#[test]
fn surplus_peer_counts_missed() {
    static WORKS: Works = Works::new();
    let works = &WORKS;
    let ticket = works.begin(work(1)).unwrap();
    for rank in 0..MAX_PEERS as u32 {
        let place = works.transfer_began(ticket, rank, false, 0).unwrap();
        assert_eq!(works.transfer_began(ticket, rank, false, 0), Some(place));
    }
    assert_eq!(works.transfer_began(ticket, 99, false, 0), None);
    assert_eq!(works.take_missed(1), 1);
}

#[test]
fn ended_works_free_slots() {
    static WORKS: Works = Works::new();
    let works = &WORKS;
    for _ in 0..100_000 {
        let ticket = works.begin(work(0)).unwrap();
        works.stop(ticket);
        if ticket.is_multiple_of(100) {
            works.take_done();
        }
    }
    assert_eq!(works.take_missed(0), 0);
}

/// Every slot is used twice and more.
#[test]
fn reused_slot_has_no_old_peers() {
    static WORKS: Works = Works::new();
    let works = &WORKS;
    let mut seen = 0;
    let mut look = || {
        for done in settled(works) {
            let peer = DonePeer {
                rank: done.work.bytes as u32,
                bytes: [8, 0],
                ticks: [20, 0],
            };
            assert_eq!(done.peers, [peer]);
            seen += 1;
        }
    };
    for rank in 0..10_000 {
        let bytes = u64::from(rank);
        let ticket = works.begin(Work { bytes, ..work(0) }).unwrap();
        let place = works.transfer_began(ticket, rank, true, 70).unwrap();
        works.moved(ticket, place, 8);
        works.transfer_ended(ticket, place, 90);
        works.stop(ticket);
        if rank % 1_000 == 999 {
            look();
        }
    }
    assert_eq!(seen, 10_000);
}
