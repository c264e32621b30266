//! Collectives on a fabric: transfers between hosts, their time, and the lower bound.
//!
//! An [`Algorithm`] determines the transfers and their dependencies ([`Schedule`]). [`time`] simulates these on a
//! network with start-up costs and latencies. [`bound`] is the time that no algorithm can beat; the optimal algorithm
//! attains it.

pub mod bound;
mod flow;
mod method;
mod packing;
mod patterns;
mod pipelined;
mod played;
mod schedule;
mod splitting;
mod steady;
#[cfg(test)]
mod tests;
mod twins;

use std::fmt;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Operation;

pub(crate) use method::Method;
pub use method::{fastest, time};
pub use played::{Played, Watch, play};
pub use schedule::{Round, Schedule, Send};
pub(crate) use steady::Swing;

use crate::engine::{ProblemError, SimError};

/// Algorithm of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Around one ring in the order of the hosts.
    Ring,
    /// Around many rings, over as many links as can be.
    MultiRing,
    /// Up and down two binary trees, the inner nodes of one the leaves of the other.
    Tree,
    /// Halving what is exchanged while doubling the distance, and back.
    Recursive,
    /// Inside groups, between them, and inside again.
    Hierarchical { group: usize },
    /// All at once.
    Direct,
    /// Step by step, each host to the one this many further on.
    Shifted,
    /// Spanning trees packed into the graph.
    Optimal,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ring => "ring",
            Self::MultiRing => "multi-ring",
            Self::Tree => "tree",
            Self::Recursive => "recursive",
            Self::Hierarchical { .. } => "hierarchical",
            Self::Direct => "direct",
            Self::Shifted => "shifted",
            Self::Optimal => "optimal",
        })
    }
}

/// Reason why a collective cannot use an algorithm.
#[derive(Debug, Clone, PartialEq)]
pub enum CollectiveError {
    TooFewHosts { hosts: usize },
    NotDone { operation: Operation, by: Algorithm },
    BadGroup { group: usize, hosts: usize },
    SharedHost { host: String },
    NoWay { from: String, to: String },
    TooMuchWork { limit: u64 },
    BadSize { bytes: f64 },
    Problem(ProblemError),
    Course(SimError),
}

impl fmt::Display for CollectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewHosts { hosts } => {
                write!(
                    f,
                    "a collective takes two hosts or more, the fabric has {hosts}"
                )
            }
            Self::NotDone { operation, by } => {
                let can = algorithms_of(*operation).map(|it| it.to_string());
                let can = can.collect::<Vec<_>>().join(", ");
                write!(f, "{by} is no way to do this; use {can}")
            }
            Self::BadGroup { group, hosts } => {
                write!(f, "{hosts} hosts do not fall into groups of {group}")
            }
            Self::SharedHost { host } => write!(
                f,
                "trees are packed between hosts, and several members are on {host}; use hierarchical"
            ),
            Self::NoWay { from, to } => write!(f, "no path from {from} to {to}"),
            Self::TooMuchWork { limit } => {
                write!(
                    f,
                    "it takes more than the {limit} units of work it was given"
                )
            }
            Self::BadSize { bytes } => write!(f, "{bytes:?} bytes are no size of a collective"),
            Self::Problem(error) => error.fmt(f),
            Self::Course(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CollectiveError {}

impl CollectiveError {
    /// Whether another algorithm may do what this one cannot.
    pub(crate) fn is_of_algorithm(&self) -> bool {
        matches!(
            self,
            Self::NotDone { .. }
                | Self::BadGroup { .. }
                | Self::SharedHost { .. }
                | Self::TooMuchWork { .. }
                | Self::Course(SimError::TooMuchWork { .. })
        )
    }
}

impl From<ProblemError> for CollectiveError {
    fn from(error: ProblemError) -> Self {
        Self::Problem(error)
    }
}

impl From<SimError> for CollectiveError {
    fn from(error: SimError) -> Self {
        Self::Course(error)
    }
}

const ALL: [Algorithm; 8] = [
    Algorithm::Ring,
    Algorithm::MultiRing,
    Algorithm::Tree,
    Algorithm::Recursive,
    Algorithm::Hierarchical { group: 0 },
    Algorithm::Direct,
    Algorithm::Shifted,
    Algorithm::Optimal,
];

/// The algorithms that do an operation.
pub fn algorithms_of(operation: Operation) -> impl Iterator<Item = Algorithm> {
    ALL.into_iter().filter(move |it| it.does(operation))
}

impl Algorithm {
    /// Returns the operation by its printed name, or by other common names.
    pub fn named(name: &str) -> Option<Self> {
        let name = match name {
            "halving-doubling" => "recursive",
            other => other,
        };
        ALL.into_iter().find(|it| it.to_string() == name)
    }

    /// Whether it is the same but for the size of its groups.
    pub(crate) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    pub fn does(self, operation: Operation) -> bool {
        let reduces_or_gathers = matches!(
            operation,
            Operation::AllReduce | Operation::ReduceScatter | Operation::AllGather
        );
        match self {
            Self::Ring | Self::Optimal => operation != Operation::AllToAll,
            Self::MultiRing | Self::Recursive => reduces_or_gathers,
            Self::Tree => matches!(operation, Operation::AllReduce | Operation::Broadcast),
            Self::Hierarchical { .. } => reduces_or_gathers,
            Self::Direct | Self::Shifted => operation == Operation::AllToAll,
        }
    }
}

/// The part of the bytes that the best algorithm on a switch sends and receives at each host, so
/// that bandwidths of different operations and sizes of groups can be compared.
pub fn bus_factor(operation: Operation, hosts: usize) -> f64 {
    let others = (hosts - 1) as f64 / hosts as f64;
    match operation {
        Operation::AllReduce => 2.0 * others,
        Operation::ReduceScatter | Operation::AllGather | Operation::AllToAll => others,
        Operation::Broadcast => 1.0,
    }
}

/// A collective among hosts of a fabric.
#[derive(Debug, Clone, Copy)]
pub struct Collective<'f> {
    pub fabric: &'f Fabric,
    /// Hosts of its members in rank order; absent for all hosts of the fabric.
    pub members: Option<&'f [NodeId]>,
    pub operation: Operation,
    pub bytes: f64,
}

impl Collective<'_> {
    /// Returns the hosts of its members in rank order.
    pub fn hosts(&self) -> Result<Vec<NodeId>, CollectiveError> {
        let hosts = match self.members {
            Some(members) => members.to_vec(),
            None => self.fabric.endpoints().collect::<Vec<_>>(),
        };
        if hosts.len() < 2 {
            return Err(CollectiveError::TooFewHosts { hosts: hosts.len() });
        }
        if !(0.0..1e18).contains(&self.bytes) {
            return Err(CollectiveError::BadSize { bytes: self.bytes });
        }
        Ok(hosts)
    }
}
