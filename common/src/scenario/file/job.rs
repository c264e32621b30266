//! `[[job]]` tables.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use crate::ids::{NodeId, Rank};
use crate::input::{InputError, Table};
use crate::routes::hops_to;
use crate::scenario::{Job, PathChoice, Transport};
use crate::units::Bytes;
use crate::workload::Pattern;

const MAX_FLOWS_PER_PAIR: i64 = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobFile {
    name: Spanned<String>,
    pattern: Spanned<PatternName>,
    hosts: Spanned<Vec<Spanned<String>>>,
    bytes: Spanned<i64>,
    iterations: Spanned<i64>,
    flows_per_pair: Option<Spanned<i64>>,
    compute_ms: Option<Spanned<f64>>,
    start_s: Option<Spanned<f64>>,
    #[serde(default)]
    transport: TransportName,
    paths: Option<PathsName>,
    via: Option<Spanned<String>>,
    group_size: Option<Spanned<i64>>,
    microbatches: Option<Spanned<i64>>,
    pairs: Option<Spanned<Vec<Spanned<Vec<i64>>>>>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PatternName {
    RingAllreduce,
    HierarchicalAllreduce,
    AllToAll,
    Pipeline,
    Streams,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TransportName {
    #[default]
    Tcp,
    Udp,
    Quic,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PathsName {
    Hash,
    Collide,
    Spread,
}

impl Reader<'_> {
    pub(super) fn job(&self, table: Table<'_>) -> Result<Job, InputError> {
        let file: JobFile = table.finish()?;
        if self.jobs.iter().any(|job| job.name == *file.name.get_ref()) {
            let problem = format!("there are two jobs named {:?}", file.name.get_ref());
            return Err(self.document.error(file.name.span(), problem));
        }
        let hosts = self.distinct_hosts(&file.hosts)?;
        let whole = |value: &Spanned<i64>, most: i64| self.document.whole(value, 1..=most);
        let flows = file
            .flows_per_pair
            .as_ref()
            .map_or(Ok(1), |n| whole(n, MAX_FLOWS_PER_PAIR))?;
        let pattern = self.pattern(&file, hosts.len())?;
        self.all_reach(&pattern, &hosts, file.hosts.get_ref())?;
        Ok(Job {
            pattern,
            bytes: Bytes::new(whole(&file.bytes, 1 << 40)?),
            flows_per_pair: flows as u32,
            compute: file
                .compute_ms
                .as_ref()
                .map_or(Ok(Duration::ZERO), |ms| self.millis(ms))?,
            iterations: whole(&file.iterations, i64::from(u32::MAX))? as u32,
            transport: match file.transport {
                TransportName::Tcp => Transport::Tcp,
                TransportName::Udp => Transport::Udp4791,
                TransportName::Quic => Transport::Quic,
            },
            paths: self.paths(file.paths, &file.via)?,
            start: file
                .start_s
                .as_ref()
                .map_or(Ok(Duration::ZERO), |s| self.seconds(s))?,
            name: self.plain_name(file.name, "job")?,
            hosts,
        })
    }

    fn paths(
        &self,
        named: Option<PathsName>,
        via: &Option<Spanned<String>>,
    ) -> Result<PathChoice, InputError> {
        match (named, via) {
            (Some(_), Some(via)) => {
                let problem = "`paths` already sets the paths of flows";
                Err(self.document.error(via.span(), problem))
            }
            (None, Some(via)) => Ok(PathChoice::Via(self.node(via)?)),
            (Some(PathsName::Collide), None) => Ok(PathChoice::Collide),
            (Some(PathsName::Spread), None) => Ok(PathChoice::Spread),
            (Some(PathsName::Hash) | None, None) => Ok(PathChoice::Hash),
        }
    }

    fn pattern(&self, file: &JobFile, ranks: usize) -> Result<Pattern, InputError> {
        let name = *file.pattern.get_ref();
        self.owned_by(
            PatternName::HierarchicalAllreduce,
            name,
            "group_size",
            &file.group_size,
        )?;
        self.owned_by(
            PatternName::Pipeline,
            name,
            "microbatches",
            &file.microbatches,
        )?;
        self.owned_by(PatternName::Streams, name, "pairs", &file.pairs)?;
        let missing = |key| {
            self.document
                .error(file.pattern.span(), format!("it needs `{key}`"))
        };
        match name {
            PatternName::RingAllreduce => Ok(Pattern::RingAllReduce),
            PatternName::AllToAll => Ok(Pattern::AllToAll),
            PatternName::HierarchicalAllreduce => {
                let size = file
                    .group_size
                    .as_ref()
                    .ok_or_else(|| missing("group_size"))?;
                let group_size = self.document.whole(size, 1..=ranks as i64)? as usize;
                if !ranks.is_multiple_of(group_size) {
                    let problem = format!("{ranks} ranks do not make whole groups of {group_size}");
                    return Err(self.document.error(size.span(), problem));
                }
                Ok(Pattern::HierarchicalAllReduce { group_size })
            }
            PatternName::Pipeline => {
                let count = file
                    .microbatches
                    .as_ref()
                    .ok_or_else(|| missing("microbatches"))?;
                Ok(Pattern::Pipeline {
                    microbatches: self.document.whole(count, 1..=1 << 16)? as usize,
                })
            }
            PatternName::Streams => {
                let pairs = file.pairs.as_ref().ok_or_else(|| missing("pairs"))?;
                Ok(Pattern::Streams {
                    pairs: self.rank_pairs(pairs, ranks)?,
                })
            }
        }
    }

    /// Refuses a key that only another pattern uses.
    fn owned_by<T>(
        &self,
        owner: PatternName,
        pattern: PatternName,
        key: &str,
        value: &Option<Spanned<T>>,
    ) -> Result<(), InputError> {
        match value {
            Some(value) if owner != pattern => {
                let problem = format!("`{key}` has no effect with this pattern");
                Err(self.document.error(value.span(), problem))
            }
            _ => Ok(()),
        }
    }

    fn rank_pairs(
        &self,
        pairs: &Spanned<Vec<Spanned<Vec<i64>>>>,
        ranks: usize,
    ) -> Result<Vec<[Rank; 2]>, InputError> {
        let mut known = Vec::new();
        for pair in pairs.get_ref() {
            let ranks = self.rank_pair(pair.clone(), ranks)?;
            if known.contains(&ranks) {
                let problem = format!("[{}, {}] is a duplicate", ranks[0], ranks[1]);
                return Err(self.document.error(pair.span(), problem));
            }
            known.push(ranks);
        }
        if known.is_empty() {
            return Err(self.document.error(pairs.span(), "name at least one pair"));
        }
        Ok(known)
    }

    fn rank_pair(&self, pair: Spanned<Vec<i64>>, ranks: usize) -> Result<[Rank; 2], InputError> {
        let pair = self.document.pair(pair)?;
        let [from, to] = *pair.get_ref();
        let known = |rank: i64| (0..ranks as i64).contains(&rank);
        if !known(from) || !known(to) || from == to {
            let problem = format!("[{from}, {to}] is not a pair of different ranks below {ranks}");
            return Err(self.document.error(pair.span(), problem));
        }
        Ok([from, to].map(|rank| Rank::from_index(rank as usize)))
    }

    /// Checks that each sender has a path to its receivers; `names` are those of `hosts`.
    fn all_reach(
        &self,
        pattern: &Pattern,
        hosts: &[NodeId],
        names: &[Spanned<String>],
    ) -> Result<(), InputError> {
        let mut pairs = pattern.peers(hosts.len());
        pairs.sort();
        for to_all in pairs.chunk_by(|a, b| a[0] == b[0]) {
            let hops = hops_to(&self.fabric, hosts[to_all[0][0].index()]);
            let lost = |pair: &&[Rank; 2]| hops[hosts[pair[1].index()].index()].is_none();
            if let Some(pair) = to_all.iter().find(lost) {
                let [from, to] = pair.map(|rank| &names[rank.index()]);
                let problem = format!(
                    "no links lead from {:?} to {:?}",
                    from.get_ref(),
                    to.get_ref()
                );
                return Err(self.document.error(to.span(), problem));
            }
        }
        Ok(())
    }

    fn distinct_hosts(
        &self,
        names: &Spanned<Vec<Spanned<String>>>,
    ) -> Result<Vec<NodeId>, InputError> {
        let hosts = self.distinct(names.get_ref(), Self::host)?;
        if hosts.len() < 2 {
            return Err(self
                .document
                .error(names.span(), "a job needs at least two hosts"));
        }
        Ok(hosts)
    }
}
