//! One iteration of a job, as a graph of tasks: computations, transfers and collectives.
//!
//! It describes the demand of a job, independent of a fabric. A built graph is finite: all named tasks exist, and there
//! are no cycles.

use std::fmt;
use std::time::Duration;

use crate::ids::Rank;
use crate::units::Bytes;

mod order;
#[cfg(test)]
mod tests;
mod volume;

pub use order::Order;

/// Index of a task, in the order of adding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(u32);

impl TaskId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index of the ranks of a collective, in ring order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(u32);

impl GroupId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index of a task's name in reports; many tasks may share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameId(u32);

impl NameId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// `bytes` is the size of the reduced data.
    AllReduce,
    /// `bytes` is the size of the reduced data, of which each member keeps its share.
    ReduceScatter,
    /// `bytes` is the size of each member's result.
    AllGather,
    /// `bytes` is the size of each member's data: an equal share for each member of the group.
    AllToAll,
    /// `bytes` go from the first member to each other member.
    Broadcast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskWork {
    /// Uses the processor of one rank. A processor serves tasks in the order of arrival.
    Compute {
        rank: Rank,
        time: Duration,
    },
    /// A delay without use of a processor.
    Delay {
        time: Duration,
    },
    Transfer {
        from: Rank,
        to: Rank,
        bytes: Bytes,
    },
    /// Starts `local` later than it could: the time for a member's own memory operations.
    Collective {
        operation: Operation,
        group: GroupId,
        bytes: Bytes,
        local: Duration,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub work: TaskWork,
    pub name: NameId,
    /// Tasks that can start after this one, in the order in which they join the queues.
    pub then: Vec<TaskId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iteration {
    ranks: usize,
    names: Vec<String>,
    groups: Vec<Vec<Rank>>,
    tasks: Vec<Task>,
}

impl Iteration {
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    pub fn tasks(&self) -> impl ExactSizeIterator<Item = (TaskId, &Task)> {
        let numbered = self.tasks.iter().enumerate();
        numbered.map(|(index, task)| (TaskId(index as u32), task))
    }

    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    pub fn group(&self, id: GroupId) -> &[Rank] {
        &self.groups[id.index()]
    }

    pub fn groups(&self) -> impl ExactSizeIterator<Item = (GroupId, &[Rank])> {
        let numbered = self.groups.iter().enumerate();
        numbered.map(|(index, group)| (GroupId(index as u32), &group[..]))
    }

    pub fn name(&self, id: NameId) -> &str {
        &self.names[id.index()]
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of predecessors of each task.
    pub fn waits(&self) -> Vec<u32> {
        let mut waits = vec![0; self.tasks.len()];
        for next in self.tasks.iter().flat_map(|task| &task.then) {
            waits[next.index()] += 1;
        }
        waits
    }
}

/// Reason why a graph is not a valid iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IterationError {
    NoRanks,
    TooMany {
        what: &'static str,
        most: usize,
    },
    NoSuchRank {
        task: usize,
        rank: usize,
        ranks: usize,
    },
    BadGroup {
        task: usize,
        problem: &'static str,
    },
    NoSuchTask {
        task: usize,
        named: usize,
    },
    TooLong {
        task: usize,
    },
    TooLarge {
        task: usize,
    },
    Cycle {
        task: usize,
        name: String,
    },
}

impl fmt::Display for IterationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRanks => f.write_str("an iteration needs at least one rank"),
            Self::TooMany { what, most } => write!(f, "more than {most} {what}"),
            Self::NoSuchRank { task, rank, ranks } => {
                write!(f, "task {task} is of rank {rank}, and there are {ranks}")
            }
            Self::BadGroup { task, problem } => write!(f, "task {task}: {problem}"),
            Self::NoSuchTask { task, named } => {
                write!(f, "task {task} names task {named}, which does not exist")
            }
            Self::TooLong { task } => {
                let days = MAX_TASK_TIME.as_secs() / 86_400;
                write!(f, "task {task} takes longer than {days} days")
            }
            Self::TooLarge { task } => {
                write!(f, "task {task} moves more than {MAX_TASK_BYTES} bytes")
            }
            Self::Cycle { task, name } => write!(f, "task {task} ({name}) waits for itself"),
        }
    }
}

impl std::error::Error for IterationError {}

