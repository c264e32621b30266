//! Whether evidence fits the fabric and itself, and what of it says nothing.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::{Fabric, Role};

use super::change::LEARNING;
use super::evidence::{
    Evidence, EvidenceError, FlowFacts, HostFacts, JobFacts, KNOWN_SERIES, PairFacts, PortFacts,
    Probed, Series, Trace, UNKNOWN, UnsentFacts, hops, node,
};
use super::localise::scattered;
use super::passages::{passage, passages};
use super::vanished::is_lost_from_sight;

/// What a counter of bits in a second can hold.
const MOST_GBPS: f64 = 2e10;
/// What a counter of microseconds can hold.
const MOST_SKEW_MS: f64 = 1e16;
/// Nobody has seen so many probes, or collectives, of one kind; of more, sums would be wrong.
const MOST_COUNTED: f64 = 1e12;

type Checked = Result<(), EvidenceError>;

/// One thing that was measured.
trait Told {
    /// Whether it fits the fabric, and can be at all.
    fn check(&self, fabric: &Fabric) -> Checked;

    /// Of what it alone may speak, if of anything.
    fn of(&self, _: &Fabric) -> Option<String> {
        None
    }

    /// Whether both say the same of it.
    fn agrees(&self, _: &Self) -> bool {
        true
    }
}

/// Evidence of which every item fits the fabric and the others.
#[derive(Debug, Clone, Default)]
pub struct Sifted(pub(super) Evidence);

impl Evidence {
    pub(super) fn check(&self, fabric: &Fabric) -> Checked {
        sound(&self.ports, fabric)?;
        sound(&self.probes, fabric)?;
        sound(&self.pairs, fabric)?;
        sound(&self.series, fabric)?;
        sound(&self.jobs, fabric)?;
        sound(&self.hosts, fabric)?;
        sound(&self.traces, fabric)?;
        sound(&self.flows, fabric)?;
        self.check_unity(fabric)
    }

    /// Nothing is said twice, and otherwise.
    fn check_unity(&self, fabric: &Fabric) -> Checked {
        said_once(&self.hosts, fabric)?;
        said_once(&self.ports, fabric)?;
        said_once(&self.pairs, fabric)?;
        said_once(&self.traces, fabric)?;
        said_once(&self.jobs, fabric)
    }

    /// Without what cannot be, and without all that is said of something in two ways; and why it is left
    /// out. Where many measure, one who is wrong does not silence the others.
    pub fn sifted(mut self, fabric: &Fabric) -> (Sifted, Vec<String>) {
        let mut errors = Vec::new();
        sift(&mut self.ports, fabric, &mut errors);
        sift(&mut self.probes, fabric, &mut errors);
        sift(&mut self.pairs, fabric, &mut errors);
        sift(&mut self.series, fabric, &mut errors);
        sift(&mut self.jobs, fabric, &mut errors);
        sift(&mut self.hosts, fabric, &mut errors);
        sift(&mut self.traces, fabric, &mut errors);
        sift(&mut self.flows, fabric, &mut errors);
        let doubts = errors.iter().map(|error| format!("left out: {error}"));
        (Sifted(self), doubts.collect())
    }

    /// What is left out, and why.
    pub fn doubts(&self, fabric: &Fabric) -> Vec<String> {
        let flows = self.flows.iter().filter(|it| is_unknown(&it.path));
        let unknown = flows.map(|it| not_followed("a flow", &it.path));
        let round = self.flows.iter().filter_map(|it| {
            let (path, twice) = (it.path.join(">"), comes_twice(&it.path)?);
            Some(format!(
                "a flow over {path:?} left out: it comes by {twice} twice"
            ))
        });
        let short = self.series.iter().filter(|it| it.values.len() < LEARNING);
        let short = short.map(|it| {
            let (of, at) = (&it.of, it.at.join("-"));
            format!("the series of {of} at {at} left out: less than {LEARNING} values show nothing")
        });
        let said = unknown.chain(round).chain(self.doubts_of_cables(fabric));
        said.chain(short)
            .chain(self.doubts_of_hosts(fabric))
            .collect()
    }

