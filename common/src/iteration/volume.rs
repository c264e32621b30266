//! The total computation and traffic of an iteration.

use std::time::Duration;

use super::{Iteration, Operation, TaskWork};
use crate::units::Bytes;

impl Operation {
    pub const ALL: [Self; 5] = [
        Self::AllReduce,
        Self::ReduceScatter,
        Self::AllGather,
        Self::AllToAll,
        Self::Broadcast,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllGather => "all-gather",
            Self::AllToAll => "all-to-all",
            Self::Broadcast => "broadcast",
        }
    }

    /// Returns the mean bytes that each of `members` sends in a collective of `bytes` with minimal traffic.
    pub fn sent_bytes(self, members: usize, bytes: Bytes) -> f64 {
        let (n, bytes) = (members as f64, bytes.count() as f64);
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n * bytes,
            Self::ReduceScatter | Self::AllGather | Self::AllToAll | Self::Broadcast => {
                (n - 1.0) / n * bytes
            }
        }
    }
}

impl Iteration {
    /// Returns the number of members of each collective.
    pub fn collectives(&self) -> impl Iterator<Item = usize> {
        self.tasks.iter().filter_map(|task| match task.work {
            TaskWork::Collective { group, .. } => Some(self.group(group).len()),
            _ => None,
        })
    }

    /// Returns the computation time of each rank.
    pub fn compute_times(&self) -> Vec<Duration> {
        let mut times = vec![Duration::ZERO; self.ranks];
        for task in &self.tasks {
            if let TaskWork::Compute { rank, time } = task.work {
                times[rank.index()] += time;
            }
        }
        times
    }
}
