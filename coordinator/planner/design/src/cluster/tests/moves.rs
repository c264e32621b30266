//! The moves to make room for a job affect the fewest servers.

use proptest::prelude::*;

use crate::cluster::pack;

/// Returns the fewest moved servers, by brute force over all blocks for all jobs.
fn fewest(free: &[usize], jobs: &[(usize, usize)], needed: usize) -> Option<usize> {
    let blocks = free.len();
    let ways = blocks.pow(jobs.len() as u32);
    let moved = |way: usize| -> Option<usize> {
        let mut room = free.to_vec();
        jobs.iter()
            .for_each(|&(block, servers)| room[block] += servers);
        let (mut rest, mut moved) = (way, 0);
        for &(block, servers) in jobs {
            let to = rest % blocks;
            rest /= blocks;
            room[to] = room[to].checked_sub(servers)?;
            moved += if to == block { 0 } else { servers };
        }
        room.iter().any(|&left| left >= needed).then_some(moved)
    };
    (0..ways).filter_map(moved).min()
}

proptest! {
    #[test]
    fn no_other_moves_are_fewer(
        free in prop::collection::vec(0..6usize, 1..4),
        jobs in prop::collection::vec((0..3usize, 1..6usize), 0..7),
        needed in 1..9usize,
    ) {
        let jobs: Vec<_> = jobs.into_iter().map(|(block, servers)| (block % free.len(), servers)).collect();
        let packed = pack(&free, &jobs, needed);
        prop_assert_eq!(packed.as_ref().map(|it| it.servers), fewest(&free, &jobs, needed));
        if let Some(packed) = packed {
            let mut room = free.clone();
            packed.moves.iter().for_each(|&(job, _)| room[jobs[job].0] += jobs[job].1);
            for &(job, to) in &packed.moves {
                prop_assert!(room[to] >= jobs[job].1, "no block holds more than it can");
                room[to] -= jobs[job].1;
            }
            prop_assert!(room[packed.block] >= needed);
        }
    }
}

/// Two jobs must go round in a circle: the small one to make room for the one that makes room.
#[test]
fn moves_may_depend_on_each_other() {
    let packed = pack(&[2, 1, 3], &[(0, 4), (1, 3)], 6).unwrap();
    assert_eq!((packed.block, packed.servers), (0, 7));
    assert_eq!(packed.moves, [(0, 1), (1, 2)]);
}
