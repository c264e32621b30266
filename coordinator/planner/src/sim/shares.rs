//! Who runs now, at which rate, and when the next flow ends.
//!
//! Flows on one path have one rate per weight, so they run as one group. The rate of a group is the
//! level of its bottleneck: a full link on which nobody has more. So a change of that level is one
//! number for all groups that it bounds: each link counts what it has served per weight since it
//! became a bottleneck, and a flow ends when that count reaches its goal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use reweave_common::units::Rate;

use super::certificate::Running;
use super::heaps::{EMPTY, Heaps};
use super::problem::{PathIndex, Problem, TaskIndex};
use super::queue::LinkQueue;
use super::time::SimTime;

pub(super) const NOBODY: u32 = u32::MAX;

/// Capacities are scaled to whole numbers of this many bits, so that sums of rates are exact in
/// any order.
const CAPACITY_BITS: u32 = 61;
/// Rates that differ by less than this part of a link's capacity are equal.
const SLACK_SHIFT: u32 = 48;

/// What filling looks at: one line of cache for each link.
#[derive(Debug, Clone, Default)]
#[repr(align(64))]
pub(super) struct Link {
    pub(super) capacity: i64,
    /// The sum of the rates of all that cross it, but for those that are being filled.
    pub(super) load: i64,
    /// The sum of the weights of all that cross it.
    pub(super) weight: i64,
    /// The sum of the weights of those that are still rising in the present filling.
    pub(super) rising: i64,
    /// The rate per weight of those that it bounds.
    pub(super) level: i64,
    /// The highest rate that the present filling has given on it.
    pub(super) top: i64,
    /// The filling that has touched it last.
    pub(super) touched: u32,
    /// The repair that has opened it last.
    pub(super) opened: u32,
    /// How many groups it bounds.
    pub(super) bounds: u32,
    /// How many groups cross it.
    crossing: u32,
}

/// What a link has done for those that it bounds.
#[derive(Debug, Clone)]
struct Meter {
    /// Bits per weight, up to the tick `since`.
    served: f64,
    since: u64,
    /// The least goal of those that it bounds.
    goal: f64,
}

impl Link {
    /// Spare capacity below this is none: it cannot be dealt out evenly in whole units.
    pub(super) fn slack(&self) -> i64 {
        self.weight + (self.capacity >> SLACK_SHIFT)
    }
}

impl Meter {
    const UNUSED: Self = Self {
        served: 0.0,
        since: 0,
        goal: f64::INFINITY,
    };
}

/// All flows on one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    path: PathIndex,
    /// Tells this group from earlier ones in the same place.
    pub(super) generation: u32,
    pub(super) weight: i64,
    /// The weight at the last repair.
    settled: i64,
    /// Per weight; zero while it is to be found.
    pub(super) rate: i64,
    pub(super) bottleneck: u32,
    /// The bottleneck that the present filling has found.
    pub(super) found: u32,
    /// The repair that has lifted it last.
    pub(super) lifted: u32,
    changed: bool,
    /// What its bottleneck had served when the group's own count was zero.
    offset: f64,
    /// Its flows, by their goals in the group's own count.
    flows: u32,
}

/// Stands in the list of a link's members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) group: u32,
    pub(super) generation: u32,
}

#[derive(Debug)]
pub(super) struct Shares<'p> {
    problem: &'p Problem,
    pub(super) links: Vec<Link>,
    meters: Vec<Meter>,
    /// By link, those that cross it, and some that did.
    pub(super) members: Vec<Vec<Member>>,
    /// By link, those whose bottleneck it is.
    bound: Vec<Vec<u32>>,
    pub(super) groups: Vec<Group>,
    free: Vec<u32>,
    /// By path, its group.
    group_of: Vec<u32>,
    heaps: Heaps,
    queue: LinkQueue,
    /// Bits in a tick at a rate of one unit.
    bits_per_unit: f64,
    /// Groups whose flows are others than at the last repair.
    changed: Vec<u32>,
    /// Links on which a flow has ended since.
    stirred: Vec<u32>,
    pub(super) repair: u32,
    pub(super) filling: u32,
    /// The groups whose rates are to be found.
    pub(super) region: Vec<u32>,
    /// The links whose levels are to be found.
    pub(super) open: Vec<u32>,
    /// The links that the present filling has touched.
    pub(super) touched: Vec<u32>,
    /// The links that the present filling has filled, and their levels.
    pub(super) full: Vec<(u32, i64)>,
    /// Work space of the filling.
    pub(super) rising: Vec<u32>,
    pub(super) equal: Vec<u32>,
    pub(super) heap: BinaryHeap<Reverse<(i64, u32)>>,
    pub(super) work: u64,
}

