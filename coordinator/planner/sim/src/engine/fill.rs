//! Local repair: computes max-min fair rates after a change, and touches as little as possible.
//!
//! The groups that began or changed, and those whose bottleneck is on their path, are lifted out, and their rates are
//! found by progressive filling while all others keep theirs. Then the certificate is checked wherever something was
//! touched: each group needs a full link on which no group has a higher level. A bottleneck that no longer certifies is
//! opened, its groups are lifted too, and the filling restarts. When no such link is left, the rates are those of all
//! flows together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::group::Tag;
use super::shares::{Full, Link, Shares};

/// After this many fillings every bottleneck that is touched is opened at once.
const MAX_SELECTIVE_FILLINGS: u32 = 6;
/// Looking through all links is quick where few levels are found, as in all that is symmetrical.
const MAX_SCANNED_LEVELS: u32 = 3;

impl Shares<'_> {
    pub(super) fn find_rates(&mut self) {
        let mut lifted = 0;
        for filling in 0.. {
            while lifted < self.open.len() {
                self.unbind(self.open[lifted]);
                lifted += 1;
            }
            self.fill();
            self.open_violated(filling >= MAX_SELECTIVE_FILLINGS);
            if self.open.len() == lifted {
                break;
            }
        }
    }

    /// Progressive filling of the region: all its rates rise together, and stop link by link. All
    /// links that fill up at one level do so together, in any order.
    fn fill(&mut self) {
        self.raise_region();
        let mut rising = std::mem::take(&mut self.rising);
        rising.clone_from(&self.touched);
        for _ in 0..MAX_SCANNED_LEVELS {
            if rising.is_empty() {
                break;
            }
            self.fill_least(&mut rising);
        }
        self.fill_by_heap(&rising);
        self.rising = rising;
    }

    /// Fills the links with the least level of these, and forgets those on which no group rises.
    fn fill_least(&mut self, rising: &mut Vec<u32>) {
        let mut least = i64::MAX;
        let mut equal = std::mem::take(&mut self.equal);
        rising.retain(|&link| {
            let it = &self.links[link as usize];
            if it.rising == 0 {
                return false;
            }
            let level = share(it);
            if level < least {
                least = level;
                equal.clear();
            }
            if level == least {
                equal.push(link);
            }
            true
        });
        self.stop_all_at(&mut equal, least);
        self.equal = equal;
    }

    /// The same for many levels: the next one is on top of a heap.
    fn fill_by_heap(&mut self, rising: &[u32]) {
        let mut heap = std::mem::take(&mut self.heap);
        let risen = rising
            .iter()
            .map(|&link| (link, &self.links[link as usize]));
        let risen = risen.filter(|(_, it)| it.rising > 0);
        heap.extend(risen.map(|(link, it)| Reverse((share(it), link))));
        let mut equal = std::mem::take(&mut self.equal);
        while let Some(&Reverse((level, _))) = heap.peek() {
            while let Some(&Reverse((other, link))) = heap.peek()
                && other == level
            {
                heap.pop();
                if self.is_next(level, link, &mut heap) {
                    equal.push(link);
                }
            }
            self.stop_all_at(&mut equal, level);
        }
        (self.heap, self.equal) = (heap, equal);
    }

    fn stop_all_at(&mut self, links: &mut Vec<u32>, level: i64) {
        // The first of several bottlenecks of a group owns it.
        links.sort_unstable();
        for link in links.drain(..) {
            self.stop_at(link, level);
        }
    }

    /// Whether the link fills up at `level`. One that fills up later than estimated is put back.
    fn is_next(
        &mut self,
        level: i64,
        link: u32,
        heap: &mut BinaryHeap<Reverse<(i64, u32)>>,
    ) -> bool {
        let it = &self.links[link as usize];
        if it.rising == 0 {
            return false;
        }
        let now = share(it);
        if now > level {
            heap.push(Reverse((now, link)));
        }
        now <= level
    }

    /// Takes the region's rates out of all sums.
    fn raise_region(&mut self) {
        self.filling += 1;
        self.touched.clear();
        self.full.clear();
        for nth in 0..self.region.len() {
            let group = self.region[nth];
            let tag = &mut self.tags[group as usize];
            *tag = tag.in_state(Tag::STATE_RISING);
            let it = &mut self.groups[group as usize];
            let weight = it.weight;
            let freed = std::mem::take(&mut it.rate) * weight;
            let path = it.links(self.problem);
            self.work += path.len() as u64;
            for &link in path {
                let it = &mut self.links[link as usize];
                if std::mem::replace(&mut it.touched, self.filling) != self.filling {
                    (it.rising, it.top) = (0, 0);
                    self.touched.push(link);
                }
                it.load -= freed;
                it.rising += weight;
            }
        }
    }

    /// A link is full: those of the region that still rise on it have found their bottleneck.
    fn stop_at(&mut self, link: u32, level: i64) {
        let level = self.level_at(link, level);
        let slack = self.links[link as usize].slack();
        let mut stopping = std::mem::take(&mut self.stopping);
        let mut members = std::mem::take(&mut self.members[link as usize]);
        self.work += members.len() as u64;
        members.retain(|member| {
            match self.tags[member.group as usize].state_of(member.tag) {
                Tag::STATE_AT_REST => self.open_if_above(member.group, level + slack),
                Tag::STATE_RISING => stopping.push(member.group),
                Tag::STATE_FOUND => {}
                _ => return false,
            }
            true
        });
        self.members[link as usize] = members;
        self.full.push(Full {
            link,
            level,
            stopped: stopping.len() as u32,
        });
        self.stop(&stopping, link, level);
        stopping.clear();
        self.stopping = stopping;
    }

    /// One that keeps its rate must not have more than those of the region have here.
    fn open_if_above(&mut self, group: u32, rate: i64) {
        let it = &self.groups[group as usize];
        if it.rate > rate {
            self.open(it.bottleneck);
        }
    }

    /// A bottleneck of others keeps its level where that fills it just as well. Where it does not,
    /// it certifies nothing any longer, and will be found out.
    fn level_at(&self, link: u32, level: i64) -> i64 {
        let it = &self.links[link as usize];
        if it.opened == self.repair || it.bounds == 0 {
            return level;
        }
        let needed = it.rising.saturating_mul(it.level);
        let spare = (it.capacity - it.load).saturating_sub(needed);
        let fills = (-it.slack()..=it.slack()).contains(&spare);
        if fills { it.level } else { level }
    }

    /// Two passes: lines of cache come faster when nothing is done with them yet.
    fn stop(&mut self, groups: &[u32], link: u32, level: i64) {
        for &group in groups {
            let tag = &mut self.tags[group as usize];
            *tag = tag.in_state(Tag::STATE_FOUND);
            let it = &mut self.groups[group as usize];
            (it.rate, it.found) = (level, link);
        }
        for &group in groups {
            let it = &self.groups[group as usize];
            for &link in it.links(self.problem) {
                let link = &mut self.links[link as usize];
                link.load += level * it.weight;
                link.rising -= it.weight;
                link.top = level;
            }
        }
    }

    /// Opens the bottlenecks that were touched and certify nothing any longer.
    fn open_violated(&mut self, all: bool) {
        for nth in 0..self.touched.len() {
            let link = self.touched[nth];
            let it = &self.links[link as usize];
            if it.bounds == 0 {
                continue;
            }
            let slack = it.slack();
            let certifies = it.capacity - it.load <= slack && it.top <= it.level + slack;
            if all || !certifies {
                self.open(link);
            }
        }
    }
}

/// The level at which a link will be full.
fn share(link: &Link) -> i64 {
    ((link.capacity - link.load) / link.rising).max(1)
}