/// Maximum duration of a task.
const MAX_TASK_TIME: Duration = Duration::from_secs(10 * 86_400);
/// Maximum size of a task, so that sums over all tasks fit into 64 bits.
const MAX_TASK_BYTES: u64 = 1 << 50;
const MAX_RANKS: usize = 1 << 20;
const MAX_TASKS: usize = 1 << 26;

/// Builds an iteration and refuses invalid tasks.
#[derive(Debug, Clone)]
pub struct IterationBuilder {
    iteration: Iteration,
    by_name: std::collections::BTreeMap<String, NameId>,
    by_group: std::collections::BTreeMap<Vec<Rank>, GroupId>,
}

impl IterationBuilder {
    pub fn new(ranks: usize) -> Self {
        Self {
            iteration: Iteration {
                ranks,
                names: Vec::new(),
                groups: Vec::new(),
                tasks: Vec::new(),
            },
            by_name: Default::default(),
            by_group: Default::default(),
        }
    }

    pub fn ranks(&self) -> usize {
        self.iteration.ranks
    }

    pub fn name(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = NameId(self.iteration.names.len() as u32);
        self.iteration.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), id);
        id
    }

    pub fn group(&mut self, members: &[Rank]) -> GroupId {
        if let Some(&id) = self.by_group.get(members) {
            return id;
        }
        let id = GroupId(self.iteration.groups.len() as u32);
        self.iteration.groups.push(members.to_vec());
        self.by_group.insert(members.to_vec(), id);
        id
    }

    pub fn add(&mut self, name: NameId, work: TaskWork) -> TaskId {
        let id = TaskId(self.iteration.tasks.len() as u32);
        let then = Vec::new();
        self.iteration.tasks.push(Task { work, name, then });
        id
    }

    /// Makes `next` start only after `task`.
    pub fn then(&mut self, task: TaskId, next: TaskId) {
        self.iteration.tasks[task.index()].then.push(next);
    }

    pub fn build(self) -> Result<Iteration, IterationError> {
        let iteration = self.iteration;
        within_limits(&iteration)?;
        for (index, task) in iteration.tasks.iter().enumerate() {
            check(&iteration, index, task)?;
        }
        Order::of(&iteration)?;
        Ok(iteration)
    }
}

fn within_limits(iteration: &Iteration) -> Result<(), IterationError> {
    let limit = |what, count: usize, most| {
        if count > most {
            Err(IterationError::TooMany { what, most })
        } else {
            Ok(())
        }
    };
    if iteration.ranks == 0 {
        return Err(IterationError::NoRanks);
    }
    limit("ranks", iteration.ranks, MAX_RANKS)?;
    limit("tasks", iteration.tasks.len(), MAX_TASKS)
}

fn check(iteration: &Iteration, index: usize, task: &Task) -> Result<(), IterationError> {
    let rank = |rank: Rank| {
        if rank.index() < iteration.ranks {
            Ok(())
        } else {
            Err(IterationError::NoSuchRank {
                task: index,
                rank: rank.index(),
                ranks: iteration.ranks,
            })
        }
    };
    let (time, bytes) = match task.work {
        TaskWork::Compute { rank: at, time } => {
            rank(at)?;
            (time, Bytes::ZERO)
        }
        TaskWork::Delay { time } => (time, Bytes::ZERO),
        TaskWork::Transfer { from, to, bytes } => {
            rank(from)?;
            rank(to)?;
            (Duration::ZERO, bytes)
        }
        TaskWork::Collective {
            group,
            bytes,
            local,
            ..
        } => {
            check_group(index, iteration.group(group))?;
            iteration.group(group).iter().try_for_each(|&r| rank(r))?;
            (local, bytes)
        }
    };
    if time > MAX_TASK_TIME {
        return Err(IterationError::TooLong { task: index });
    }
    if bytes.count() > MAX_TASK_BYTES {
        return Err(IterationError::TooLarge { task: index });
    }
    let stranger = |next: &&TaskId| next.index() >= iteration.tasks.len();
    match task.then.iter().find(stranger) {
        Some(named) => Err(IterationError::NoSuchTask {
            task: index,
            named: named.index(),
        }),
        None => Ok(()),
    }
}

fn check_group(task: usize, group: &[Rank]) -> Result<(), IterationError> {
    let mut sorted = group.to_vec();
    sorted.sort_unstable();
    let problem = if group.is_empty() {
        "its group has no members"
    } else if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        "its group names a member twice"
    } else {
        return Ok(());
    };
    Err(IterationError::BadGroup { task, problem })
}
