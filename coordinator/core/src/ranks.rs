//! What jobs tell of themselves: which rank is on which host, what ranks send each other where the kernel
//! does not see it, and how much of the time each spends in collectives.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::collective::{RankPeer, RankReading};
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::observations::Aged;
use reweave_common::units::Rate;

use crate::ingest::Ingest;

/// What one host sends another, as ranks on them tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToldPair {
    pub from: NodeId,
    pub to: NodeId,
    pub rate: Rate,
}

/// By communicator: where each rank is, and what it tells.
pub(crate) struct Ranks<'a>(BTreeMap<u64, Communicator<'a>>);

type Communicator<'a> = BTreeMap<u32, (NodeId, &'a RankReading)>;

impl<'a> Ranks<'a> {
    pub(crate) fn of(ingest: &'a Ingest) -> Self {
        Self::those(ingest, |_| true)
    }

    fn those(ingest: &'a Ingest, is_one: impl Fn(&Aged<RankReading>) -> bool) -> Self {
        let mut communicators = BTreeMap::new();
        for (node, observed) in ingest.observations().nodes() {
            let ranks = observed.host.ranks.values();
            for told in ranks.filter(|told| is_one(told)) {
                let rank = &told.value.rank;
                let ranks: &mut Communicator<'a> =
                    communicators.entry(rank.communicator).or_default();
                ranks.insert(rank.rank, (node, &told.value));
            }
        }
        Self(communicators)
    }

    /// All pairs of hosts, each direction by itself.
    pub(crate) fn pairs(&self) -> Vec<ToldPair> {
        let mut rates: BTreeMap<(NodeId, NodeId), u64> = BTreeMap::new();
        for communicator in self.0.values() {
            for ((from, to), bits) in host_rates(communicator) {
                let sum = rates.entry((from, to)).or_default();
                *sum = sum.saturating_add(bits);
            }
        }
        let pair = |((from, to), bits)| ToldPair {
            from,
            to,
            rate: Rate::from_bits_per_s(bits),
        };
        rates.into_iter().map(pair).collect()
    }

    /// The part of the time that each of these hosts, in their order, spends in the collectives that most of
    /// them do together: less than the others where they wait for it. Of several ranks on a host the one
    /// that is waited for counts.
    pub(crate) fn collective_shares(&self, hosts: &BTreeSet<NodeId>) -> Option<Vec<f64>> {
        let least = |communicator: &Communicator<'a>| {
            let mut least: BTreeMap<NodeId, f64> = BTreeMap::new();
            for (host, reading) in communicator.values() {
                let own = share(reading)?;
                let known = least.entry(*host).or_insert(own);
                *known = known.min(own);
            }
            hosts.iter().map(|host| least.get(host).copied()).collect()
        };
        let mut communicators: Vec<_> = self.0.values().collect();
        communicators.sort_by_key(|it| Reverse(it.len()));
        communicators.into_iter().find_map(least)
    }
}

impl Ingest {
    /// What hosts send each other, as ranks on them have told lately, each direction by itself.
    pub fn told_pairs(&self, now: Moment, most_age: Duration) -> Vec<ToldPair> {
        Ranks::those(self, |told| told.is_fresh(now, most_age)).pairs()
    }
}

/// Bits a second, by whoever of the two knows more: one of them may run without the plugin.
fn host_rates(communicator: &Communicator<'_>) -> BTreeMap<(NodeId, NodeId), u64> {
    let mut between: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (&rank, (_, reading)) in communicator {
        for peer in &reading.peers {
            for (ends, bits) in ways(rank, peer, reading) {
                let known = between.entry(ends).or_default();
                *known = bits.max(*known);
            }
        }
    }
    let mut rates = BTreeMap::new();
    let host = |rank| communicator.get(&rank).map(|(host, _)| *host);
    for ((from, to), bits) in between {
        if let (Some(from), Some(to)) = (host(from), host(to))
            && from != to
        {
            let sum: &mut u64 = rates.entry((from, to)).or_default();
            *sum = sum.saturating_add(bits);
        }
    }
    rates
}

fn ways(rank: u32, peer: &RankPeer, reading: &RankReading) -> [((u32, u32), u64); 2] {
    let seconds = reading.over.as_secs_f64();
    // A float that is too large becomes the largest number.
    let bits = |bytes: u64| (bytes as f64 * 8.0 / seconds.max(f64::MIN_POSITIVE)) as u64;
    [
        ((rank, peer.rank), bits(peer.sent.count())),
        ((peer.rank, rank), bits(peer.received.count())),
    ]
}

/// None where the library does not tell how long collectives take.
fn share(reading: &RankReading) -> Option<f64> {
    let timed: u64 = reading.works.iter().map(|it| it.timed).sum();
    let took: f64 = reading.works.iter().map(|it| it.took.as_secs_f64()).sum();
    let seconds = reading.over.as_secs_f64();
    (timed > 0 && seconds > 0.0).then(|| (took / seconds).min(1.0))
}
