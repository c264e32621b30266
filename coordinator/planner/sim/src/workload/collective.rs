//! Collectives as flows between their members.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::explicit_paths::{Forest, ForestEdge, GroupRing};
use reweave_common::ids::{NodeId, Rank};
use reweave_common::iteration::Operation;

use super::lowering::SimulationError;
use super::network::{Network, NetworkError, Steps};
use crate::engine::must_fit;

/// Pieces that go at once, as often as there are rounds; a round begins when the one before is over.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chain<'c> {
    pub(super) pieces: Vec<Piece<'c>>,
    pub(super) rounds: u32,
    /// Number of consecutive messages that one round stands for: each costs latency.
    pub(super) messages: u32,
    /// Whether many send to many, and not each only to its next.
    pub(super) crossing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Piece<'c> {
    pub(super) hop: ChainHop<'c>,
    /// Bytes of all flows that it stands for.
    pub(super) bytes: f64,
    /// Number of flows that it stands for, which begin and end together.
    pub(super) flows: u32,
}

/// From one member to another, over the given nodes, if any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChainHop<'c> {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) along: Option<&'c [NodeId]>,
    /// Whether those nodes are in reverse order.
    pub(super) backwards: bool,
}

impl<'n> Network<'n> {
    /// Returns the sends of a group for a collective of `bytes`; none for a single member.
    pub(super) fn chains(
        &self,
        operation: Operation,
        group: &[Rank],
        bytes: f64,
    ) -> Result<Vec<Chain<'n>>, SimulationError> {
        if group.len() < 2 {
            return Ok(Vec::new());
        }
        if operation == Operation::AllToAll {
            must_fit(group.len().saturating_mul(group.len()))?;
            return Ok(vec![self.all_to_all(group, bytes)]);
        }
        if operation == Operation::AllReduce
            && let Some(forest) = self.carriage.forests.get(group)
        {
            return Ok(vec![forested(forest, group, bytes)?]);
        }
        let given = self.carriage.rings.get(group);
        let Some(rings) = given.filter(|rings| !rings.is_empty()) else {
            let hops = around(group, |_| None);
            return Ok(vec![self.ring(operation, &hops, bytes)]);
        };
        let total: f64 = rings.iter().map(|ring| ring.weight).sum();
        let chain = |ring: &'n GroupRing| {
            check(ring, group)?;
            let hops = around(&ring.members, |nth| ring.legs[nth].as_deref());
            Ok(self.ring(operation, &hops, bytes * ring.weight / total))
        };
        rings.iter().map(chain).collect()
    }

    /// Without a hash and NICs of ranks, traffic between ranks of two hosts takes the same path; without counting
    /// messages, it waits equally: it is one piece.
    fn all_to_all<'c>(&self, group: &[Rank], bytes: f64) -> Chain<'c> {
        let share = bytes / group.len() as f64;
        let piece = |[from, to]: [Rank; 2], flows: usize| Piece {
            hop: ChainHop {
                from,
                to,
                along: None,
                backwards: false,
            },
            bytes: share * flows as f64,
            flows: flows as u32,
        };
        let mut on_host: BTreeMap<NodeId, Vec<Rank>> = BTreeMap::new();
        for (nth, &rank) in group.iter().enumerate() {
            let host = if self.settings.tells_ranks_apart() || self.has_nics_of_ranks() {
                NodeId::from_index(nth)
            } else {
                self.host(rank)
            };
            on_host.entry(host).or_default().push(rank);
        }
        let mut pieces = Vec::new();
        for (from, senders) in &on_host {
            for (to, receivers) in &on_host {
                if from != to {
                    let flows = senders.len() * receivers.len();
                    pieces.push(piece([senders[0], receivers[0]], flows));
                    continue;
                }
                let pairs = senders
                    .iter()
                    .flat_map(|&a| senders.iter().map(move |&b| [a, b]));
                pieces.extend(pairs.filter(|[a, b]| a != b).map(|pair| piece(pair, 1)));
            }
        }
        Chain {
            pieces,
            rounds: 1,
            messages: 1,
            crossing: true,
        }
    }

    fn ring<'c>(&self, operation: Operation, hops: &[ChainHop<'c>], bytes: f64) -> Chain<'c> {
        let members = hops.len() as u32;
        let on_host = self.members_on_hosts(hops);
        // The broadcast flows through in a stream, all others step by step.
        let (steps, chunk, hops) = match operation {
            Operation::AllReduce => (2 * (members - 1), bytes / f64::from(members), hops),
            Operation::Broadcast => (1, bytes, &hops[..hops.len() - 1]),
            _ => (members - 1, bytes / f64::from(members), hops),
        };
        let (rounds, in_one) = match self.settings.steps {
            Steps::Collapsed => (1, steps),
            Steps::Each => (steps, 1),
        };
        let pieces = hops.iter().flat_map(|&hop| {
            let lanes = self.lanes(hop, &on_host);
            let bytes = chunk * f64::from(in_one) / lanes.len() as f64;
            lanes.into_iter().map(move |hop| Piece {
                hop,
                bytes,
                flows: 1,
            })
        });
        let messages = match operation {
            Operation::Broadcast => members - 1,
            _ => in_one,
        };
        Chain {
            pieces: pieces.collect(),
            rounds,
            messages,
            crossing: false,
        }
    }

    /// Returns the members of a ring on each host; none where ranks have no NICs.
    fn members_on_hosts(&self, ring: &[ChainHop<'_>]) -> BTreeMap<NodeId, Vec<Rank>> {
        let mut on_host: BTreeMap<_, Vec<_>> = BTreeMap::new();
        if self.has_nics_of_ranks() {
            let mut members: Vec<_> = ring.iter().map(|hop| hop.from).collect();
            members.sort_unstable();
            for member in members {
                on_host.entry(self.host(member)).or_default().push(member);
            }
        }
        on_host
    }

    /// Returns the hops between two hosts that one hop of a ring stands for. There is a ring for each NIC, and each
    /// changes hosts at another pair of members, so that it stays on its rail.
    fn lanes<'c>(
        &self,
        hop: ChainHop<'c>,
        on_host: &BTreeMap<NodeId, Vec<Rank>>,
    ) -> Vec<ChainHop<'c>> {
        let ends = [hop.from, hop.to];
        let members = ends.map(|rank| on_host.get(&self.host(rank)));
        match members {
            [Some(from), Some(to)] if hop.along.is_none() && from != to => {
                let pairs = from.iter().zip(to);
                let between = pairs.map(|(&from, &to)| ChainHop { from, to, ..hop });
                between.collect()
            }
            _ => vec![hop],
        }
    }
}

