//! Chooses few of the probe flows with known paths, without losing information about links.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::paths::HopIndex;

/// A flow of probes that could be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Pair of hosts; at least one flow of each is chosen, because the path between them is of interest too.
    pub pair: usize,
    /// Hops in each direction. It is known in which direction a probe was lost.
    pub ways: [Vec<HopIndex>; 2],
}

/// The places of those to be sent: every hop is crossed `times` times, or as often as all of them
/// cross it, and hops that all of them together distinguish are distinguished.
pub fn choose(candidates: &[Candidate], hops: usize, times: u32) -> Vec<usize> {
    let mut choice = Choice::new(candidates, hops, times);
    choice.take_one_of_each_pair();
    choice.take_until_covered();
    choice.take_until_distinct();
    let taken = choice.taken.iter().enumerate();
    taken.filter(|(_, taken)| **taken).map(|it| it.0).collect()
}

struct Choice<'c> {
    candidates: &'c [Candidate],
    taken: Vec<bool>,
    /// Missing crossings of each hop.
    missing: Vec<u32>,
    /// Class of each hop: hops of a class are crossed by the same chosen paths so far.
    class: Vec<usize>,
    members: Vec<usize>,
}

impl<'c> Choice<'c> {
    fn new(candidates: &'c [Candidate], hops: usize, times: u32) -> Self {
        Self {
            candidates,
            taken: vec![false; candidates.len()],
            missing: vec![times; hops],
            class: vec![0; hops],
            members: vec![hops],
        }
    }

    fn gain(&self, place: usize) -> u32 {
        let crossed = self.candidates[place].ways.iter().flatten();
        crossed.map(|&hop| self.missing[hop]).sum()
    }

    fn take(&mut self, place: usize) {
        self.taken[place] = true;
        for way in &self.candidates[place].ways {
            for &hop in way {
                self.missing[hop] = self.missing[hop].saturating_sub(1);
            }
            self.split(way);
        }
    }

    fn take_one_of_each_pair(&mut self) {
        let mut pairs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, candidate) in self.candidates.iter().enumerate() {
            pairs.entry(candidate.pair).or_default().push(place);
        }
        for places in pairs.into_values() {
            let best = places
                .into_iter()
                .max_by_key(|&place| (self.gain(place), Reverse(place)));
            best.into_iter().for_each(|place| self.take(place));
        }
    }

    /// A gain only ever falls: what is still the largest when looked at again is the largest.
    fn take_until_covered(&mut self) {
        let left = (0..self.taken.len()).filter(|&place| !self.taken[place]);
        let mut left: BinaryHeap<_> = left
            .map(|place| (self.gain(place), Reverse(place)))
            .collect();
        while let Some((report, Reverse(place))) = left.pop() {
            let gain = self.gain(place);
            match gain {
                0 => {}
                _ if gain == report => self.take(place),
                _ => left.push((gain, Reverse(place))),
            }
        }
    }

    /// A probe that splits no class now never will, because classes only become smaller.
    fn take_until_distinct(&mut self) {
        for (place, candidate) in self.candidates.iter().enumerate() {
            if !self.taken[place] && candidate.ways.iter().any(|way| self.tells_apart(way)) {
                self.take(place);
            }
        }
    }

    fn crossed(&self, way: &[HopIndex]) -> BTreeMap<usize, usize> {
        let mut crossed = BTreeMap::new();
        // A path with a loop crosses a hop twice.
        for hop in way.iter().collect::<BTreeSet<_>>() {
            *crossed.entry(self.class[*hop]).or_default() += 1;
        }
        crossed
    }

    fn tells_apart(&self, way: &[HopIndex]) -> bool {
        let mut crossed = self.crossed(way).into_iter();
        crossed.any(|(class, count)| count < self.members[class])
    }

    /// Splits the classes of the hops on a path.
    fn split(&mut self, way: &[HopIndex]) {
        let mut parts = BTreeMap::new();
        for (class, count) in self.crossed(way) {
            if count < self.members[class] {
                parts.insert(class, self.members.len());
                self.members[class] -= count;
                self.members.push(count);
            }
        }
        for &hop in way {
            let class = self.class[hop];
            self.class[hop] = parts.get(&class).copied().unwrap_or(class);
        }
    }
}
