//! Whether evidence fits the fabric and itself, and what of it says nothing.

use std::collections::BTreeMap;

use reweave_common::fabric::{Fabric, Role};

use super::change::LEARNING;
use super::evidence::{
    Evidence, EvidenceError, HostFacts, JobFacts, KNOWN_SERIES, PairFacts, PortFacts, Probed,
    Series, Trace, UNKNOWN, UnsentFacts, hops, node,
};
use super::localise::scattered;
use super::vanished::is_lost_from_sight;

/// What a counter of bits in a second can hold.
const MOST_GBPS: f64 = 2e10;
/// What a counter of microseconds can hold.
const MOST_SKEW_MS: f64 = 1e16;
/// Nobody has seen so many probes, or collectives, of one kind; of more, sums would be wrong.
const MOST_COUNTED: f64 = 1e12;

type Checked = Result<(), EvidenceError>;

impl Evidence {
    pub(super) fn check(&self, fabric: &Fabric) -> Checked {
        self.ports.iter().try_for_each(|port| port.check(fabric))?;
        self.probes.iter().try_for_each(|it| it.check(fabric))?;
        self.pairs.iter().try_for_each(|pair| pair.check(fabric))?;
        self.series.iter().try_for_each(|it| it.check(fabric))?;
        self.jobs.iter().try_for_each(|job| job.check(fabric))?;
        self.hosts.iter().try_for_each(|host| host.check(fabric))?;
        self.traces.iter().try_for_each(|it| it.check(fabric))?;
        for flow in &self.flows {
            hops(fabric, &flow.path)?;
            within("the rate", || flow.path.join(">"), flow.gbps, MOST_GBPS)?;
        }
        self.check_unity(fabric)
    }

    /// Nothing is said twice, and otherwise.
    fn check_unity(&self, fabric: &Fabric) -> Checked {
        let hosts = self.hosts.iter();
        said_once(hosts.map(|it| (it.host.clone(), it)))?;
        // Between some there are several links, each with a port of its own.
        let ports = self.ports.iter();
        let alone = ports.filter(|it| !are_several(fabric, &it.node, &it.peer));
        said_once(alone.map(|it| (format!("the port of {}", it.place()), it)))?;
        let pairs = self.pairs.iter().map(|it| {
            let PairFacts { from, to, rail, .. } = it;
            (
                format!("the bandwidth of {from} to {to} on rail {rail}"),
                it.gbps,
            )
        });
        said_once(pairs)?;
        let traces = self.traces.iter().map(|it| {
            let hops = (it.hops_there, it.hops_back);
            (format!("the way of {} to {}", it.from, it.to), hops)
        });
        said_once(traces)?;
        let jobs = self.jobs.iter();
        said_once(jobs.map(|it| (format!("job {}", it.job), &it.ranks)))
    }

    /// What is left out, and why.
    pub fn doubts(&self, fabric: &Fabric) -> Vec<String> {
        let is_unknown =
            |path: &[String]| path.len() < 2 || path.iter().any(|name| name == UNKNOWN);
        let probes = self.probes.iter().filter(|it| is_unknown(&it.path));
        let probes = probes.filter(|it| !is_lost_from_sight(it));
        let probes = probes.map(|it| ("probes", &it.path));
        let flows = self.flows.iter().filter(|it| is_unknown(&it.path));
        let round = self.flows.iter().filter_map(|it| {
            let (path, twice) = (it.path.join(">"), comes_twice(&it.path)?);
            Some(format!(
                "a flow over {path:?} left out: it comes by {twice} twice"
            ))
        });
        let unknown = probes.chain(flows.map(|it| ("a flow", &it.path)));
        let unknown = unknown.map(|(what, path)| {
            format!(
                "{what} over {:?} left out: not every hop is known",
                path.join(">")
            )
        });
        let parallel = self
            .flows
            .iter()
            .filter(|it| has_parallel(fabric, &it.path));
        let parallel = parallel.map(|it| {
            let path = it.path.join(">");
            format!("a flow over {path:?} left out: there are parallel links on its way")
        });
        let short = self.series.iter().filter(|it| it.values.len() < LEARNING);
        let short = short.map(|it| {
            let (of, at) = (&it.of, it.at.join("-"));
            format!("the series of {of} at {at} left out: less than {LEARNING} values show nothing")
        });
        let hosts = self.hosts.iter().filter(|it| it.runs_beyond_itself());
        let hosts = hosts.map(|it| {
            let host = &it.host;
            format!("the bus of {host} left out: it runs at more than it could")
        });
        let said = unknown.chain(round).chain(parallel);
        let said = said.chain(short).chain(hosts);
        said.chain(scattered(self, fabric)).collect()
    }
}

