//! The workload of a job in an iteration: computation, transfers and their order.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::units::Bytes;

/// How the ranks of a job exchange data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Reduce-scatter, then all-gather, around a ring in rank order.
    RingAllReduce,
    /// Reduce-scatter inside groups of neighbouring ranks, all-reduce between the groups, then
    /// all-gather inside them.
    HierarchicalAllReduce { group_size: usize },
    /// Each rank sends an equal share to each other rank.
    AllToAll,
    /// Activations forward through the ranks, gradients back, once per micro-batch.
    Pipeline { microbatches: usize },
    /// Each pair's first rank sends to its second, all at once.
    Streams { pairs: Vec<[Rank; 2]> },
}

/// Steps of one rank in an iteration. A step starts when the previous one has ended.
pub type Program = Vec<ProgramStep>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramStep {
    Compute(Duration),
    /// Ends when all data are sent and received.
    Exchange {
        sends: Vec<Transfer>,
        receives: Vec<Transfer>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    pub peer: Rank,
    pub bytes: Bytes,
}

impl Pattern {
    /// Returns the communication of one iteration for each of `ranks` ranks. `bytes` is the size of the reduced data,
    /// of a rank's sent data in total, or of one message.
    pub fn programs(&self, ranks: usize, bytes: Bytes) -> Vec<Program> {
        match self {
            Self::RingAllReduce => {
                let ring: Vec<_> = (0..ranks).collect();
                let mut programs = Programs::new(ranks);
                programs.ring(&ring, bytes, 0..2 * (ranks - 1));
                programs.0
            }
            Self::HierarchicalAllReduce { group_size } => hierarchical(ranks, *group_size, bytes),
            Self::AllToAll => all_to_all(ranks, bytes),
            Self::Pipeline { microbatches } => pipeline(ranks, *microbatches, bytes),
            Self::Streams { pairs } => streams(ranks, pairs, bytes),
        }
    }
}

impl Pattern {
    /// Returns each pair of ranks of which one sends to the other, without building all programs.
    pub fn peers(&self, ranks: usize) -> Vec<[Rank; 2]> {
        let pairs: Vec<[usize; 2]> = match self {
            Self::RingAllReduce => around((0..ranks).collect()).collect(),
            Self::HierarchicalAllReduce { group_size } => {
                let size = *group_size;
                let inside = (0..ranks)
                    .step_by(size)
                    .map(|first| (first..first + size).collect());
                let across = (0..size).map(|member| (member..ranks).step_by(size).collect());
                inside.chain(across).flat_map(around).collect()
            }
            Self::AllToAll => (0..ranks)
                .flat_map(|a| (a + 1..ranks).map(move |b| [a, b]))
                .collect(),
            Self::Pipeline { .. } => (1..ranks).map(|rank| [rank - 1, rank]).collect(),
            Self::Streams { pairs } => return pairs.clone(),
        };
        let rank = |pair: [usize; 2]| pair.map(Rank::from_index);
        pairs.into_iter().map(rank).collect()
    }
}

/// Returns the pairs of neighbours on a ring; a ring of one has none.
fn around(ring: Vec<usize>) -> impl Iterator<Item = [usize; 2]> {
    let len = ring.len();
    let next = move |at: usize| [ring[at], ring[(at + 1) % len]];
    (0..len).map(next).filter(|[a, b]| a != b)
}

/// Programs under construction, one per rank.
struct Programs(Vec<Program>);

impl Programs {
    fn new(ranks: usize) -> Self {
        Self(vec![Vec::new(); ranks])
    }

    fn exchange(&mut self, rank: usize, sends: Vec<Transfer>, receives: Vec<Transfer>) {
        if !(sends.is_empty() && receives.is_empty()) {
            self.0[rank].push(ProgramStep::Exchange { sends, receives });
        }
    }

    /// In each step every member passes one chunk to the next. On a ring of n, steps 0..n-1 reduce and scatter, and
    /// steps n-1..2(n-1) gather.
    fn ring(&mut self, ring: &[usize], bytes: Bytes, steps: Range<usize>) {
        let len = ring.len();
        let chunks: Vec<_> = bytes.split(len).collect();
        for step in steps {
            let chunk_of = |position: usize| chunks[(position + 2 * len - step) % len];
            for (position, &rank) in ring.iter().enumerate() {
                let [next, previous] = [position + 1, position + len - 1].map(|at| at % len);
                let send = transfer(ring[next], chunk_of(position));
                let receive = transfer(ring[previous], chunk_of(previous));
                self.exchange(rank, vec![send], vec![receive]);
            }
        }
    }
}

fn transfer(peer: usize, bytes: Bytes) -> Transfer {
    Transfer {
        peer: Rank::from_index(peer),
        bytes,
    }
}

fn hierarchical(ranks: usize, group_size: usize, bytes: Bytes) -> Vec<Program> {
    let all: Vec<_> = (0..ranks).collect();
    let groups: Vec<_> = all.chunks(group_size).collect();
    let shares: Vec<_> = bytes.split(group_size).collect();
    let mut programs = Programs::new(ranks);
    for group in &groups {
        programs.ring(group, bytes, 0..group_size - 1);
    }
    for member in 0..group_size {
        let across: Vec<_> = groups.iter().map(|group| group[member]).collect();
        // The share that the reduction has left with this member of each group.
        let share = shares[(member + 1) % group_size];
        programs.ring(&across, share, 0..2 * (across.len() - 1));
    }
    for group in &groups {
        programs.ring(group, bytes, group_size - 1..2 * (group_size - 1));
    }
    programs.0
}

/// In step s every rank sends to the rank s further on, so that no host receives from two at once.
fn all_to_all(ranks: usize, bytes: Bytes) -> Vec<Program> {
    let shares: Vec<_> = bytes.split(ranks - 1).collect();
    let mut programs = Programs::new(ranks);
    for (shift, &share) in (1..ranks).zip(&shares) {
        for rank in 0..ranks {
            let send = transfer((rank + shift) % ranks, share);
            let receive = transfer((rank + ranks - shift) % ranks, share);
            programs.exchange(rank, vec![send], vec![receive]);
        }
    }
    programs.0
}

fn pipeline(stages: usize, microbatches: usize, bytes: Bytes) -> Vec<Program> {
    let mut programs = Programs::new(stages);
    let forward: Vec<_> = (0..stages).collect();
    let backward: Vec<_> = forward.iter().rev().copied().collect();
    for way in [forward, backward] {
        for _ in 0..microbatches {
            for hop in way.windows(2) {
                programs.exchange(hop[0], vec![transfer(hop[1], bytes)], Vec::new());
                programs.exchange(hop[1], Vec::new(), vec![transfer(hop[0], bytes)]);
            }
        }
    }
    programs.0
}

fn streams(ranks: usize, pairs: &[[Rank; 2]], bytes: Bytes) -> Vec<Program> {
    let mut programs = Programs::new(ranks);
    for rank in 0..ranks {
        let peers = |end: usize| {
            let own = pairs.iter().filter(move |pair| pair[end].index() == rank);
            own.map(|pair| Transfer {
                peer: pair[1 - end],
                bytes,
            })
            .collect()
        };
        programs.exchange(rank, peers(0), peers(1));
    }
    programs.0
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn transfers(program: &Program) -> impl Iterator<Item = (&[Transfer], &[Transfer])> {
        program.iter().filter_map(|step| match step {
            ProgramStep::Compute(_) => None,
            ProgramStep::Exchange { sends, receives } => Some((&sends[..], &receives[..])),
        })
    }

    fn sent(program: &Program) -> u64 {
        transfers(program)
            .flat_map(|(sends, _)| sends)
            .map(|sent| sent.bytes.count())
            .sum()
    }

    /// Returns the sizes of all messages of each ordered pair, in the order of the sender or of the receiver.
    fn messages(programs: &[Program], as_sender: bool) -> BTreeMap<(usize, usize), Vec<Bytes>> {
        let mut messages: BTreeMap<_, Vec<Bytes>> = BTreeMap::new();
        for (rank, program) in programs.iter().enumerate() {
            for (sends, receives) in transfers(program) {
                for transfer in if as_sender { sends } else { receives } {
                    let peer = transfer.peer.index();
                    let pair = if as_sender {
                        (rank, peer)
                    } else {
                        (peer, rank)
                    };
                    messages.entry(pair).or_default().push(transfer.bytes);
                }
            }
        }
        messages
    }

    /// Runs all programs with instant messages. Returns false on a deadlock.
    fn runs_to_its_end(programs: &[Program]) -> bool {
        let mut at = vec![0; programs.len()];
        let mut in_flight: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut announced = vec![usize::MAX; programs.len()];
        loop {
            let mut moved = false;
            for (rank, program) in programs.iter().enumerate() {
                let Some(ProgramStep::Exchange { sends, receives }) = program.get(at[rank]) else {
                    continue;
                };
                if announced[rank] != at[rank] {
                    announced[rank] = at[rank];
                    for send in sends {
                        *in_flight.entry((rank, send.peer.index())).or_default() += 1;
                    }
                }
                let pairs = receives.iter().map(|receive| (receive.peer.index(), rank));
                if pairs
                    .clone()
                    .all(|pair| in_flight.get(&pair).is_some_and(|&count| count > 0))
                {
                    for pair in pairs {
                        *in_flight.get_mut(&pair).unwrap() -= 1;
                    }
                    at[rank] += 1;
                    moved = true;
                }
            }
            if !moved {
                return at
                    .iter()
                    .zip(programs)
                    .all(|(&at, program)| at == program.len());
            }
        }
    }

    fn patterns() -> [(Pattern, usize); 6] {
        let pairs = vec![[0, 2], [1, 2]]
            .into_iter()
            .map(|pair| pair.map(Rank::from_index));
        [
            (Pattern::RingAllReduce, 5),
            (Pattern::HierarchicalAllReduce { group_size: 2 }, 6),
            (Pattern::HierarchicalAllReduce { group_size: 4 }, 4),
            (Pattern::AllToAll, 4),
            (Pattern::Pipeline { microbatches: 3 }, 4),
            (
                Pattern::Streams {
                    pairs: pairs.collect(),
                },
                3,
            ),
        ]
    }

    #[test]
    fn programs_match_messages_without_deadlock() {
        for (pattern, ranks) in patterns() {
            let programs = pattern.programs(ranks, Bytes::new(1003));
            assert_eq!(
                messages(&programs, true),
                messages(&programs, false),
                "{pattern:?}"
            );
            assert!(runs_to_its_end(&programs), "{pattern:?}");
        }
    }

    #[test]
    fn peers_are_those_programs_send_to() {
        let unordered = |[a, b]: [usize; 2]| [a.min(b), a.max(b)];
        for (pattern, ranks) in patterns() {
            let programs = pattern.programs(ranks, Bytes::new(1003));
            let sent = messages(&programs, true).into_keys();
            let sent: BTreeSet<_> = sent.map(|(from, to)| unordered([from, to])).collect();
            let peers = pattern.peers(ranks).into_iter();
            let peers: BTreeSet<_> = peers.map(|pair| unordered(pair.map(Rank::index))).collect();
            assert_eq!(peers, sent, "{pattern:?}");
        }
    }

    #[test]
    fn volumes_match_their_algorithms() {
        let each = |pattern: Pattern, ranks| -> Vec<u64> {
            pattern
                .programs(ranks, Bytes::new(1200))
                .iter()
                .map(sent)
                .collect()
        };
        assert_eq!(each(Pattern::RingAllReduce, 4), [1200 * 2 * 3 / 4; 4]);
        assert_eq!(each(Pattern::AllToAll, 4), [1200; 4]);
        // 2 x 1/2 of the data inside the pair, and 2 x 2/3 of a half between three pairs.
        let hierarchical = Pattern::HierarchicalAllReduce { group_size: 2 };
        assert_eq!(each(hierarchical, 6), [1200 + 800; 6]);
        assert_eq!(
            each(Pattern::Pipeline { microbatches: 2 }, 3),
            [2400, 4800, 2400]
        );
    }
}
