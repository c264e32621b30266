//! Reports of jobs: the host of each rank, traffic between ranks that the kernel does not see, and the share of time
//! that each rank spends in collectives.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::collective::{RankPeer, RankReading};
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::observations::TimedReading;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;

use crate::ingest::telemetry::Ingest;

/// Seconds with fewer reports may have one more, or one less.
const MIN_SECONDLY_COUNT: u64 = 8;

/// Traffic from one host to another, as ranks report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedPair {
    pub from: NodeId,
    pub to: NodeId,
    pub rate: Rate,
}

/// Collectives of one communicator.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) name: String,
    /// How long one takes.
    pub(crate) took: Option<TimeSpan>,
    pub(crate) sendings: Vec<RankTransfer>,
}

/// Traffic from one rank to a rank on another host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankTransfer {
    pub(crate) ranks: [u32; 2],
    pub(crate) hosts: [NodeId; 2],
    /// The rate while a message is in flight, on one channel; the average rate if that time is unknown.
    pub(crate) rate: Rate,
}

/// The host and the report of each rank, by communicator.
pub(crate) struct Ranks<'a>(BTreeMap<u64, Communicator<'a>>);

pub(crate) type Communicator<'a> = BTreeMap<u32, (NodeId, &'a RankReading)>;

impl<'a> Ranks<'a> {
    pub(crate) fn of(ingest: &'a Ingest) -> Self {
        Self::those(ingest, |_| true)
    }

    fn those(ingest: &'a Ingest, is_one: impl Fn(&TimedReading<RankReading>) -> bool) -> Self {
        let mut communicators = BTreeMap::new();
        for (node, observed) in ingest.observations().nodes() {
            let ranks = observed.host.ranks.values();
            for report in ranks.filter(|report| is_one(report)) {
                let rank = &report.value.rank;
                let ranks: &mut Communicator<'a> =
                    communicators.entry(rank.communicator).or_default();
                ranks.insert(rank.rank, (node, &report.value));
            }
        }
        Self(communicators)
    }

    /// All pairs of hosts, each direction by itself.
    pub(crate) fn pairs(&self) -> Vec<ReportedPair> {
        let mut rates: BTreeMap<(NodeId, NodeId), u64> = BTreeMap::new();
        for communicator in self.0.values() {
            for ((from, to), bits) in host_rates(communicator) {
                let sum = rates.entry((from, to)).or_default();
                *sum = sum.saturating_add(bits);
            }
        }
        rates
            .into_iter()
            .map(|((from, to), bits)| ReportedPair {
                from,
                to,
                rate: Rate::from_bits_per_s(bits),
            })
            .collect()
    }

    /// The share of the time that each of these hosts, in their order, spends in the collectives that most of them
    /// share. A host that the others wait for spends less. Of several ranks on a host, the one that is waited for
    /// counts.
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

impl<'a> Ranks<'a> {
    /// The communicators without ranks on other hosts.
    pub(crate) fn among(
        &self,
        hosts: &BTreeSet<NodeId>,
    ) -> impl Iterator<Item = &Communicator<'a>> {
        let all = self.0.values();
        all.filter(|it| it.values().all(|(host, _)| hosts.contains(host)))
    }

    /// The rate of the most frequent kind of collective or message of these hosts, if there were enough of them to
    /// measure it.
    pub(crate) fn most_often_per_s(&self, hosts: &BTreeSet<NodeId>) -> Option<f64> {
        let reports = self.among(hosts).flat_map(BTreeMap::values);
        let known = reports.filter(|(_, reports)| reports.missed == 0 && !reports.over.is_zero());
        let often = known.flat_map(|(_, reports)| {
            let often = reports
                .works
                .iter()
                .filter(|it| it.count >= MIN_SECONDLY_COUNT);
            often.map(|it| it.count as f64 / reports.over.as_secs_f64())
        });
        often.max_by(f64::total_cmp)
    }

    /// The slowest collective of the communicator in which these hosts spend most of their time.
    pub(crate) fn slowest(&self, hosts: &BTreeSet<NodeId>) -> Option<Work> {
        let report = self.among(hosts);
        let report = report.map(|communicator| (communicator, sendings(communicator)));
        let report = report.filter(|(_, sendings)| !sendings.is_empty());
        let (most, sendings) =
            report.max_by_key(|(communicator, _)| in_collectives(communicator))?;
        let (name, took) = slowest_kind(most)?;
        Some(Work {
            name,
            took,
            sendings,
        })
    }
}

