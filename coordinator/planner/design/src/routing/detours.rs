//! Table entries that replace a failed cable before the planner has computed new routes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::lanes::Lanes;
use super::splits::Routes;
use crate::topology::{Pair, Wiring};

/// New table entry of one host for one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub at: u32,
    pub to: u32,
    /// Next hops with their weights.
    pub next: Vec<(u32, u8)>,
}

impl Routes {
    /// The routes of the tables whose next hops are wired. Other routes are left out.
    pub fn of(wiring: &Wiring, entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut routes = Self::new(Lanes::of(wiring));
        entries.into_iter().for_each(|entry| routes.put(&entry));
        routes
    }

    /// Returns the routes with these entries replaced.
    pub fn with(&self, entries: &[Entry]) -> Self {
        let mut routes = self.clone();
        entries.iter().for_each(|entry| routes.put(entry));
        routes
    }

    fn put(&mut self, Entry { at, to, next }: &Entry) {
        let lanes = self.lanes().clone();
        let weights = self.towards_mut(*to);
        weights[lanes.from(*at)].fill(0);
        for &(end, weight) in next {
            if let Some(lane) = lanes.between(*at, end) {
                weights[lane] = weight;
            }
        }
    }
}

/// Returns the fewest changed entries with which nothing crosses a cable in either direction. In this order, no loop
/// arises in between. None if some hosts have no other path.
pub fn detours(routes: &Routes, [a, b]: Pair) -> Option<Vec<Entry>> {
    let hosts = 0..routes.lanes().hosts() as u32;
    let mut entries = Vec::new();
    for to in hosts {
        for [at, gone] in [[a, b], [b, a]] {
            let mut next = routes.next(at, to);
            if next.any(|(lane, _)| routes.lanes().end(lane) == gone) {
                entries.extend(
                    Detour {
                        routes,
                        to,
                        at,
                        gone,
                    }
                    .entries()?,
                );
            }
        }
    }
    Some(entries)
}

/// A host that must not send over one of its cables what is meant for another.
struct Detour<'d> {
    routes: &'d Routes,
    to: u32,
    at: u32,
    gone: u32,
}

impl Detour<'_> {
    /// Returns the changed entries. The remaining next hops of a host take over; else neighbours whose own paths do not
    /// return to it; else hosts are turned around one by one, up to one with such a neighbour.
    fn entries(&self) -> Option<Vec<Entry>> {
        let lanes = self.routes.lanes();
        let others = self.routes.next(self.at, self.to);
        let others = others.map(|(lane, weight)| (lanes.end(lane), weight));
        let others: Vec<_> = others.filter(|(end, _)| *end != self.gone).collect();
        if !others.is_empty() {
            return Some(vec![self.entry(self.at, others)]);
        }
        let free = self.neighbours(self.at).filter(|&it| self.leads_away(it));
        let free: Vec<_> = free.map(|it| (it, 1)).collect();
        if free.is_empty() {
            self.turned()
        } else {
            Some(vec![self.entry(self.at, free)])
        }
    }

    fn entry(&self, at: u32, next: Vec<(u32, u8)>) -> Entry {
        let to = self.to;
        Entry { at, to, next }
    }

    /// Without the one at the other end of the cable.
    fn neighbours(&self, of: u32) -> impl Iterator<Item = u32> {
        let lanes = self.routes.lanes();
        let cable = [self.at, self.gone];
        let ends = lanes.from(of).map(move |lane| lanes.end(lane));
        ends.filter(move |end| !(cable.contains(&of) && cable.contains(end)))
    }

    /// Whether all paths of a host reach the destination without the host that needs a detour.
    fn leads_away(&self, from: u32) -> bool {
        let mut met = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            let next = self.routes.next(at, self.to);
            let mut next = next
                .map(|(lane, _)| self.routes.lanes().end(lane))
                .peekable();
            if at == self.at || (at != self.to && next.peek().is_none()) {
                return false;
            }
            open.extend(next.filter(|&it| met.insert(it)));
        }
        true
    }

    fn turned(&self) -> Option<Vec<Entry>> {
        let mut came_from = BTreeMap::from([(self.at, self.at)]);
        let mut line = VecDeque::from([self.at]);
        while let Some(at) = line.pop_front() {
            for next in self.neighbours(at) {
                if came_from.contains_key(&next) {
                    continue;
                }
                came_from.insert(next, at);
                if self.leads_away(next) {
                    return Some(self.back_from(next, &came_from));
                }
                line.push_back(next);
            }
        }
        None
    }

    fn back_from(&self, mut next: u32, came_from: &BTreeMap<u32, u32>) -> Vec<Entry> {
        let mut entries = Vec::new();
        while next != self.at {
            let at = came_from[&next];
            entries.push(self.entry(at, vec![(next, 1)]));
            next = at;
        }
        entries
    }
}