fn around<'c>(
    members: &[Rank],
    along: impl Fn(usize) -> Option<&'c [NodeId]>,
) -> Vec<ChainHop<'c>> {
    members
        .iter()
        .enumerate()
        .map(|(nth, &from)| ChainHop {
            from,
            to: members[(nth + 1) % members.len()],
            along: along(nth),
            backwards: false,
        })
        .collect()
}

/// Returns both directions over each branch.
fn forested<'c>(forest: &'c Forest, group: &[Rank], bytes: f64) -> Result<Chain<'c>, NetworkError> {
    check_forest(forest, group)?;
    let both_ways = |branch: &'c ForestEdge| {
        let [a, b] = branch.ends;
        [(a, b, false), (b, a, true)].map(|(from, to, backwards)| Piece {
            hop: ChainHop {
                from,
                to,
                along: branch.along.as_deref(),
                backwards,
            },
            bytes: bytes * branch.share,
            flows: 1,
        })
    };
    Ok(Chain {
        pieces: forest.branches.iter().flat_map(both_ways).collect(),
        rounds: 1,
        messages: 2 * forest.depth,
        crossing: false,
    })
}

/// Trees over g members have g - 1 branches each, with any shares.
fn check_forest(forest: &Forest, group: &[Rank]) -> Result<(), NetworkError> {
    let members: BTreeSet<_> = group.iter().collect();
    let ends = forest.branches.iter().flat_map(|branch| &branch.ends);
    let met: BTreeSet<_> = ends.collect();
    let shares: f64 = forest.branches.iter().map(|branch| branch.share).sum();
    let wanted = (group.len() - 1) as f64;
    let positive = forest.branches.iter().all(|branch| branch.share > 0.0);
    if met == members && positive && (shares - wanted).abs() <= wanted * 1e-6 {
        Ok(())
    } else {
        Err(NetworkError::BadForest)
    }
}

fn check(ring: &GroupRing, group: &[Rank]) -> Result<(), NetworkError> {
    let [members, wanted]: [BTreeSet<_>; 2] = [&ring.members, group].map(|of| of.iter().collect());
    let problem = if ring.members.len() != group.len() || members != wanted {
        "does not meet each member of its group once"
    } else if ring.legs.len() != ring.members.len() {
        "does not have one leg for each member"
    } else if !(ring.weight.is_finite() && ring.weight > 0.0) {
        "has no weight"
    } else {
        return Ok(());
    };
    Err(NetworkError::BadRing { problem })
}
