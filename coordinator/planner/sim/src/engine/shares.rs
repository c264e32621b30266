//! Running flows, their rates, and the next end of a flow.
//!
//! Flows on one path have the same rate per weight, so they run as one group. The rate of a group is the level of its
//! bottleneck: a full link on which no group has more. A change of that level is one number for all groups that it
//! bounds: each link counts its service per weight since it became a bottleneck, and a flow ends when that count
//! reaches its goal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::certificate::Running;
use super::group::{Bound, Group, Member, Tag};
use super::heaps::Heaps;
use super::problem::{PathIndex, Problem, TaskIndex, Work};
use super::queue::LinkQueue;
use super::time::SimTime;

pub(super) const NO_GROUP: u32 = u32::MAX;

/// Capacities are scaled to whole numbers of this many bits, so that sums of rates are exact in
/// any order.
const CAPACITY_BITS: u32 = 61;
/// Rates that differ by less than this part of a link's capacity are equal.
const SLACK_SHIFT: u32 = 48;

/// Data for filling: one cache line per link.
#[derive(Debug, Clone, Default)]
#[repr(align(64))]
pub(super) struct Link {
    pub(super) capacity: i64,
    /// The sum of the rates of all flows that cross it, without the flows that are being filled.
    pub(super) load: i64,
    /// The sum of the weights of all that cross it.
    pub(super) weight: i64,
    /// The sum of the weights of the flows that still rise in the present filling.
    pub(super) rising: i64,
    /// The rate per weight of the flows that it bounds.
    pub(super) level: i64,
    /// The highest rate that the present filling has given on it.
    pub(super) top: i64,
    /// The filling that has touched it last.
    pub(super) touched: u32,
    /// The repair that has opened it last.
    pub(super) opened: u32,
    /// Number of groups that it bounds.
    pub(super) bounds: u32,
    /// Number of groups that cross it.
    crossing: u32,
}

/// Service of a link for the flows that it bounds.
#[derive(Debug, Clone)]
struct Meter {
    /// Bits per weight, up to the tick `since`.
    served: f64,
    since: u64,
    /// The least goal of the flows that it bounds.
    goal: f64,
}

impl Link {
    /// Spare capacity below this is ignored: it cannot be divided evenly in whole units.
    pub(super) fn slack(&self) -> i64 {
        self.weight + (self.capacity >> SLACK_SHIFT)
    }
}

impl Meter {
    const UNUSED_METER: Self = Self {
        served: 0.0,
        since: 0,
        goal: f64::INFINITY,
    };
}

/// A link that is full, its level, and how many groups have found their bottleneck in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Full {
    pub(super) link: u32,
    pub(super) level: i64,
    pub(super) stopped: u32,
}

#[derive(Debug)]
pub(super) struct Shares<'p> {
    pub(super) problem: &'p Problem,
    pub(super) links: Vec<Link>,
    meters: Vec<Meter>,
    /// Flows that cross each link, including some former ones.
    pub(super) members: Vec<Vec<Member>>,
    /// Groups of which each link is the bottleneck.
    bound: Vec<Vec<Bound>>,
    pub(super) groups: Vec<Group>,
    /// By group.
    pub(super) tags: Vec<Tag>,
    /// Service of each group's bottleneck when the group's own count was zero.
    offsets: Vec<f64>,
    free: Vec<u32>,
    /// Group of each path.
    group_of: Vec<u32>,
    heaps: Heaps,
    queue: LinkQueue,
    /// Bits in a tick at a rate of one unit.
    bits_per_unit: f64,
    /// Groups whose flows are others than at the last repair, and their weights then.
    changed: Vec<(u32, i64)>,
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
    /// The links that the present filling has filled.
    pub(super) full: Vec<Full>,
    /// Work space of the filling.
    pub(super) rising: Vec<u32>,
    pub(super) equal: Vec<u32>,
    pub(super) stopping: Vec<u32>,
    pub(super) heap: BinaryHeap<Reverse<(i64, u32)>>,
    pub(super) work: u64,
}