    /// Of flows that say over which nodes they go, and not by which of parallel links.
    fn doubts_of_cables(&self, fabric: &Fabric) -> impl Iterator<Item = String> {
        let is_unsure = |flow: &&FlowFacts| {
            let way = passages(fabric, &flow.path, &flow.links).unwrap_or_default();
            way.iter().any(|it| !it.is_sure)
        };
        self.flows.iter().filter(is_unsure).map(|it| {
            let path = it.path.join(">");
            format!("a flow over {path:?} left out: there are parallel links on its way, and none is named")
        })
    }

    /// The same of what hosts and their probes say alone.
    fn doubts_of_hosts(&self, fabric: &Fabric) -> impl Iterator<Item = String> {
        let probes = self.probes.iter().filter(|it| is_unknown(&it.path));
        let probes = probes.filter(|it| !is_lost_from_sight(it));
        let unknown = probes.map(|it| not_followed("probes", &it.path));
        let hosts = self.hosts.iter().filter(|it| it.runs_beyond_itself());
        let hosts = hosts.map(|it| {
            let host = &it.host;
            format!("the bus of {host} left out: it runs at more than it could")
        });
        unknown.chain(hosts).chain(scattered(self, fabric))
    }
}

impl Sifted {
    /// What is left out of what hosts and their probes say. A series that is short grows while it is
    /// watched.
    pub fn doubts(&self, fabric: &Fabric) -> Vec<String> {
        let of_cables = self.0.doubts_of_cables(fabric);
        of_cables.chain(self.0.doubts_of_hosts(fabric)).collect()
    }
}

fn is_unknown(path: &[String]) -> bool {
    path.len() < 2 || path.iter().any(|name| name == UNKNOWN)
}

fn not_followed(what: &str, path: &[String]) -> String {
    let path = path.join(">");
    format!("{what} over {path:?} left out: not every hop is known")
}

/// The first node that a path is at for a second time: what goes round in a circle never arrives.
pub(super) fn comes_twice(path: &[String]) -> Option<&String> {
    let known = path.iter().enumerate().filter(|(_, name)| *name != UNKNOWN);
    let mut again = known.filter(|(place, name)| path[..*place].contains(name));
    again.next().map(|(_, name)| name)
}

fn sound<T: Told>(all: &[T], fabric: &Fabric) -> Checked {
    all.iter().try_for_each(|it| it.check(fabric))
}

fn said_once<T: Told>(all: &[T], fabric: &Fabric) -> Checked {
    match contradicted(all, fabric).pop_first() {
        Some(of) => Err(EvidenceError::Contradiction { of }),
        None => Ok(()),
    }
}

/// Of what several speak, and say other things.
fn contradicted<T: Told>(all: &[T], fabric: &Fabric) -> BTreeSet<String> {
    let (mut said, mut contradicted) = (BTreeMap::new(), BTreeSet::new());
    for one in all {
        let Some(of) = one.of(fabric) else { continue };
        if !said.entry(of.clone()).or_insert(one).agrees(one) {
            contradicted.insert(of);
        }
    }
    contradicted
}

