//! Many small heaps in one arena: the flows that run on each path, the first to end on top.
//!
//! Pairing heaps: most paths carry one flow, and many flows that join one path are popped in the
//! order in which they joined.

pub(super) const EMPTY_HEAP: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    goal: f64,
    task: u32,
    child: u32,
    next: u32,
}

#[derive(Debug, Default)]
pub(super) struct Heaps {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Work space of `pop`.
    pairs: Vec<u32>,
}

impl Heaps {
    /// The root of the heap at `root` with one more in it.
    pub(super) fn push(&mut self, root: u32, goal: f64, task: u32) -> u32 {
        let node = Node {
            goal,
            task,
            child: EMPTY_HEAP,
            next: EMPTY_HEAP,
        };
        let added = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.merge(root, added)
    }

    /// The least goal and its task.
    pub(super) fn top(&self, root: u32) -> Option<(f64, u32)> {
        let node = self.nodes.get(root as usize)?;
        Some((node.goal, node.task))
    }

    /// The root of the heap at `root` without its top.
    pub(super) fn pop(&mut self, root: u32) -> u32 {
        let mut child = self.nodes[root as usize].child;
        self.free.push(root);
        let mut pairs = std::mem::take(&mut self.pairs);
        while child != EMPTY_HEAP {
            let second = std::mem::replace(&mut self.nodes[child as usize].next, EMPTY_HEAP);
            let mut rest = EMPTY_HEAP;
            if second != EMPTY_HEAP {
                rest = std::mem::replace(&mut self.nodes[second as usize].next, EMPTY_HEAP);
            }
            pairs.push(self.merge(child, second));
            child = rest;
        }
        let mut whole = EMPTY_HEAP;
        while let Some(pair) = pairs.pop() {
            whole = self.merge(whole, pair);
        }
        self.pairs = pairs;
        whole
    }

    fn merge(&mut self, a: u32, b: u32) -> u32 {
        if a == EMPTY_HEAP || b == EMPTY_HEAP {
            return a.min(b);
        }
        let key = |node: u32| {
            (
                self.nodes[node as usize].goal,
                self.nodes[node as usize].task,
            )
        };
        let (winner, loser) = if key(a) <= key(b) { (a, b) } else { (b, a) };
        self.nodes[loser as usize].next = self.nodes[winner as usize].child;
        self.nodes[winner as usize].child = loser;
        winner
    }
}