impl<'p> Shares<'p> {
    /// `first` are the tasks that wait for nothing.
    pub(super) fn new(problem: &'p Problem, first: &[TaskIndex]) -> Self {
        let most = problem.capacities().iter().map(|rate| rate.bits_per_s());
        let most = most.max().unwrap_or(1);
        let shift = (CAPACITY_BITS + most.leading_zeros()).saturating_sub(u64::BITS);
        let links: Vec<_> = problem
            .capacities()
            .iter()
            .map(|rate| Link {
                capacity: (rate.bits_per_s() << shift) as i64,
                ..Link::default()
            })
            .collect();
        let units_per_s = SimTime::TICKS_PER_S as f64 * (1u64 << shift) as f64;
        let at_once = first.len().min(problem.paths());
        Self {
            problem,
            members: room_for(problem, first),
            bound: vec![Vec::new(); links.len()],
            queue: LinkQueue::new(links.len()),
            meters: vec![Meter::UNUSED_METER; links.len()],
            links,
            groups: Vec::with_capacity(at_once),
            tags: Vec::with_capacity(at_once),
            offsets: Vec::with_capacity(at_once),
            free: Vec::new(),
            group_of: vec![NO_GROUP; problem.paths()],
            heaps: Heaps::default(),
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
            stopping: Vec::new(),
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
        let running = self.groups.iter().filter(|group| group.weight > 0);
        running.map(|group| Running {
            path: group.path,
            weight: group.weight as f64,
            rate_bps: group.rate as f64 * self.bits_per_unit * SimTime::TICKS_PER_S as f64,
        })
    }

    /// Lets a flow begin; its rate is found by the next repair.
    pub(super) fn join(&mut self, task: TaskIndex, path: PathIndex, bits: f64, now: u64) {
        let weight = self.problem.weight(task);
        let group = match self.group_of[path as usize] {
            NO_GROUP => self.found_group(path),
            group => group,
        };
        let goal = self.count(group, now) + bits / f64::from(weight);
        self.note_change(group);
        let it = &mut self.groups[group as usize];
        it.push(goal, task, &mut self.heaps);
        it.weight += i64::from(weight);
    }

    fn found_group(&mut self, path: PathIndex) -> u32 {
        let founded = Group::on(path, self.problem);
        let group = match self.free.pop() {
            Some(group) => {
                self.groups[group as usize] = founded;
                self.offsets[group as usize] = 0.0;
                group
            }
            None => {
                self.groups.push(founded);
                self.tags.push(Tag::FIRST_GROUP);
                self.offsets.push(0.0);
                self.groups.len() as u32 - 1
            }
        };
        let member = Member {
            group,
            tag: self.tags[group as usize],
        };
        self.group_of[path as usize] = group;
        for &link in self.problem.path(path) {
            self.make_room(link);
            self.members[link as usize].push(member);
            self.links[link as usize].crossing += 1;
        }
        group
    }

    /// Forgets the flows that used to cross the link when they outnumber the flows that still do.
    fn make_room(&mut self, link: u32) {
        let members = &mut self.members[link as usize];
        if members.len() > 16 + 2 * self.links[link as usize].crossing as usize {
            let tags = &self.tags;
            members.retain(|member| tags[member.group as usize].is_of(member.tag));
        }
    }

    fn disband(&mut self, group: u32) {
        let tag = &mut self.tags[group as usize];
        *tag = tag.next();
        self.group_of[self.groups[group as usize].path as usize] = NO_GROUP;
        self.free.push(group);
    }

    fn note_change(&mut self, group: u32) {
        let it = &mut self.groups[group as usize];
        if !std::mem::replace(&mut it.changed, true) {
            self.changed.push((group, it.weight));
        }
    }

    /// Returns the service per weight of a group, by its own count.
    fn count(&self, group: u32, now: u64) -> f64 {
        match self.groups[group as usize].bottleneck {
            NO_GROUP => 0.0,
            link => self.served(link, now) - self.offsets[group as usize],
        }
    }

    fn served(&self, link: u32, now: u64) -> f64 {
        let meter = &self.meters[link as usize];
        meter.served + (now - meter.since) as f64 * self.bits_per_tick(link)
    }

    /// Bits per weight for the flows that a link bounds.
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
            let bound = std::mem::take(&mut self.bound[link as usize]);
            let first = self.changed.len();
            // All cache lines are requested before the first is processed.
            for it in &bound {
                if self.tick_of(link, it.goal) <= now {
                    self.note_change(it.group);
                }
            }
            for nth in first..self.changed.len() {
                self.end_due_of(self.changed[nth].0, link, now, ended);
            }
            self.bound[link as usize] = bound;
        }
    }

    /// Ends the first flow of a group, and others that are due as well.
    fn end_due_of(&mut self, group: u32, link: u32, now: u64, ended: &mut Vec<TaskIndex>) {
        loop {
            let it = &mut self.groups[group as usize];
            let task = it.pop(&mut self.heaps);
            it.weight -= i64::from(self.problem.weight(task));
            ended.push(task);
            let goal = it.goal;
            if it.is_empty() || self.tick_of(link, goal + self.offsets[group as usize]) > now {
                break;
            }
        }
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

    /// Takes changed groups out of the sums. Each bottleneck on their paths will have another level.
    fn begin_repair(&mut self) {
        self.repair += 1;
        self.region.clear();
        self.open.clear();
        let mut changed = std::mem::take(&mut self.changed);
        for (group, before) in changed.drain(..) {
            let it = &mut self.groups[group as usize];
            it.changed = false;
            if it.weight == before {
                self.stirred.push(it.bottleneck);
            } else {
                self.reweigh(group, before);
            }
        }
        self.changed = changed;
    }

    fn reweigh(&mut self, group: u32, before: i64) {
        let it = &mut self.groups[group as usize];
        let freed = std::mem::take(&mut it.rate) * before;
        let weight = it.weight;
        let gone = u32::from(weight == 0);
        for &link in it.links(self.problem) {
            let it = &mut self.links[link as usize];
            it.load -= freed;
            it.weight += weight - before;
            it.crossing -= gone;
            if it.bounds > 0 && std::mem::replace(&mut it.opened, self.repair) != self.repair {
                self.open.push(link);
            }
        }
        match weight {
            0 => self.disband(group),
            _ => self.lift(group),
        }
    }

    /// Makes a group one whose rate is to be found, if it is not one yet.
    fn lift(&mut self, group: u32) {
        let tag = &mut self.tags[group as usize];
        if tag.is_at_rest() {
            *tag = tag.in_state(Tag::STATE_RISING);
            self.region.push(group);
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
        let concerned = || open.iter().copied().chain(full.iter().map(|it| it.link));
        for link in concerned() {
            self.bring_up(link, now);
        }
        for it in &full {
            self.bound[it.link as usize].reserve(it.stopped as usize);
        }
        for nth in 0..self.region.len() {
            self.rebind(self.region[nth]);
        }
        for &link in &open {
            self.links[link as usize].level = 0;
        }
        for it in &full {
            self.links[it.link as usize].level = it.level;
        }
        for link in concerned() {
            self.reschedule(link, false);
        }
        (self.open, self.full) = (open, full);
    }

    /// Counts what a link has served up to now. A link that bounded no group begins again.
    fn bring_up(&mut self, link: u32, now: u64) {
        let fresh = self.links[link as usize].level == 0;
        let served = if fresh { 0.0 } else { self.served(link, now) };
        let meter = &mut self.meters[link as usize];
        (meter.served, meter.since) = (served, now);
    }

    fn rebind(&mut self, group: u32) {
        let it = &mut self.groups[group as usize];
        let offset = &mut self.offsets[group as usize];
        let tag = &mut self.tags[group as usize];
        *tag = tag.in_state(Tag::STATE_AT_REST);
        let served = |link: u32| match link {
            NO_GROUP => 0.0,
            link => self.meters[link as usize].served,
        };
        if it.found != it.bottleneck {
            *offset += served(it.found) - served(it.bottleneck);
            it.bottleneck = it.found;
        }
        let goal = it.goal + *offset;
        self.bound[it.found as usize].push(Bound { goal, group });
        self.links[it.found as usize].bounds += 1;
        let meter = &mut self.meters[it.found as usize];
        meter.goal = meter.goal.min(goal);
    }

    /// Records when the next flow that a link bounds ends.
    fn reschedule(&mut self, link: u32, look_again: bool) {
        if look_again {
            let mut least = f64::INFINITY;
            for it in &mut self.bound[link as usize] {
                it.goal = self.groups[it.group as usize].goal + self.offsets[it.group as usize];
                least = least.min(it.goal);
            }
            self.meters[link as usize].goal = least;
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
        for it in bound.drain(..) {
            if self.groups[it.group as usize].weight > 0 {
                self.lift(it.group);
            }
        }
        self.bound[link as usize] = bound;
    }
}

/// Lists of members with room for the groups of these tasks.
fn room_for(problem: &Problem, tasks: &[TaskIndex]) -> Vec<Vec<Member>> {
    let mut counts = vec![0; problem.capacities().len()];
    for &task in tasks {
        if let Work::Transfer { path, .. } = problem.work(task) {
            for &link in problem.path(path) {
                counts[link as usize] += 1;
            }
        }
    }
    counts.into_iter().map(Vec::with_capacity).collect()
}
