//! A job's traffic between hosts: reductions, for which any order will do, and transfers to one peer.

use std::collections::BTreeMap;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, Operation, TaskWork};

/// Hosts that reduce, scatter or gather among themselves. In which order does not matter, so that
/// the order can be chosen with the topology.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Sorted, each once.
    pub members: Vec<u32>,
    /// Bytes that each member sends in an iteration.
    pub bytes: f64,
}

/// Traffic between hosts in an iteration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Demand {
    pub hosts: usize,
    /// The most that a member sends first.
    pub groups: Vec<Group>,
    /// Bytes from one host to another that belong to no group.
    pub pairs: BTreeMap<(u32, u32), f64>,
}

impl Demand {
    /// `place` says on which host each rank runs.
    pub fn of(iteration: &Iteration, place: &[u32], hosts: usize) -> Self {
        let mut adding = Adding::default();
        let at = |rank: Rank| place[rank.index()];
        for (_, task) in iteration.tasks() {
            match task.work {
                TaskWork::Compute { .. } | TaskWork::Delay { .. } => {}
                TaskWork::Transfer { from, to, bytes } => {
                    adding.pair(at(from), at(to), bytes.count() as f64);
                }
                TaskWork::Collective {
                    operation,
                    group,
                    bytes,
                    ..
                } => {
                    let members: Vec<_> = iteration.group(group).iter().map(|&it| at(it)).collect();
                    adding.collective(operation, &members, bytes.count() as f64);
                }
            }
        }
        adding.done(hosts)
    }

    pub fn pair_bytes(&self) -> f64 {
        self.pairs.values().sum()
    }

    /// Returns the bytes that each host sends to or receives from single peers, whichever is more.
    pub fn pair_bytes_of_hosts(&self) -> Vec<f64> {
        let [mut sent, mut received] = [0, 1].map(|_| vec![0.0; self.hosts]);
        for (&(from, to), &bytes) in &self.pairs {
            sent[from as usize] += bytes;
            received[to as usize] += bytes;
        }
        sent.iter()
            .zip(&received)
            .map(|(a, b): (&f64, &f64)| a.max(*b))
            .collect()
    }

    /// Whether some pairs send clearly more than others.
    pub(super) fn is_lopsided(&self) -> bool {
        let pairs = self.hosts * (self.hosts - 1);
        let mean = self.pair_bytes() / pairs as f64;
        self.pairs.values().any(|&bytes| bytes > 1.5 * mean)
    }

    /// Returns the bytes that the busiest host sends or receives, with its groups and single peers.
    pub fn busiest_host(&self) -> f64 {
        let mut busy = self.pair_bytes_of_hosts();
        for group in &self.groups {
            for &member in &group.members {
                busy[member as usize] += group.bytes;
            }
        }
        busy.into_iter().fold(0.0, f64::max)
    }

    /// All that groups send.
    pub fn group_bytes(&self) -> f64 {
        let of_group = |group: &Group| group.bytes * group.members.len() as f64;
        self.groups.iter().map(of_group).sum()
    }
}

#[derive(Default)]
struct Adding {
    groups: BTreeMap<Vec<u32>, f64>,
    pairs: BTreeMap<(u32, u32), f64>,
}

impl Adding {
    fn pair(&mut self, from: u32, to: u32, bytes: f64) {
        if from != to && bytes > 0.0 {
            *self.pairs.entry((from, to)).or_default() += bytes;
        }
    }

    /// `members` are the hosts of the ranks, in their order.
    fn collective(&mut self, operation: Operation, members: &[u32], bytes: f64) {
        match operation {
            Operation::AllToAll => {
                let share = bytes / members.len() as f64;
                let mut on_host = BTreeMap::<u32, f64>::new();
                for &host in members {
                    *on_host.entry(host).or_default() += 1.0;
                }
                for (&from, senders) in &on_host {
                    for (&to, receivers) in &on_host {
                        self.pair(from, to, share * senders * receivers);
                    }
                }
            }
            Operation::Broadcast => {
                for ends in members.windows(2) {
                    self.pair(ends[0], ends[1], bytes);
                }
            }
            Operation::AllReduce | Operation::ReduceScatter | Operation::AllGather => {
                self.group(operation, members, bytes);
            }
        }
    }

    /// Ranks of one host reduce among themselves first.
    fn group(&mut self, operation: Operation, members: &[u32], bytes: f64) {
        let mut hosts = members.to_vec();
        hosts.sort_unstable();
        hosts.dedup();
        if hosts.len() < 2 {
            return;
        }
        let sent = match operation {
            Operation::AllReduce => 2.0 * bytes,
            _ => bytes,
        };
        let others = (hosts.len() - 1) as f64 / hosts.len() as f64;
        *self.groups.entry(hosts).or_default() += sent * others;
    }

    fn done(self, hosts: usize) -> Demand {
        let group = |(members, bytes)| Group { members, bytes };
        let mut groups: Vec<_> = self.groups.into_iter().map(group).collect();
        groups.sort_by(|a, b| {
            b.bytes
                .total_cmp(&a.bytes)
                .then_with(|| a.members.cmp(&b.members))
        });
        Demand {
            hosts,
            groups,
            pairs: self.pairs,
        }
    }
}
