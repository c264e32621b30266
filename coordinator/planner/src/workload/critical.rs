//! What the end of an iteration waited for, and how long that must take at least.

use std::collections::BTreeMap;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, NameId, TaskId, Work};

use super::evaluation::{Segment, Stretch};
use super::lowering::Timeline;
use crate::sim::{self, Problem, SimTime};

/// From the end back to the beginning: before each task comes the one that it waited for last, be it
/// for what that brought or for its processor. Summed up by what was done and its name.
pub(super) fn critical_path(iteration: &Iteration, timeline: &Timeline) -> Vec<Segment> {
    let before = Before::of(iteration, timeline);
    let mut sums: BTreeMap<(Stretch, NameId), (SimTime, usize)> = BTreeMap::new();
    let ends_last = |(id, _): &(TaskId, _)| timeline.finish[id.index()] == timeline.end;
    let mut at = iteration.tasks().find(ends_last).map(|(id, _)| id);
    while let Some(task) = at {
        let (stretch, since) = piece(iteration, timeline, task);
        let (time, tasks) = sums
            .entry((stretch, iteration.task(task).name))
            .or_default();
        *time = time.plus(timeline.finish[task.index()].since(since));
        *tasks += 1;
        at = before.of_task(timeline, task, since);
    }
    let segment = |((stretch, name), (time, tasks)): (_, (SimTime, _))| Segment {
        stretch,
        name: iteration.name(name).to_owned(),
        ms: time.millis(),
        tasks,
    };
    let mut segments: Vec<_> = sums.into_iter().map(segment).collect();
    segments.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    segments
}

/// What a task spent its time with, and since when: a computation since it had the processor,
/// anything else since it could begin.
fn piece(iteration: &Iteration, timeline: &Timeline, task: TaskId) -> (Stretch, SimTime) {
    let index = task.index();
    match iteration.task(task).work {
        Work::Compute { .. } => (Stretch::Compute, timeline.start[index]),
        Work::Delay { .. } => (Stretch::Delay, timeline.ready[index]),
        _ => (Stretch::Communication, timeline.ready[index]),
    }
}

/// What each task may have waited for.
struct Before {
    tasks: Vec<Vec<TaskId>>,
    /// By rank, its computations by when they ended.
    on_rank: Vec<BTreeMap<SimTime, TaskId>>,
    rank: Vec<Option<Rank>>,
}

impl Before {
    fn of(iteration: &Iteration, timeline: &Timeline) -> Self {
        let mut before = Self {
            tasks: vec![Vec::new(); iteration.tasks().len()],
            on_rank: vec![BTreeMap::new(); iteration.ranks()],
            rank: vec![None; iteration.tasks().len()],
        };
        for (id, task) in iteration.tasks() {
            for next in &task.then {
                before.tasks[next.index()].push(id);
            }
            if let Work::Compute { rank, time } = task.work {
                before.rank[id.index()] = Some(rank);
                // One that takes no time would be said to come before itself.
                if !time.is_zero() {
                    before.on_rank[rank.index()].insert(timeline.finish[id.index()], id);
                }
            }
        }
        before
    }

    fn of_task(&self, timeline: &Timeline, task: TaskId, since: SimTime) -> Option<TaskId> {
        if since == SimTime::ZERO {
            return None;
        }
        let ended_then = |before: &&TaskId| timeline.finish[before.index()] == since;
        let waited_for = self.tasks[task.index()].iter().find(ended_then).copied();
        let on_processor = || {
            let rank = self.rank[task.index()]?;
            self.on_rank[rank.index()].get(&since).copied()
        };
        waited_for.or_else(on_processor)
    }
}

/// The longest chain of tasks that wait for one another, if each had all that it uses to itself.
pub(super) fn longest_chain(problem: &Problem) -> SimTime {
    let mut follow = vec![Vec::new(); problem.tasks()];
    let mut waits = vec![0u32; problem.tasks()];
    for &[before, after] in problem.waits() {
        follow[before as usize].push(after);
        waits[after as usize] += 1;
    }
    let mut ready = vec![SimTime::ZERO; problem.tasks()];
    let mut free: Vec<u32> = (0..problem.tasks() as u32)
        .filter(|&task| waits[task as usize] == 0)
        .collect();
    let mut longest = SimTime::ZERO;
    while let Some(task) = free.pop() {
        let end = ready[task as usize].plus(alone(problem, task));
        longest = longest.max(end);
        for &next in &follow[task as usize] {
            let next = next as usize;
            ready[next] = ready[next].max(end);
            waits[next] -= 1;
            if waits[next] == 0 {
                free.push(next as u32);
            }
        }
    }
    longest
}

/// How long a task takes when nothing is in its way, rounded down.
fn alone(problem: &Problem, task: u32) -> SimTime {
    match problem.work(task) {
        sim::Work::Compute { time, .. } => time,
        sim::Work::Transfer { path, bits } => {
            let rate = |&link: &u32| problem.capacities()[link as usize].bits_per_s();
            let slowest = problem.path(path).iter().map(rate).min();
            let seconds = slowest.map_or(0.0, |slowest| bits / slowest as f64);
            let ticks = (seconds * SimTime::TICKS_PER_S as f64) as u64;
            problem.delay(task).plus(SimTime::from_ticks(ticks))
        }
    }
}
