//! The duration of an all-reduce by its number of ranks.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::collective::RankReading;
use reweave_common::ids::NodeId;
use reweave_common::time_span::TimeSpan;

use crate::estimate::rank_groups::is_whole;
use crate::estimate::rank_reports::{Communicator, Ranks};

const ALLREDUCE_KIND: &str = "AllReduce";
/// Messages that differ by more take a different time because of their size.
const MAX_SIZE_RATIO: f64 = 1.05;

/// The average all-reduce of a communicator.
#[derive(Debug, Clone, Copy)]
struct Reduced {
    ranks: usize,
    bytes: f64,
    ms: f64,
}

impl Ranks<'_> {
    /// The time in milliseconds by the number of ranks, for messages of one size: the size that most numbers of ranks
    /// have. All-reduces within one host are left out.
    pub(crate) fn allreduce_ms(&self, hosts: &BTreeSet<NodeId>) -> Vec<(f64, f64)> {
        let reports = self.among(hosts).filter(|it| is_whole(it) && is_spread(it));
        let mut all: Vec<_> = reports.filter_map(reduced).collect();
        all.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
        let alike = all.chunk_by(|a, b| b.bytes <= a.bytes * MAX_SIZE_RATIO);
        let most = alike.map(by_ranks).max_by_key(BTreeMap::len);
        let most = most.unwrap_or_default();
        let mean = |ms: Vec<f64>| ms.iter().sum::<f64>() / ms.len() as f64;
        let means = most.into_iter().map(|(ranks, ms)| (ranks as f64, mean(ms)));
        means.collect()
    }
}

fn by_ranks(all: &[Reduced]) -> BTreeMap<usize, Vec<f64>> {
    let mut ms: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for it in all {
        ms.entry(it.ranks).or_default().push(it.ms);
    }
    ms
}

fn is_spread(communicator: &Communicator<'_>) -> bool {
    let hosts: BTreeSet<_> = communicator.values().map(|(host, _)| host).collect();
    hosts.len() > 1
}

/// Measured at the rank that spends the least time in them: it arrives last and waits for no other.
fn reduced(communicator: &Communicator<'_>) -> Option<Reduced> {
    let each = communicator.values().map(|(_, report)| one(report));
    let each: Vec<_> = each.collect::<Option<_>>()?;
    let (ms, bytes) = each.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Reduced {
        ranks: communicator.len(),
        bytes,
        ms,
    })
}

/// The time and the size of one all-reduce; none if the library does not report it.
fn one(rank_reading: &RankReading) -> Option<(f64, f64)> {
    let works = rank_reading
        .works
        .iter()
        .filter(|it| it.kind == ALLREDUCE_KIND);
    let (mut took, mut timed, mut bytes, mut count) = (TimeSpan::ZERO, 0, 0, 0);
    for it in works {
        took = took.saturating_add(it.took);
        timed = it.timed.saturating_add(timed);
        bytes = it.bytes.count().saturating_add(bytes);
        count = it.count.saturating_add(count);
    }
    let ms = took.as_secs_f64() * 1e3 / timed as f64;
    (timed > 0 && count > 0).then(|| (ms, bytes as f64 / count as f64))
}