/// Whether two neighbours of a path are joined by several links, of which it names none.
pub(super) fn has_parallel(fabric: &Fabric, path: &[String]) -> bool {
    path.windows(2)
        .any(|pair| are_several(fabric, &pair[0], &pair[1]))
}

fn are_several(fabric: &Fabric, a: &str, b: &str) -> bool {
    let ends = [a, b].map(|name| fabric.find(name));
    matches!(ends, [Some(a), Some(b)] if fabric.links_between(a, b).nth(1).is_some())
}

/// The first node that a path is at for a second time: what goes round in a circle never arrives.
pub(super) fn comes_twice(path: &[String]) -> Option<&String> {
    let known = path.iter().enumerate().filter(|(_, name)| *name != UNKNOWN);
    let mut again = known.filter(|(place, name)| path[..*place].contains(name));
    again.next().map(|(_, name)| name)
}

fn said_once<T: PartialEq>(all: impl Iterator<Item = (String, T)>) -> Checked {
    let mut said = BTreeMap::new();
    for (of, value) in all {
        if let Some(before) = said.insert(of.clone(), value)
            && Some(&before) != said.get(&of)
        {
            return Err(EvidenceError::Contradiction { of });
        }
    }
    Ok(())
}

fn at_least_nothing(what: &'static str, of: impl Fn() -> String, value: f64) -> Checked {
    within(what, of, value, f64::MAX)
}

fn counted(what: &'static str, of: impl Fn() -> String, count: u64) -> Checked {
    within(what, of, count as f64, MOST_COUNTED)
}

fn within(what: &'static str, of: impl Fn() -> String, value: f64, most: f64) -> Checked {
    match (0.0..=most).contains(&value) {
        true => Ok(()),
        false => impossible(what, of, value),
    }
}

fn impossible(what: &'static str, of: impl Fn() -> String, value: f64) -> Checked {
    let of = of();
    Err(EvidenceError::NotPossible { what, of, value })
}

impl PortFacts {
    fn check(&self, fabric: &Fabric) -> Checked {
        node(fabric, &self.node)?;
        node(fabric, &self.peer)?;
        self.incoming(fabric)?;
        let of = || self.place();
        let shares = [
            ("the share of broken frames", self.frame_error_share),
            ("the share of corrected bits", self.corrected_bit_share),
            ("the share of time paused", self.paused_share),
        ];
        for (what, share) in shares {
            within(what, of, share.unwrap_or(0.0), 1.0)?;
        }
        for (what, gbps) in [("the load", self.sent_gbps), ("the speed", self.speed_gbps)] {
            within(what, of, gbps.unwrap_or(0.0), MOST_GBPS)?;
        }
        Ok(())
    }

    fn place(&self) -> String {
        format!("{} towards {}", self.node, self.peer)
    }
}

impl Probed {
    fn check(&self, fabric: &Fabric) -> Checked {
        hops(fabric, &self.path)?;
        let of = || self.path.join(">");
        let mut sent = [self.sent, self.large_sent].into_iter();
        sent.try_for_each(|sent| counted("the number of probes", of, sent))?;
        let is_possible = self.lost <= self.sent && self.large_lost <= self.large_sent;
        match is_possible {
            true => Ok(()),
            false => Err(EvidenceError::MoreLostThanSent {
                path: self.path.join(">"),
            }),
        }
    }
}

impl HostFacts {
    fn check(&self, fabric: &Fabric) -> Checked {
        if fabric.node(node(fabric, &self.host)?).role == Role::Switch {
            let name = self.host.clone();
            return Err(EvidenceError::NoHost { name });
        }
        self.unsent.iter().try_for_each(|it| it.check(fabric))?;
        let of = || self.host.clone();
        let busy = self.cpu_busy_share.unwrap_or(0.0);
        within("the share of time that is busy", of, busy, 1.0)?;
        let skew_ms = self.clock_skew_ms.unwrap_or(0.0);
        if skew_ms.abs() > MOST_SKEW_MS {
            return impossible("the error of the clock", of, skew_ms);
        }
        for gts in [self.pcie_gts, self.pcie_most_gts] {
            at_least_nothing("the speed of the bus", of, gts.unwrap_or(0.0))?;
        }
        Ok(())
    }

    fn runs_beyond_itself(&self) -> bool {
        let is_more = |now: Option<f64>, most: Option<f64>| now > most && most.is_some();
        let lanes = [self.pcie_lanes, self.pcie_most_lanes].map(|it| it.map(f64::from));
        is_more(self.pcie_gts, self.pcie_most_gts) || is_more(lanes[0], lanes[1])
    }
}

