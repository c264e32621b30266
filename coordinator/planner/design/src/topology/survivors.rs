//! The part of an iteration that remains when hosts fail.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, IterationBuilder, Task, TaskWork};

use super::error::TopologyError;
use super::plan::Job;

/// The iteration as those go on with it that are left: these hosts compute nothing, get nothing,
/// and are in no group.
pub(super) fn iteration(job: &Job<'_>, dead: &BTreeSet<u32>) -> Result<Iteration, TopologyError> {
    if dead.is_empty() {
        return Ok(job.iteration.clone());
    }
    let mut builder = IterationBuilder::new(job.iteration.ranks());
    let mut ids = Vec::new();
    for (_, task) in job.iteration.tasks() {
        let work = left_of(task, job, dead, &mut builder);
        let name = builder.name(job.iteration.name(task.name));
        ids.push(builder.add(name, work));
    }
    for (id, task) in job.iteration.tasks() {
        for next in &task.then {
            builder.then(ids[id.index()], ids[next.index()]);
        }
    }
    builder.build().map_err(TopologyError::Iteration)
}

fn left_of(
    task: &Task,
    job: &Job<'_>,
    dead: &BTreeSet<u32>,
    builder: &mut IterationBuilder,
) -> TaskWork {
    let lives = |rank: Rank| !dead.contains(&job.place[rank.index()]);
    let nothing = TaskWork::Delay {
        time: Duration::ZERO,
    };
    match task.work {
        TaskWork::Compute { rank, .. } if !lives(rank) => nothing,
        TaskWork::Transfer { from, to, .. } if !lives(from) || !lives(to) => nothing,
        TaskWork::Collective {
            operation,
            group,
            bytes,
            local,
        } => {
            let members = job.iteration.group(group).iter().copied();
            let left: Vec<_> = members.filter(|&rank| lives(rank)).collect();
            match left.len() {
                0 | 1 => nothing,
                _ => TaskWork::Collective {
                    operation,
                    group: builder.group(&left),
                    bytes,
                    local,
                },
            }
        }
        work => work,
    }
}
