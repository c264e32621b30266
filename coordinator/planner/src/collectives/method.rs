//! An algorithm's time on a network, with the pieces that suit it best.

use reweave_common::iteration::Operation;

use super::pipelined::{self, Course, Tree};
use super::schedule::Schedule;
use super::{Algorithm, Collective, CollectiveError, Played, packing, patterns, play};
use crate::sim::ecmp::Ecmp;
use crate::sim::network::Network;

/// Finer pieces than these cost more to simulate than they tell.
const MOST_SENDS_IN_PIECES: usize = 1 << 19;
const MOST_PIECES: usize = 128;
/// What twice as many pieces must gain for more to be tried.
const WORTHWHILE: f64 = 0.998;

/// How long a collective takes by an algorithm, all it costs to send included.
pub fn time(
    collective: &Collective<'_>,
    algorithm: Algorithm,
    network: &Network,
    ecmp: &Ecmp,
    limit: u64,
) -> Result<Played, CollectiveError> {
    if !algorithm.does(collective.operation) {
        return Err(CollectiveError::NotDone {
            operation: collective.operation,
            by: algorithm,
        });
    }
    let method = Method {
        collective,
        hosts: collective.hosts()?.len(),
        network,
        ecmp,
        limit,
    };
    match algorithm {
        Algorithm::Tree => method.in_pieces(&method.binary_trees(), method.course()),
        Algorithm::Optimal => method.packed(),
        Algorithm::Ring if collective.operation == Operation::Broadcast => {
            let chain = pipelined::chain(method.hosts, collective.bytes);
            method.in_pieces(&[chain], Course::Down)
        }
        _ => method.play(&Schedule::Rounds(method.lanes(algorithm)?)),
    }
}

struct Method<'a> {
    collective: &'a Collective<'a>,
    hosts: usize,
    network: &'a Network,
    ecmp: &'a Ecmp,
    limit: u64,
}

impl Method<'_> {
    fn play(&self, schedule: &Schedule) -> Result<Played, CollectiveError> {
        play(
            self.collective,
            schedule,
            self.network,
            self.ecmp,
            self.limit,
        )
    }

    fn lanes(&self, algorithm: Algorithm) -> Result<Vec<Vec<super::Round>>, CollectiveError> {
        let Collective {
            operation, bytes, ..
        } = *self.collective;
        let hosts = self.hosts;
        let steps = patterns::ring_steps(operation, hosts);
        let in_order: Vec<_> = (0..hosts).collect();
        Ok(match algorithm {
            Algorithm::MultiRing => self.rings(steps),
            Algorithm::Recursive => vec![patterns::recursive(operation, hosts, bytes)],
            Algorithm::Hierarchical { group } => {
                let group = self.group(group)?;
                vec![patterns::hierarchical(operation, hosts, group, bytes)]
            }
            Algorithm::Direct => vec![patterns::direct(hosts, bytes)],
            Algorithm::Shifted => vec![patterns::shifted(hosts, bytes)],
            _ => vec![patterns::ring(&in_order, bytes, steps)],
        })
    }

    /// A ring for each stride that meets all hosts and leads to neighbours only; where there is
    /// none, both ways around the hosts as they are.
    fn rings(&self, steps: usize) -> Vec<Vec<super::Round>> {
        let strides = (1..self.hosts).filter(|&stride| patterns::gcd(stride, self.hosts) == 1);
        let mut wired: Vec<_> = strides.filter(|&stride| self.is_wired(stride)).collect();
        if wired.is_empty() {
            wired = vec![1, self.hosts - 1];
            wired.dedup();
        }
        let bytes = self.collective.bytes / wired.len() as f64;
        let ring = |&stride| {
            let members = patterns::stride_ring(self.hosts, stride);
            patterns::ring(&members, bytes, steps)
        };
        wired.iter().map(ring).collect()
    }

    fn is_wired(&self, stride: usize) -> bool {
        let fabric = self.collective.fabric;
        let hosts: Vec<_> = fabric.endpoints().collect();
        let mut pairs = (0..self.hosts).map(|nth| [hosts[nth], hosts[(nth + stride) % self.hosts]]);
        pairs.all(|[a, b]| fabric.links_between(a, b).next().is_some())
    }

    /// The group that is asked for, or those that hang on one switch.
    fn group(&self, asked: usize) -> Result<usize, CollectiveError> {
        let group = if asked > 0 {
            asked
        } else {
            self.natural_group()
        };
        match self.hosts.is_multiple_of(group) {
            true => Ok(group),
            false => Err(CollectiveError::BadGroup {
                group,
                hosts: self.hosts,
            }),
        }
    }

    fn natural_group(&self) -> usize {
        let fabric = self.collective.fabric;
        let first_switch = |host| {
            let links = fabric.links_of(host).iter();
            links.map(|&link| fabric.link(link).far(host).node).min()
        };
        let hosts: Vec<_> = fabric.endpoints().collect();
        let of_first = first_switch(hosts[0]);
        let group = hosts
            .iter()
            .take_while(|&&host| first_switch(host) == of_first);
        group.count().max(1)
    }

    fn binary_trees(&self) -> Vec<Tree> {
        pipelined::double_tree(self.hosts, self.collective.bytes)
    }

    fn course(&self) -> Course {
        match self.collective.operation {
            Operation::AllReduce => Course::UpAndDown,
            Operation::ReduceScatter => Course::Up,
            _ => Course::Down,
        }
    }

    /// An all-reduce scatters even shares first and then gathers them: two bounds, each of which
    /// is reached.
    fn packed(&self) -> Result<Played, CollectiveError> {
        let trees = packing::trees(self.collective, self.limit)?;
        if self.course() != Course::UpAndDown {
            return self.in_pieces(&trees, self.course());
        }
        let [up, down] = [Course::Up, Course::Down].map(|course| self.in_pieces(&trees, course));
        Ok(up?.then(&down?))
    }

    /// Ever more pieces, as long as that is faster.
    fn in_pieces(&self, trees: &[Tree], course: Course) -> Result<Played, CollectiveError> {
        let sends: usize = trees.iter().map(|tree| tree.edges.len() * 2).sum();
        let most = (MOST_SENDS_IN_PIECES / sends.max(1)).min(MOST_PIECES);
        let mut pieces = 1;
        let mut best = self.play(&pipelined::schedule(trees, self.hosts, pieces, course))?;
        while pieces * 2 <= most {
            pieces *= 2;
            let next = self.play(&pipelined::schedule(trees, self.hosts, pieces, course))?;
            let gained = next.time.seconds() < best.time.seconds() * WORTHWHILE;
            if next.time < best.time {
                best = next;
            }
            if !gained {
                break;
            }
        }
        Ok(best)
    }
}
