//! Dependencies of tasks.

use std::ops::Range;

use super::problem::{Problem, TaskIndex};

/// Successors of each task.
#[derive(Debug, Default)]
pub(super) struct Followers {
    /// Empty where no task waits for another.
    begins: Vec<u32>,
    pub(super) tasks: Vec<TaskIndex>,
}

impl Followers {
    pub(super) fn of(problem: &Problem) -> Self {
        if problem.waits().is_empty() {
            return Self::default();
        }
        let mut ends = vec![0; problem.tasks() + 1];
        for &[before, _] in problem.waits() {
            ends[before as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let mut tasks = vec![0; problem.waits().len()];
        // Filled from the back, each end moves to where its list begins.
        for &[before, after] in problem.waits().iter().rev() {
            let end = &mut ends[before as usize];
            *end -= 1;
            tasks[*end as usize] = after;
        }
        Self {
            begins: ends,
            tasks,
        }
    }

    /// Returns the range of a task's successors in `tasks`.
    pub(super) fn range_of(&self, task: TaskIndex) -> Range<usize> {
        match self.begins.get(task as usize..task as usize + 2) {
            Some(&[begin, end]) => begin as usize..end as usize,
            _ => 0..0,
        }
    }
}

/// Tasks that wait for one another, each for the one before it and the first for the last.
pub fn circle(problem: &Problem) -> Option<Vec<TaskIndex>> {
    let left = never_ready(problem);
    let mut waits_for = vec![None; problem.tasks()];
    for &[before, after] in problem.waits() {
        if left[before as usize] && left[after as usize] {
            waits_for[after as usize] = Some(before);
        }
    }
    // Each task that is left waits for one that is left, so the trail runs into itself.
    let mut at = (0..).zip(&left).find(|(_, left)| **left)?.0;
    let mut place = vec![None; problem.tasks()];
    let mut trail = Vec::new();
    while place[at as usize].is_none() {
        place[at as usize] = Some(trail.len());
        trail.push(at);
        at = waits_for[at as usize]?;
    }
    trail.drain(..place[at as usize]?);
    trail.reverse();
    Some(trail)
}

fn never_ready(problem: &Problem) -> Vec<bool> {
    let mut never = vec![true; problem.tasks()];
    for task in order(problem, &Followers::of(problem)) {
        never[task as usize] = false;
    }
    never
}

/// All tasks that are ready at some time, each after the tasks that it waits for.
pub(super) fn order(problem: &Problem, followers: &Followers) -> Vec<TaskIndex> {
    let mut missing = vec![0u32; problem.tasks()];
    for &[_, after] in problem.waits() {
        missing[after as usize] += 1;
    }
    let tasks = 0..problem.tasks() as u32;
    let mut order: Vec<_> = tasks.filter(|&task| missing[task as usize] == 0).collect();
    let mut next = 0;
    while let Some(&task) = order.get(next) {
        next += 1;
        for &follower in &followers.tasks[followers.range_of(task)] {
            missing[follower as usize] -= 1;
            if missing[follower as usize] == 0 {
                order.push(follower);
            }
        }
    }
    order
}
