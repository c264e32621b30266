//! Summaries of each host's probes, so that the cost of a decision grows with hosts and not with pairs of hosts.
//!
//! With few flows of probes, every host is summarized at each look. With many, a summary may be some seconds old.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::observations::NodeObservations;
use reweave_common::probing::ProbeTally;

use crate::estimate::interval_timer::IntervalTimer;
use crate::ingest::round_robin::{Batch, RoundRobin};
use crate::ingest::telemetry::probed;
use crate::model::world::Measurements;

/// At most this many pairs of a host are listed separately.
const MAX_RANKED_PAIRS: usize = 256;

#[derive(Debug, Clone, Default)]
pub(crate) struct ProbeSummary {
    hosts: BTreeMap<NodeId, Standing>,
    turns: RoundRobin,
    looks: IntervalTimer,
    /// The last round did not cover all hosts.
    is_behind: bool,
}

/// The probes of one host.
#[derive(Debug, Clone)]
struct Standing {
    pairs: usize,
    all: ProbeTally,
    /// The worst pairs first.
    ranks: Vec<Rank>,
}

/// The quality of the path from one host to another; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    badness: Badness,
    pair: Reverse<(NodeId, NodeId)>,
}

/// The certain loss in parts per billion, and then the 99th percentile of latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Badness(u32, Duration);

impl ProbeSummary {
    #[cfg(test)]
    pub(crate) fn in_turns(turns: RoundRobin) -> Self {
        let all = Self::default();
        Self { turns, ..all }
    }

    /// In a large cluster, hosts are summarized in turn, even without a request.
    pub(crate) fn handle_time(&mut self, known: Measurements<'_>) {
        if self.is_behind && self.looks.is_due(known.now, known.policy.look_every) {
            self.look(known);
        }
    }

    /// Summarizes the hosts whose turn it is.
    pub(crate) fn look(&mut self, known: Measurements<'_>) {
        let observations = known.ingest.observations();
        let from = self.turns.next().start;
        let Batch { nodes, is_last } = probed(&mut self.turns, observations);
        self.is_behind = !is_last || from != self.turns.next().start;
        self.hosts.retain(|node, _| !nodes.contains(node));
        for (node, observed) in observations.nodes_in(nodes) {
            self.hosts.insert(node, Standing::of(known, node, observed));
        }
    }

    /// The number of pairs of hosts.
    pub(crate) fn pairs(&self) -> usize {
        self.hosts.values().map(|host| host.pairs).sum()
    }

    pub(crate) fn all(&self) -> ProbeTally {
        let mut all = ProbeTally::default();
        self.hosts.values().for_each(|host| all.merge(&host.all));
        all
    }

    /// The worst pairs, the worst first.
    pub(crate) fn worst(&self, most: usize) -> Vec<(NodeId, NodeId)> {
        let hosts = self.hosts.values();
        let mut heads: BinaryHeap<_> = hosts.filter_map(|host| host.ranks.split_first()).collect();
        let mut worst = Vec::new();
        while worst.len() < most
            && let Some((rank, rest)) = heads.pop()
        {
            worst.push(rank.pair.0);
            heads.extend(rest.split_first());
        }
        worst
    }
}

impl Standing {
    fn of(known: Measurements<'_>, from: NodeId, observed: &NodeObservations) -> Self {
        let pairs = pairs_of(known, observed);
        let mut all = ProbeTally::default();
        pairs.values().for_each(|tally| all.merge(tally));
        let ranks = pairs.iter().map(|(&to, tally)| Rank {
            badness: Badness::of(tally),
            pair: Reverse((from, to)),
        });
        let mut ranks: Vec<_> = ranks.collect();
        ranks.sort_unstable_by_key(|rank| Reverse(*rank));
        ranks.truncate(MAX_RANKED_PAIRS);
        Self {
            pairs: pairs.len(),
            all,
            ranks,
        }
    }
}

impl Badness {
    fn of(tally: &ProbeTally) -> Self {
        let loss = tally.loss().map_or(0.0, |loss| loss.least);
        let slow = tally.network().quantile(0.99).unwrap_or_default();
        Self((loss * 1e9) as u32, slow)
    }
}

/// A host's probes to each other host, all paths together.
fn pairs_of(known: Measurements<'_>, observed: &NodeObservations) -> BTreeMap<NodeId, ProbeTally> {
    let mut pairs: BTreeMap<NodeId, ProbeTally> = BTreeMap::new();
    for (flow, window) in &observed.probes {
        if let Some(to) = known.ingest.owner(*flow.destination.ip()) {
            window.add_to(pairs.entry(to).or_default());
        }
    }
    pairs
}
