//! The tasks of an iteration in topological order.

use super::{Iteration, IterationError, TaskId};

/// A topological order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order(Vec<TaskId>);

impl Order {
    /// Returns the order; fails for a cycle, and names a task on it.
    pub(super) fn of(iteration: &Iteration) -> Result<Self, IterationError> {
        let mut waits = iteration.waits();
        let free = |(id, _): (TaskId, _)| (waits[id.index()] == 0).then_some(id);
        let mut order: Vec<_> = iteration.tasks().filter_map(free).collect();
        let mut done = 0;
        while let Some(&task) = order.get(done) {
            done += 1;
            for &next in &iteration.task(task).then {
                waits[next.index()] -= 1;
                if waits[next.index()] == 0 {
                    order.push(next);
                }
            }
        }
        if order.len() == iteration.tasks.len() {
            Ok(Self(order))
        } else {
            Err(cycle(iteration, &waits))
        }
    }

    pub fn tasks(&self) -> &[TaskId] {
        &self.0
    }
}

impl Iteration {
    pub fn order(&self) -> Order {
        Order::of(self).expect("a built iteration has no cycle")
    }
}

/// Returns a task on a cycle. Walked backwards, the blocked tasks lead only to blocked tasks, so one of them repeats.
fn cycle(iteration: &Iteration, waits: &[u32]) -> IterationError {
    let stuck = |id: TaskId| waits[id.index()] > 0;
    let mut before = vec![None; waits.len()];
    for (id, task) in iteration.tasks().filter(|(id, _)| stuck(*id)) {
        for next in &task.then {
            before[next.index()] = Some(id);
        }
    }
    let mut seen = vec![false; waits.len()];
    let mut at = before.iter().flatten().next().copied();
    while let Some(id) = at.filter(|id| !seen[id.index()]) {
        seen[id.index()] = true;
        at = before[id.index()];
    }
    let task = at.map_or(0, TaskId::index);
    let name = iteration.tasks.get(task);
    IterationError::Cycle {
        task,
        name: name.map_or_else(String::new, |task| iteration.name(task.name).to_owned()),
    }
}