fn sift<T: Told>(all: &mut Vec<T>, fabric: &Fabric, errors: &mut Vec<EvidenceError>) {
    all.retain(|it| match it.check(fabric) {
        Ok(()) => true,
        Err(error) => {
            errors.push(error);
            false
        }
    });
    let contradicted = contradicted(all, fabric);
    let is_believed = |it: &T| it.of(fabric).is_none_or(|of| !contradicted.contains(&of));
    if !contradicted.is_empty() {
        all.retain(is_believed);
    }
    let doubted = contradicted.into_iter();
    errors.extend(doubted.map(|of| EvidenceError::Contradiction { of }));
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

impl Told for PortFacts {
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

    /// Between some there are several links, each with a port of its own.
    fn of(&self, fabric: &Fabric) -> Option<String> {
        let way = self.incoming(fabric).ok().filter(|it| it.is_sure)?;
        let link = way.hop.link;
        let by = match fabric.is_parallel(link) {
            true => format!(" by {}", fabric.link_name(link)),
            false => String::new(),
        };
        Some(format!("the port of {}{by}", self.place()))
    }

    /// Who names the only link says no more than who does not.
    fn agrees(&self, other: &Self) -> bool {
        let link = other.link.clone();
        Self {
            link,
            ..self.clone()
        } == *other
    }
}

impl PortFacts {
    fn place(&self) -> String {
        format!("{} towards {}", self.node, self.peer)
    }
}

impl Told for Probed {
    fn check(&self, fabric: &Fabric) -> Checked {
        passages(fabric, &self.path, &self.links)?;
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

impl Told for HostFacts {
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

    fn of(&self, _: &Fabric) -> Option<String> {
        Some(self.host.clone())
    }

    fn agrees(&self, other: &Self) -> bool {
        self == other
    }
}

impl HostFacts {
    fn runs_beyond_itself(&self) -> bool {
        let is_more = |now: Option<f64>, most: Option<f64>| now > most && most.is_some();
        let lanes = [self.pcie_lanes, self.pcie_most_lanes].map(|it| it.map(f64::from));
        is_more(self.pcie_gts, self.pcie_most_gts) || is_more(lanes[0], lanes[1])
    }
}

impl Told for Trace {
    /// Nobody is so many hops from itself.
    fn check(&self, fabric: &Fabric) -> Checked {
        let ends = [node(fabric, &self.from)?, node(fabric, &self.to)?];
        let of = || format!("{} to {}", self.from, self.to);
        let most = if ends[0] == ends[1] { 0.0 } else { f64::MAX };
        let hops = self.hops_there.max(self.hops_back);
        within("the number of hops", of, hops.into(), most)
    }

    fn of(&self, _: &Fabric) -> Option<String> {
        Some(format!("the way of {} to {}", self.from, self.to))
    }

    fn agrees(&self, other: &Self) -> bool {
        let hops = |it: &Self| (it.hops_there, it.hops_back);
        hops(self) == hops(other)
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

impl Told for PairFacts {
    fn check(&self, fabric: &Fabric) -> Checked {
        let ends = [node(fabric, &self.from)?, node(fabric, &self.to)?];
        let of = || format!("{} to {}", self.from, self.to);
        let most = if ends[0] == ends[1] { 0.0 } else { MOST_GBPS };
        within("the bandwidth", of, self.gbps, most)
    }

    fn of(&self, _: &Fabric) -> Option<String> {
        let Self { from, to, rail, .. } = self;
        Some(format!("the bandwidth of {from} to {to} on rail {rail}"))
    }

    fn agrees(&self, other: &Self) -> bool {
        self.gbps == other.gbps
    }
}

impl Told for FlowFacts {
    fn check(&self, fabric: &Fabric) -> Checked {
        passages(fabric, &self.path, &self.links)?;
        let of = || self.path.join(">");
        within(
            "the highest rate",
            of,
            self.most_gbps.unwrap_or(0.0),
            MOST_GBPS,
        )?;
        within("the rate", of, self.gbps, MOST_GBPS)
    }
}

impl Told for Series {
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
        if let [end, peer] = &self.at[..] {
            passage(fabric, [peer, end], self.link.as_deref())?;
        }
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
}

impl Series {
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
}

impl Told for JobFacts {
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

    fn of(&self, _: &Fabric) -> Option<String> {
        Some(format!("job {}", self.job))
    }

    fn agrees(&self, other: &Self) -> bool {
        self.ranks == other.ranks
    }
}
