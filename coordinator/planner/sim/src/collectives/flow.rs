//! Maximum flows, after Dinic.

use std::collections::VecDeque;

/// Capacity without a limit.
pub(super) const UNBOUNDED_CAPACITY: i128 = i128::MAX / 4;

#[derive(Debug, Clone, Copy)]
struct Arc {
    to: usize,
    /// Remaining capacity.
    room: i128,
}

/// A graph with capacities. Arc `2n` is the n-th that was added, arc `2n + 1` its residual arc.
#[derive(Debug, Clone)]
pub(super) struct FlowGraph {
    arcs: Vec<Arc>,
    capacities: Vec<i128>,
    from: Vec<Vec<usize>>,
    levels: Vec<usize>,
    next: Vec<usize>,
    pub(super) work: u64,
}

const UNREACHED_LEVEL: usize = usize::MAX;

impl FlowGraph {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            arcs: Vec::new(),
            capacities: Vec::new(),
            from: vec![Vec::new(); nodes],
            levels: Vec::new(),
            next: Vec::new(),
            work: 0,
        }
    }

    pub(super) fn add(&mut self, from: usize, to: usize, capacity: i128) {
        for (a, b, room) in [(from, to, capacity), (to, from, 0)] {
            self.from[a].push(self.arcs.len());
            self.arcs.push(Arc { to: b, room });
        }
        self.capacities.push(capacity);
    }

    /// Changes the capacity of the n-th arc; what flows is forgotten by the next `reset`.
    pub(super) fn set(&mut self, nth: usize, capacity: i128) {
        self.capacities[nth] = capacity;
    }

    pub(super) fn reset(&mut self) {
        for (pair, &capacity) in self.arcs.chunks_mut(2).zip(&self.capacities) {
            pair[0].room = capacity;
            pair[1].room = 0;
        }
    }

    /// The flow from `source` to `sink`, or `enough` where there is more.
    pub(super) fn most(&mut self, source: usize, sink: usize, enough: i128) -> i128 {
        let mut flow = 0;
        while flow < enough && self.find_levels(source, sink) {
            self.next = vec![0; self.from.len()];
            loop {
                let pushed = self.push(source, sink, enough - flow);
                if pushed == 0 {
                    break;
                }
                flow += pushed;
            }
        }
        flow
    }

    /// After `most` has ended below `enough`: which nodes the source still reaches.
    pub(super) fn reached(&self) -> Vec<bool> {
        self.levels
            .iter()
            .map(|&level| level != UNREACHED_LEVEL)
            .collect()
    }

    fn find_levels(&mut self, source: usize, sink: usize) -> bool {
        self.levels = vec![UNREACHED_LEVEL; self.from.len()];
        self.levels[source] = 0;
        let mut line = VecDeque::from([source]);
        while let Some(at) = line.pop_front() {
            self.work += self.from[at].len() as u64;
            for &arc in &self.from[at] {
                let Arc { to, room } = self.arcs[arc];
                if room > 0 && self.levels[to] == UNREACHED_LEVEL {
                    self.levels[to] = self.levels[at] + 1;
                    line.push_back(to);
                }
            }
        }
        self.levels[sink] != UNREACHED_LEVEL
    }

    /// Pushes flow along one path, found depth-first without recursion, because paths may be long.
    fn push(&mut self, source: usize, sink: usize, most: i128) -> i128 {
        let mut way: Vec<usize> = Vec::new();
        let mut at = source;
        while at != sink {
            self.work += 1;
            let Some(&arc) = self.from[at].get(self.next[at]) else {
                let Some(back) = way.pop() else {
                    return 0;
                };
                at = self.arcs[back ^ 1].to;
                self.next[at] += 1;
                continue;
            };
            let Arc { to, room } = self.arcs[arc];
            if room > 0 && self.levels[to] == self.levels[at] + 1 {
                way.push(arc);
                at = to;
            } else {
                self.next[at] += 1;
            }
        }
        let room = way.iter().map(|&arc| self.arcs[arc].room);
        let pushed = room.fold(most, i128::min);
        for arc in way {
            self.arcs[arc].room -= pushed;
            self.arcs[arc ^ 1].room += pushed;
        }
        pushed
    }
}
