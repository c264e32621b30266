//! Traffic between places of a job in an iteration.

use std::collections::BTreeMap;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, Operation, TaskWork};

/// Bytes between places. A place is a host with all its ranks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Demand {
    pub places: usize,
    pub bytes: BTreeMap<(usize, usize), f64>,
}

impl Demand {
    /// Returns the demand of an iteration with this number of ranks per host. Collectives go around rings in the order
    /// of their groups, and cross between hosts once where ranks of one host are neighbours. All-to-alls go between
    /// all.
    pub fn of(iteration: &Iteration, ranks_per_host: usize) -> Self {
        let mut demand = Self {
            places: iteration.ranks().div_ceil(ranks_per_host.max(1)),
            bytes: BTreeMap::new(),
        };
        let place = |rank: Rank| rank.index() / ranks_per_host.max(1);
        for (_, task) in iteration.tasks() {
            match task.work {
                TaskWork::Transfer { from, to, bytes } => {
                    demand.add(place(from), place(to), bytes.count() as f64);
                }
                TaskWork::Collective {
                    operation,
                    group,
                    bytes,
                    ..
                } => {
                    let members = iteration.group(group).iter().copied().map(place);
                    demand.collective(
                        operation,
                        &members.collect::<Vec<_>>(),
                        bytes.count() as f64,
                    );
                }
                TaskWork::Compute { .. } | TaskWork::Delay { .. } => {}
            }
        }
        demand
    }

    fn collective(&mut self, operation: Operation, members: &[usize], bytes: f64) {
        let count = members.len();
        if count < 2 {
            return;
        }
        let bytes_each =
            operation.sent_bytes(count, reweave_common::units::Bytes::new(bytes as u64));
        if operation == Operation::AllToAll {
            for (&from, &to) in members
                .iter()
                .flat_map(|a| members.iter().map(move |b| (a, b)))
            {
                self.add(from, to, bytes_each / (count - 1) as f64);
            }
            return;
        }
        let next = members.iter().cycle().skip(1);
        for (&from, &to) in members.iter().zip(next) {
            self.add(from, to, bytes_each);
        }
    }

    pub fn add(&mut self, from: usize, to: usize, bytes: f64) {
        if from != to && bytes > 0.0 {
            *self.bytes.entry((from, to)).or_default() += bytes;
        }
    }
}
