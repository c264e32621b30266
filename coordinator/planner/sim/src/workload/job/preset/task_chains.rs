//! Sequences of tasks per rank, for building an iteration.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{IterationBuilder, Operation, TaskId, TaskWork};
use reweave_common::units::Bytes;

pub(super) struct TaskChains {
    pub(super) builder: IterationBuilder,
    /// Predecessors of each rank's next task.
    tails: Vec<Vec<TaskId>>,
}

impl TaskChains {
    pub(super) fn new(ranks: usize) -> Self {
        Self {
            builder: IterationBuilder::new(ranks),
            tails: vec![Vec::new(); ranks],
        }
    }

    pub(super) fn tail(&self, rank: Rank) -> &[TaskId] {
        &self.tails[rank.index()]
    }

    /// Lets the next task of a rank wait for this one too.
    pub(super) fn also_wait(&mut self, rank: Rank, task: TaskId) {
        self.tails[rank.index()].push(task);
    }

    pub(super) fn compute(&mut self, rank: Rank, name: &str, time: Duration) -> TaskId {
        let name = self.builder.name(name);
        let task = self.builder.add(name, TaskWork::Compute { rank, time });
        for before in std::mem::replace(&mut self.tails[rank.index()], vec![task]) {
            self.builder.then(before, task);
        }
        task
    }

    /// Something that a group does when all that its members did before is done, and that none of
    /// them waits for.
    pub(super) fn beside(
        &mut self,
        group: &[Rank],
        name: &str,
        operation: Operation,
        bytes: u64,
    ) -> TaskId {
        let tails = group
            .iter()
            .flat_map(|rank| self.tails[rank.index()].clone());
        let tails: Vec<_> = tails.collect();
        self.after(&tails, group, name, operation, bytes)
    }

    /// The same, and the members go on when it is done.
    pub(super) fn together(
        &mut self,
        group: &[Rank],
        name: &str,
        operation: Operation,
        bytes: u64,
    ) {
        let task = self.beside(group, name, operation, bytes);
        for rank in group {
            self.tails[rank.index()] = vec![task];
        }
    }

    pub(super) fn after(
        &mut self,
        before: &[TaskId],
        group: &[Rank],
        name: &str,
        operation: Operation,
        bytes: u64,
    ) -> TaskId {
        let name = self.builder.name(name);
        let group = self.builder.group(group);
        let work = TaskWork::Collective {
            operation,
            group,
            bytes: Bytes::new(bytes),
            local: Duration::ZERO,
        };
        let task = self.builder.add(name, work);
        for &before in before {
            self.builder.then(before, task);
        }
        task
    }

    pub(super) fn transfer(
        &mut self,
        before: &[TaskId],
        [from, to]: [Rank; 2],
        name: &str,
        bytes: u64,
    ) -> TaskId {
        let name = self.builder.name(name);
        let bytes = Bytes::new(bytes);
        let task = self
            .builder
            .add(name, TaskWork::Transfer { from, to, bytes });
        for &before in before {
            self.builder.then(before, task);
        }
        task
    }
}