impl<'p> Shares<'p> {
    /// `at_once` is how many flows may run at once, as far as one can tell.
    pub(super) fn new(problem: &'p Problem, at_once: usize) -> Self {
        let most = problem.capacities().iter().map(|rate| rate.bits_per_s());
        let most = most.max().unwrap_or(1);
        let shift = (CAPACITY_BITS + most.leading_zeros()).saturating_sub(u64::BITS);
        let link = |rate: &Rate| Link {
            capacity: (rate.bits_per_s() << shift) as i64,
            ..Link::default()
        };
        let links: Vec<_> = problem.capacities().iter().map(link).collect();
        let units_per_s = SimTime::TICKS_PER_S as f64 * (1u64 << shift) as f64;
        Self {
            problem,
            members: vec![Vec::new(); links.len()],
            bound: vec![Vec::new(); links.len()],
            queue: LinkQueue::new(links.len()),
            meters: vec![Meter::UNUSED; links.len()],
            links,
            groups: Vec::with_capacity(at_once.min(problem.paths())),
            free: Vec::new(),
            group_of: vec![NOBODY; problem.paths()],
            heaps: Heaps::with_capacity(at_once),
            bits_per_unit: 1.0 / units_per_s,
            changed: Vec::new(),
            stirred: Vec::new(),
            repair: 0,
            filling: 0,
            region: Vec::new(),
            open: Vec::new(),
            touched: Vec::new(),
            full: Vec::new(),
            rising: Vec::new(),
            equal: Vec::new(),
            heap: BinaryHeap::new(),
            work: 0,
        }
    }

    /// When the next flow ends.
    pub(super) fn next(&self) -> Option<u64> {
        self.queue.next()
    }

    /// Each path in use with the weight on it and the rate per weight, in bits per second.
    pub(super) fn rates(&self) -> impl Iterator<Item = Running> {
        let running = self.groups.iter().filter(|group| group.settled > 0);
        running.map(|group| Running {
            path: group.path,
            weight: group.settled as f64,
            rate_bps: group.rate as f64 * self.bits_per_unit * SimTime::TICKS_PER_S as f64,
        })
    }