impl Trace {
    /// Nobody is so many hops from itself.
    fn check(&self, fabric: &Fabric) -> Checked {
        let ends = [node(fabric, &self.from)?, node(fabric, &self.to)?];
        let of = || format!("{} to {}", self.from, self.to);
        let most = if ends[0] == ends[1] { 0.0 } else { f64::MAX };
        let hops = self.hops_there.max(self.hops_back);
        within("the number of hops", of, hops.into(), most)
    }
}

impl UnsentFacts {
    fn check(&self, fabric: &Fabric) -> Checked {
        node(fabric, &self.to)?;
        let of = || format!("probes to {}", self.to);
        counted("the number due", of, self.due)?;
        within(
            "the number not sent",
            of,
            self.count() as f64,
            self.due as f64,
        )
    }
}

impl PairFacts {
    fn check(&self, fabric: &Fabric) -> Checked {
        let ends = [node(fabric, &self.from)?, node(fabric, &self.to)?];
        let of = || format!("{} to {}", self.from, self.to);
        let most = if ends[0] == ends[1] { 0.0 } else { MOST_GBPS };
        within("the bandwidth", of, self.gbps, most)
    }
}

impl Series {
    fn check(&self, fabric: &Fabric) -> Checked {
        if !KNOWN_SERIES.contains(&&self.of[..]) {
            return Err(EvidenceError::NoSuchSeries {
                of: self.of.clone(),
            });
        }
        for name in &self.at {
            node(fabric, name)?;
        }
        let of = || self.place();
        within("the number of places", of, self.at.len() as f64, 2.0)?;
        at_least_nothing("the time between values", of, self.every_s)?;
        if self.every_s == 0.0 {
            return impossible("the time between values", of, self.every_s);
        }
        // How quick something is, may be told beside how quick it is as a rule.
        let most = match &self.of[..] {
            "latency_us" => return Ok(()),
            "errors" => f64::MAX,
            _ => 1.0,
        };
        let mut values = self.values.iter();
        values.try_for_each(|&value| within("a value", || self.place(), value, most))
    }

    fn place(&self) -> String {
        format!("{} at {}", self.of, self.at.join("-"))
    }
}

impl JobFacts {
    fn check_figures(&self, fabric: &Fabric) -> Checked {
        let of = || format!("job {}", self.job);
        within("the share of rest", of, self.rest_share.unwrap_or(0.0), 1.0)?;
        for demand in &self.will_send {
            hops(fabric, &demand.path)?;
            within("what is to come", of, demand.gbps, MOST_GBPS)?;
        }
        let mut first = self.first.iter();
        first.try_for_each(|&times| counted("the number of collectives", of, times))?;
        let collectives = self.collectives.iter();
        let pairs = collectives.clone().flat_map(|it| &it.pairs);
        if let Some(pair) = pairs.clone().find(|pair| pair.from == pair.to) {
            let of = || format!("rank {} of {}", pair.from, of());
            return impossible("the partner", of, pair.to as f64);
        }
        let sizes = self.allreduce_ms.iter().flat_map(|(size, ms)| [*size, *ms]);
        let own = self.compute_ms.iter().chain(&self.communicate_ms).copied();
        let times = collectives.map(|it| it.ms).chain(pairs.map(|it| it.ms));
        let mut all = times.chain(sizes).chain(own);
        all.try_for_each(|ms| at_least_nothing("a time", of, ms))
    }

    fn check(&self, fabric: &Fabric) -> Checked {
        for host in &self.ranks {
            node(fabric, host)?;
        }
        self.check_figures(fabric)?;
        let groups = self.tensor_groups.iter().chain(&self.pipeline_stages);
        let ring = self.ring.iter().copied();
        let pairs = self.collectives.iter().flat_map(|it| &it.pairs);
        let pairs = pairs.flat_map(|pair| [pair.from, pair.to]);
        let by_rank = [
            self.first.len(),
            self.compute_ms.len(),
            self.communicate_ms.len(),
        ];
        let last = by_rank.into_iter().filter_map(|ranks| ranks.checked_sub(1));
        let mut all = groups
            .flatten()
            .copied()
            .chain(ring)
            .chain(pairs)
            .chain(last);
        match all.find(|&rank| rank >= self.ranks.len()) {
            Some(rank) => Err(EvidenceError::NoSuchRank {
                job: self.job.clone(),
                rank,
            }),
            None => Ok(()),
        }
    }
}
