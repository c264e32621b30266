//! Chooses jobs to move between blocks, so that another job fits and the fewest servers move.

use serde::Serialize;

/// New block of each job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// The block that has room afterwards.
    pub block: usize,
    /// Jobs and the blocks that they move to.
    pub moves: Vec<(usize, usize)>,
    /// Total number of servers of the moved jobs.
    pub servers: usize,
}

/// Maximum number of placements that are tried.
const MAX_PLACEMENTS: usize = 200_000;

/// `free` servers by block; `jobs` by the block that each is in and its servers. The fewest servers
/// that must move until a block has `needed` free; of those, the fewest jobs. Nothing when no order
/// of jobs makes room, or none was found in a bounded search.
pub fn pack(free: &[usize], jobs: &[(usize, usize)], needed: usize) -> Option<Packed> {
    let mut order: Vec<_> = (0..jobs.len()).collect();
    // Large ones are hard to place, so that dead ends show early.
    order.sort_by_key(|&job| (std::cmp::Reverse(jobs[job].1), job));
    let room = |block: usize| {
        let own = jobs.iter().filter(|(at, _)| *at == block);
        free[block] + own.map(|(_, servers)| servers).sum::<usize>()
    };
    let mut packing = Packing {
        jobs,
        order,
        left: (0..free.len()).map(room).collect(),
        moves: Vec::new(),
        best: None,
        work: MAX_PLACEMENTS,
    };
    for block in 0..free.len() {
        if packing.left[block] >= needed {
            packing.left[block] -= needed;
            packing.place(0, block, 0);
            packing.left[block] += needed;
        }
    }
    packing.best
}

struct Packing<'p> {
    jobs: &'p [(usize, usize)],
    order: Vec<usize>,
    /// Free servers of each block, if it holds only the jobs placed so far.
    left: Vec<usize>,
    moves: Vec<(usize, usize)>,
    best: Option<Packed>,
    work: usize,
}

impl Packing<'_> {
    fn place(&mut self, nth: usize, wanted: usize, moved: usize) {
        let merit = (moved, self.moves.len());
        let best = self
            .best
            .as_ref()
            .map(|best| (best.servers, best.moves.len()));
        if self.work == 0 || best.is_some_and(|best| merit >= best) {
            return;
        }
        self.work -= 1;
        let Some(&job) = self.order.get(nth) else {
            let mut moves = self.moves.clone();
            moves.sort_unstable();
            self.best = Some(Packed {
                block: wanted,
                moves,
                servers: moved,
            });
            return;
        };
        let (own, servers) = self.jobs[job];
        let others = (0..self.left.len()).filter(|&block| block != own);
        for block in std::iter::once(own).chain(others) {
            if self.left[block] < servers {
                continue;
            }
            let moves = block != own;
            self.left[block] -= servers;
            if moves {
                self.moves.push((job, block));
            }
            self.place(nth + 1, wanted, moved + if moves { servers } else { 0 });
            if moves {
                self.moves.pop();
            }
            self.left[block] += servers;
        }
    }
}