    pub(super) fn path_of(&self, group: u32) -> &'p [u32] {
        self.problem.path(self.groups[group as usize].path)
    }

    /// Lets a flow begin; its rate is found by the next repair.
    pub(super) fn join(&mut self, task: TaskIndex, path: PathIndex, bits: f64, now: u64) {
        let weight = self.problem.weight(task);
        let group = match self.group_of[path as usize] {
            NOBODY => self.found_group(path),
            group => group,
        };
        let goal = self.count(group, now) + bits / f64::from(weight);
        let it = &mut self.groups[group as usize];
        it.flows = self.heaps.push(it.flows, goal, task);
        it.weight += i64::from(weight);
        self.note_change(group);
    }

    fn found_group(&mut self, path: PathIndex) -> u32 {
        let group = self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            self.groups.len() as u32 - 1
        });
        let it = &mut self.groups[group as usize];
        *it = Group {
            path,
            generation: it.generation + 1,
            bottleneck: NOBODY,
            found: NOBODY,
            flows: EMPTY,
            ..Group::default()
        };
        let member = Member {
            group,
            generation: it.generation,
        };
        self.group_of[path as usize] = group;
        for &link in self.problem.path(path) {
            self.make_room(link);
            self.members[link as usize].push(member);
            self.links[link as usize].crossing += 1;
        }
        group
    }

    /// Forgets those that crossed the link once, when they are more than those that do.
    fn make_room(&mut self, link: u32) {
        let members = &mut self.members[link as usize];
        if members.len() > 16 + 2 * self.links[link as usize].crossing as usize {
            members.retain(|member| {
                self.groups[member.group as usize].generation == member.generation
            });
        }
    }

    fn disband(&mut self, group: u32) {
        let it = &mut self.groups[group as usize];
        it.generation += 1;
        self.group_of[it.path as usize] = NOBODY;
        self.free.push(group);
        for &link in self.path_of(group) {
            self.links[link as usize].crossing -= 1;
        }
    }

    fn note_change(&mut self, group: u32) {
        let it = &mut self.groups[group as usize];
        if !std::mem::replace(&mut it.changed, true) {
            self.changed.push(group);
        }
    }

    /// What has been served per weight to a group, by its own count.
    fn count(&self, group: u32, now: u64) -> f64 {
        let it = &self.groups[group as usize];
        match it.bottleneck {
            NOBODY => 0.0,
            link => self.served(link, now) - it.offset,
        }
    }

    fn served(&self, link: u32, now: u64) -> f64 {
        let meter = &self.meters[link as usize];
        meter.served + (now - meter.since) as f64 * self.bits_per_tick(link)
    }

    /// Bits per weight for those that a link bounds.
    fn bits_per_tick(&self, link: u32) -> f64 {
        self.links[link as usize].level as f64 * self.bits_per_unit
    }

    /// The tick at which a link has served up to `goal`.
    fn tick_of(&self, link: u32, goal: f64) -> u64 {
        let meter = &self.meters[link as usize];
        let ticks = (goal - meter.served) / self.bits_per_tick(link);
        // Halves up; what is beyond all time stays there.
        meter.since.saturating_add((ticks + 0.5) as u64)
    }

    /// Ends all flows whose time has come, and appends their tasks to `ended`.
    pub(super) fn end_due(&mut self, now: u64, ended: &mut Vec<TaskIndex>) {
        let first = self.stirred.len();
        self.queue.take_due(now, &mut self.stirred);
        self.stirred[first..].sort_unstable();
        for nth in first..self.stirred.len() {
            let link = self.stirred[nth];
            for nth in 0..self.bound[link as usize].len() {
                let group = self.bound[link as usize][nth];
                self.end_due_of(group, link, now, ended);
            }
        }
    }

    fn end_due_of(&mut self, group: u32, link: u32, now: u64, ended: &mut Vec<TaskIndex>) {
        let it = &self.groups[group as usize];
        let (offset, mut flows, mut weight) = (it.offset, it.flows, it.weight);
        while let Some((goal, task)) = self.heaps.top(flows) {
            if self.tick_of(link, goal + offset) > now {
                break;
            }
            flows = self.heaps.pop(flows);
            weight -= i64::from(self.problem.weight(task));
            ended.push(task);
            self.note_change(group);
        }
        let it = &mut self.groups[group as usize];
        (it.flows, it.weight) = (flows, weight);
    }

    /// Finds the rates that follow from all that began and ended, and when the next flow ends.
    pub(super) fn settle(&mut self, now: u64) {
        self.begin_repair();
        if !(self.region.is_empty() && self.open.is_empty()) {
            self.find_rates();
            self.adopt(now);
        }
        let mut stirred = std::mem::take(&mut self.stirred);
        for link in stirred.drain(..) {
            if self.links[link as usize].opened != self.repair {
                self.reschedule(link, true);
            }
        }
        self.stirred = stirred;
    }

    /// Takes what has changed out of the sums. Each bottleneck on its way will have another level.
    fn begin_repair(&mut self) {
        self.repair += 1;
        self.region.clear();
        self.open.clear();
        let mut changed = std::mem::take(&mut self.changed);
        for group in changed.drain(..) {
            let it = &mut self.groups[group as usize];
            it.changed = false;
            let (before, weight) = (it.settled, it.weight);
            if before == weight {
                self.stirred.extend((before > 0).then_some(it.bottleneck));
                continue;
            }
            self.reweigh(group, before, weight);
        }
        self.changed = changed;
    }

    fn reweigh(&mut self, group: u32, before: i64, weight: i64) {
        let it = &mut self.groups[group as usize];
        let freed = std::mem::take(&mut it.rate) * before;
        it.settled = weight;
        it.lifted = self.repair;
        for &link in self.path_of(group) {
            let it = &mut self.links[link as usize];
            it.load -= freed;
            it.weight += weight - before;
            if it.bounds > 0 {
                self.open(link);
            }
        }
        match weight {
            0 => self.disband(group),
            _ => self.region.push(group),
        }
    }

    /// Marks a link as one whose level is to be found.
    pub(super) fn open(&mut self, link: u32) {
        let it = &mut self.links[link as usize];
        if std::mem::replace(&mut it.opened, self.repair) != self.repair {
            self.open.push(link);
        }
    }

    /// Makes what the last filling found the state of the world from `now` on.
    fn adopt(&mut self, now: u64) {
        let (open, full) = (
            std::mem::take(&mut self.open),
            std::mem::take(&mut self.full),
        );
        let concerned = || {
            open.iter()
                .copied()
                .chain(full.iter().map(|&(link, _)| link))
        };
        for link in concerned() {
            self.bring_up(link, now);
        }
        for nth in 0..self.region.len() {
            self.rebind(self.region[nth]);
        }
        for &link in &open {
            self.links[link as usize].level = 0;
        }
        for &(link, level) in &full {
            self.links[link as usize].level = level;
        }
        for link in concerned() {
            self.reschedule(link, false);
        }
        (self.open, self.full) = (open, full);
    }

    /// Counts what a link has served up to now. A link that bounded nobody begins anew.
    fn bring_up(&mut self, link: u32, now: u64) {
        let fresh = self.links[link as usize].level == 0;
        let served = if fresh { 0.0 } else { self.served(link, now) };
        let meter = &mut self.meters[link as usize];
        (meter.served, meter.since) = (served, now);
    }

    fn rebind(&mut self, group: u32) {
        let it = &mut self.groups[group as usize];
        let served = |link: u32| match link {
            NOBODY => 0.0,
            link => self.meters[link as usize].served,
        };
        if it.found != it.bottleneck {
            it.offset += served(it.found) - served(it.bottleneck);
            it.bottleneck = it.found;
        }
        self.bound[it.found as usize].push(group);
        let goal = self.heaps.top(it.flows).map_or(f64::INFINITY, |top| top.0);
        self.links[it.found as usize].bounds += 1;
        let meter = &mut self.meters[it.found as usize];
        meter.goal = meter.goal.min(goal + it.offset);
    }

    /// Enters when the next of those that a link bounds ends.
    fn reschedule(&mut self, link: u32, look_again: bool) {
        if look_again {
            let goals = self.bound[link as usize].iter().map(|&group| {
                let it = &self.groups[group as usize];
                let top = self.heaps.top(it.flows);
                top.map_or(f64::INFINITY, |(goal, _)| goal + it.offset)
            });
            self.meters[link as usize].goal = goals.fold(f64::INFINITY, f64::min);
        }
        if self.links[link as usize].bounds == 0 {
            self.links[link as usize].level = 0;
            self.queue.remove(link);
            return;
        }
        let goal = self.meters[link as usize].goal;
        self.queue.set(link, self.tick_of(link, goal));
    }

    /// Lets go of all that a link bounds; they are appended to the region.
    pub(super) fn unbind(&mut self, link: u32) {
        self.links[link as usize].bounds = 0;
        self.meters[link as usize].goal = f64::INFINITY;
        let mut bound = std::mem::take(&mut self.bound[link as usize]);
        for group in bound.drain(..) {
            let it = &mut self.groups[group as usize];
            if std::mem::replace(&mut it.lifted, self.repair) != self.repair {
                self.region.push(group);
            }
        }
        self.bound[link as usize] = bound;
    }
}
