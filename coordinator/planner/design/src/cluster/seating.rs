//! Choice of a job's servers among the free ones.

use std::collections::{BTreeMap, BTreeSet};

use super::ground::{Ground, Server};
use crate::topology::{Pair, Wiring, pair};

/// Returns this number of free servers of one block, on the fewest hosts, because traffic within a host needs no
/// circuit. Partly used hosts are filled first.
pub(super) fn seats(
    ground: &Ground,
    free: &BTreeSet<Server>,
    block: usize,
    count: usize,
) -> Option<Vec<Server>> {
    let mut by_host = BTreeMap::<u32, Vec<Server>>::new();
    for &server in free.iter().filter(|it| ground.block_of(**it) == block) {
        by_host.entry(server.host).or_default().push(server);
    }
    let mut hosts: Vec<_> = by_host.into_values().collect();
    let mut seats = Vec::with_capacity(count);
    while seats.len() < count {
        let left = count - seats.len();
        let nth = next(&hosts, left)?;
        let host = hosts.remove(nth);
        seats.extend(host.into_iter().take(left));
    }
    seats.sort_unstable();
    Some(seats)
}

/// Returns the servers in the best block, if there is one.
pub(super) fn in_one(
    ground: &Ground,
    free: &BTreeSet<Server>,
    count: usize,
) -> Option<Vec<Server>> {
    let block = block(ground, free, count)?;
    seats(ground, free, block, count)
}

/// Returns this number of free servers from blocks that trunks join: all of the fullest block, and then those of its
/// neighbours.
pub(super) fn across(
    ground: &Ground,
    free: &BTreeSet<Server>,
    count: usize,
) -> Option<Vec<Server>> {
    let room = free_by_block(ground, free);
    let enough = |block: &usize| {
        let joined = ground.joined_to(*block).into_iter();
        joined.map(|it| room[it]).sum::<usize>() >= count
    };
    let mut next = (0..room.len()).filter(enough).max_by_key(|&it| room[it]);
    let mut chosen = BTreeSet::new();
    let mut found = Vec::with_capacity(count);
    while let Some(block) = next {
        chosen.insert(block);
        let part = room[block].min(count - found.len());
        found.extend(seats(ground, free, block, part)?);
        let beside = chosen.iter().flat_map(|&it| ground.beside(it));
        let beside = beside.filter(|it| room[*it] > 0 && !chosen.contains(it));
        next = beside.max_by_key(|&it| room[it]);
        if found.len() == count {
            return Some(found);
        }
    }
    None
}

/// The host with the fewest free slices that do; where none has enough, the one with the most.
fn next(hosts: &[Vec<Server>], left: usize) -> Option<usize> {
    let room = |nth: &usize| hosts[*nth].len();
    let enough = (0..hosts.len()).filter(|nth| room(nth) >= left);
    let most = || (0..hosts.len()).min_by_key(|nth| std::cmp::Reverse(room(nth)));
    enough.min_by_key(room).or_else(most)
}

/// The block with the fewest free servers that are enough, so that larger stretches stay whole.
pub(super) fn block(ground: &Ground, free: &BTreeSet<Server>, count: usize) -> Option<usize> {
    let room = free_by_block(ground, free);
    let fits = (0..room.len()).filter(|&block| room[block] >= count);
    fits.min_by_key(|&block| room[block])
}

pub(super) fn free_by_block(ground: &Ground, free: &BTreeSet<Server>) -> Vec<usize> {
    let mut room = vec![0; ground.blocks.len()];
    for &server in free {
        room[ground.block_of(server)] += 1;
    }
    room
}

/// Up to this number of hosts, all orders are tried.
const MAX_EXHAUSTIVE_HOSTS: usize = 7;

/// Assigns hosts to places of a wiring, so that most of its links exist already. Only hosts of the same kind exchange
/// places.
pub(super) fn order<K: PartialEq>(
    wiring: &Wiring,
    hosts: &[u32],
    kinds: &[K],
    old: &[Pair],
) -> Vec<u32> {
    let old: BTreeSet<_> = old.iter().copied().collect();
    let mut ordering = Ordering {
        wiring,
        kinds,
        old: &old,
        hosts: hosts.to_vec(),
    };
    match hosts.len() {
        _ if old.is_empty() => {}
        ..=MAX_EXHAUSTIVE_HOSTS => ordering.try_all(),
        _ => ordering.swap_while_better(),
    }
    ordering.hosts
}

struct Ordering<'o, K> {
    wiring: &'o Wiring,
    kinds: &'o [K],
    old: &'o BTreeSet<Pair>,
    hosts: Vec<u32>,
}

impl<K: PartialEq> Ordering<'_, K> {
    /// Returns the number of existing links in the wiring.
    fn merit(&self) -> usize {
        let real = |[a, b]: Pair| pair(self.hosts[a as usize], self.hosts[b as usize]);
        let pairs = self.wiring.pairs().into_iter();
        pairs.filter(|&ends| self.old.contains(&real(ends))).count()
    }

    /// Returns the number of existing links at a place.
    fn merit_at(&self, place: usize) -> usize {
        let own = self.hosts[place];
        let others = self.wiring.neighbours(place as u32).iter();
        let there = |&&other: &&u32| self.old.contains(&pair(own, self.hosts[other as usize]));
        others.filter(there).count()
    }

    fn try_all(&mut self) {
        let mut best = (self.merit(), self.hosts.clone());
        self.deeper(0, &mut best);
        self.hosts = best.1;
    }

    fn deeper(&mut self, place: usize, best: &mut (usize, Vec<u32>)) {
        if place == self.hosts.len() {
            let merit = self.merit();
            if merit > best.0 {
                *best = (merit, self.hosts.clone());
            }
            return;
        }
        for other in place..self.hosts.len() {
            if self.kinds[place] == self.kinds[other] {
                self.hosts.swap(place, other);
                self.deeper(place + 1, best);
                self.hosts.swap(place, other);
            }
        }
    }

    fn swap_while_better(&mut self) {
        loop {
            let mut better = false;
            for a in 0..self.hosts.len() {
                for b in a + 1..self.hosts.len() {
                    better |= self.kinds[a] == self.kinds[b] && self.swap_if_better(a, b);
                }
            }
            if !better {
                return;
            }
        }
    }

    /// A link between the two is counted twice, before and after.
    fn swap_if_better(&mut self, a: usize, b: usize) -> bool {
        let before = self.merit_at(a) + self.merit_at(b);
        self.hosts.swap(a, b);
        let better = self.merit_at(a) + self.merit_at(b) > before;
        if !better {
            self.hosts.swap(a, b);
        }
        better
    }
}
