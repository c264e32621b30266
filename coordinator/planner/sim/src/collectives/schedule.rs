//! Sends of a collective and their dependencies.

use std::collections::BTreeSet;

use reweave_common::ids::NodeId;

/// One host sends to another. Hosts are counted in the order of their ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Send {
    pub from: usize,
    pub to: usize,
    pub bytes: f64,
    /// Nodes between the ends; empty for a shortest path.
    pub along: Vec<NodeId>,
    /// Counts as this many flows where links are shared.
    pub weight: u32,
}

impl Send {
    pub(super) fn new(from: usize, to: usize, bytes: f64) -> Self {
        Self {
            from,
            to,
            bytes,
            along: Vec::new(),
            weight: 1,
        }
    }
}

/// Simultaneous sends, repeated a number of times.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    pub sends: Vec<Send>,
    pub times: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// Lanes that know nothing of one another. A host begins its part of a round when it has sent
    /// and received its parts of the one before.
    Rounds(Vec<Vec<Round>>),
    /// Sends, and `[before, after]` for each send that waits.
    Graph {
        sends: Vec<Send>,
        waits: Vec<[u32; 2]>,
    },
}

impl Round {
    /// The hosts that send or receive.
    pub(super) fn members(&self) -> BTreeSet<usize> {
        let ends = self.sends.iter().flat_map(|send| [send.from, send.to]);
        ends.collect()
    }
}

impl Schedule {
    /// Everything that is sent, and how often.
    pub fn sends(&self) -> Box<dyn Iterator<Item = (&Send, usize)> + '_> {
        match self {
            Self::Rounds(lanes) => Box::new(
                lanes
                    .iter()
                    .flatten()
                    .flat_map(|round| round.sends.iter().map(|send| (send, round.times))),
            ),
            Self::Graph { sends, .. } => Box::new(sends.iter().map(|send| (send, 1))),
        }
    }
}