/// The share of the time, and the bytes to compare by where the time is unknown.
fn in_collectives(communicator: &Communicator<'_>) -> (TimeSpan, u64) {
    let works = communicator.values().flat_map(|(_, report)| &report.works);
    works.fold((TimeSpan::ZERO, 0), |(took, bytes), it| {
        let bytes = it.bytes.count().saturating_add(bytes);
        (took.saturating_add(it.took), bytes)
    })
}

/// By kind, algorithm and protocol: the one that takes longest, or if no time is known, the one with most bytes.
fn slowest_kind(communicator: &Communicator<'_>) -> Option<(String, Option<TimeSpan>)> {
    let mut kinds: BTreeMap<[&str; 3], (TimeSpan, u64, u64)> = BTreeMap::new();
    for works in communicator.values().flat_map(|(_, report)| &report.works) {
        let kind = [&works.kind, &works.algorithm, &works.protocol].map(|it| &it[..]);
        let (took, timed, bytes) = kinds.entry(kind).or_default();
        *took = took.saturating_add(works.took);
        *timed = timed.saturating_add(works.timed);
        *bytes = bytes.saturating_add(works.bytes.count());
    }
    let one = |took: TimeSpan, timed: u64| (timed > 0).then(|| took.scaled(1.0 / timed as f64));
    let kinds = kinds.into_iter();
    let kinds = kinds.map(|(kind, (took, timed, bytes))| (one(took, timed), bytes, kind));
    let (took, _, kind) = kinds.max()?;
    let words = kind.into_iter().filter(|word| !word.is_empty());
    Some((words.collect::<Vec<_>>().join(" "), took))
}

/// Traffic between ranks on different hosts, by the report of the one that counted more.
fn sendings(communicator: &Communicator<'_>) -> Vec<RankTransfer> {
    let mut most: BTreeMap<[u32; 2], (u64, TimeSpan, TimeSpan)> = BTreeMap::new();
    for (&rank, (_, report)) in communicator {
        for peer in &report.peers {
            let ways = [
                ([rank, peer.rank], peer.sent, peer.sending),
                ([peer.rank, rank], peer.received, peer.receiving),
            ];
            for (ranks, bytes, sending) in ways.into_iter().filter(|it| it.1.count() > 0) {
                let known = most.entry(ranks).or_default();
                *known = (bytes.count(), sending, report.over).max(*known);
            }
        }
    }
    let host = |rank| communicator.get(&rank).map(|(host, _)| *host);
    let sending = |(ranks, (bytes, sending, over)): ([u32; 2], (u64, TimeSpan, TimeSpan))| {
        let hosts = [host(ranks[0])?, host(ranks[1])?];
        let while_sending = if sending.is_zero() { over } else { sending };
        let rate = Rate::from_bits_per_s(bits_per_s(bytes, while_sending));
        (hosts[0] != hosts[1]).then_some(RankTransfer { ranks, hosts, rate })
    };
    most.into_iter().filter_map(sending).collect()
}

impl Ingest {
    /// What hosts send each other by recent reports of ranks, each direction by itself.
    pub fn fresh_pairs(&self, now: Moment, most_age: Duration) -> Vec<ReportedPair> {
        Ranks::those(self, |report| report.is_fresh(now, most_age)).pairs()
    }
}

/// Bits per second, by the report of the host that counted more: the other one may run without the plugin.
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
    let bits = |bytes| bits_per_s(bytes, reading.over);
    [
        ((rank, peer.rank), bits(peer.sent.count())),
        ((peer.rank, rank), bits(peer.received.count())),
    ]
}

fn bits_per_s(bytes: u64, over: TimeSpan) -> u64 {
    // The cast saturates.
    (bytes as f64 * 8.0 / over.as_secs_f64().max(f64::MIN_POSITIVE)) as u64
}

/// None if the library does not report how long collectives take.
fn share(reading: &RankReading) -> Option<f64> {
    let is_timed = reading.works.iter().any(|it| it.timed > 0);
    let took: f64 = reading.works.iter().map(|it| it.took.as_secs_f64()).sum();
    let seconds = reading.over.as_secs_f64();
    (is_timed && seconds > 0.0).then(|| (took / seconds).min(1.0))
}
