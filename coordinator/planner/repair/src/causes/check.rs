//! Whether evidence fits the fabric and itself, and what of it says nothing.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;

use super::change::BASELINE_VALUES;
use super::error::EvidenceError;
use super::evidence::{Evidence, FlowFacts, UNKNOWN_NODE};
use super::evidence_check::{Checked, EvidenceItem};
use super::losses::scattered;
use super::passages::{comes_twice, goes_round, passages};
use super::vanished::is_lost_from_sight;
use super::{configuration, mtu};

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
        self.check_rates(fabric)?;
        self.check_unity(fabric)
    }

    /// Checks that no rate exceeds that of its link.
    fn check_rates(&self, fabric: &Fabric) -> Checked {
        each(&self.flows, |it| it.check_rate(fabric))?;
        each(&self.ports, |it| it.check_rate(fabric))?;
        each(&self.pairs, |it| it.check_rate(fabric))
    }

    /// Checks that no subject is described twice in contradictory ways.
    fn check_unity(&self, fabric: &Fabric) -> Checked {
        said_once(&self.hosts, fabric)?;
        said_once(&self.ports, fabric)?;
        said_once(&self.pairs, fabric)?;
        said_once(&self.traces, fabric)?;
        said_once(&self.series, fabric)?;
        said_once(&self.jobs, fabric)
    }

    /// Removes impossible and contradictory evidence, and returns the reasons. With many sources, a wrong one does not
    /// discard the others.
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

    /// Returns reasons for evidence that is left out.
    pub fn doubts(&self, fabric: &Fabric) -> Vec<String> {
        let flows = self.flows.iter().filter(|it| is_unknown(&it.path));
        let unknown = flows.map(|it| not_followed("a flow", &it.path));
        let round = self.flows.iter().filter_map(|it| {
            let twice = comes_twice(&it.path)?;
            Some(in_a_circle("a flow", &it.path, twice))
        });
        let short = self
            .series
            .iter()
            .filter(|it| it.values.len() < BASELINE_VALUES);
        let short = short.map(|it| {
            let (of, at) = (&it.of, it.at.join("-"));
            format!("the series of {of} at {at} left out: less than {BASELINE_VALUES} values show nothing")
        });
        let said = unknown.chain(round).chain(self.doubts_of_cables(fabric));
        said.chain(short)
            .chain(self.doubts_of_hosts(fabric))
            .collect()
    }

    /// Returns doubts about flows that name their nodes but not which of parallel links they cross.
    fn doubts_of_cables(&self, fabric: &Fabric) -> impl Iterator<Item = String> {
        let is_unsure = |flow: &&FlowFacts| {
            let way = passages(fabric, &flow.path, &flow.links).unwrap_or_default();
            way.iter().any(|it| !it.is_sure)
        };
        self.flows.iter().filter(is_unsure).map(|it| {
            let path = it.path.join(">");
            format!("a flow over {path:?} left out: its path has parallel links, and none is named")
        })
    }

    /// The same of what hosts and their probes say alone.
    fn doubts_of_hosts(&self, fabric: &Fabric) -> impl Iterator<Item = String> {
        let probes = self.probes.iter().filter(|it| is_unknown(&it.path));
        let probes = probes.filter(|it| !is_lost_from_sight(it));
        let unknown = probes.map(|it| not_followed("probes", &it.path));
        let round = self.probes.iter().filter_map(|it| {
            let twice = goes_round(&it.path)?;
            Some(in_a_circle("probes", &it.path, twice))
        });
        let hosts = self.hosts.iter().filter(|it| it.runs_beyond_itself());
        let hosts = hosts.map(|it| {
            let host = &it.host;
            format!("the bus of {host} left out: it runs at more than it could")
        });
        let large = mtu::doubts(self, fabric);
        let split = configuration::split(self, fabric);
        unknown
            .chain(round)
            .chain(hosts)
            .chain(scattered(self, fabric))
            .chain(large)
            .chain(split)
    }
}

impl Sifted {
    /// Returns doubts about the evidence of hosts and probes. A short series is no doubt, because it grows.
    pub fn doubts(&self, fabric: &Fabric) -> Vec<String> {
        let of_cables = self.0.doubts_of_cables(fabric);
        of_cables.chain(self.0.doubts_of_hosts(fabric)).collect()
    }
}

fn is_unknown(path: &[String]) -> bool {
    path.len() < 2 || path.iter().any(|name| name == UNKNOWN_NODE)
}

fn not_followed(what: &str, path: &[String]) -> String {
    let path = path.join(">");
    format!("{what} over {path:?} left out: not every hop is known")
}

fn in_a_circle(what: &str, path: &[String], twice: &str) -> String {
    let path = path.join(">");
    format!("{what} over {path:?} left out: {twice} occurs twice on its path")
}

fn sound<T: EvidenceItem>(all: &[T], fabric: &Fabric) -> Checked {
    each(all, |it| it.check(fabric))
}

/// Returns the error of the first invalid item, with its index.
fn each<T: EvidenceItem>(all: &[T], check: impl Fn(&T) -> Checked) -> Checked {
    let mut all = all.iter().enumerate();
    all.try_for_each(|(entry, one)| check(one).map_err(|error| error.at(T::LIST_NAME, entry)))
}

fn said_once<T: EvidenceItem>(all: &[T], fabric: &Fabric) -> Checked {
    let contradicted = contradicted(all, fabric).into_iter();
    match contradicted.min_by_key(|(_, entry)| *entry) {
        Some((of, entry)) => Err(EvidenceError::Contradiction { of }.at(T::LIST_NAME, entry)),
        None => Ok(()),
    }
}

/// Returns subjects on which several items disagree, with the first item of each.
fn contradicted<T: EvidenceItem>(all: &[T], fabric: &Fabric) -> BTreeMap<String, usize> {
    let (mut said, mut contradicted) = (BTreeMap::new(), BTreeMap::new());
    for (entry, one) in all.iter().enumerate() {
        let Some(of) = one.of(fabric) else { continue };
        if !said.entry(of.clone()).or_insert(one).agrees(one) {
            contradicted.entry(of).or_insert(entry);
        }
    }
    contradicted
}

fn sift<T: EvidenceItem>(all: &mut Vec<T>, fabric: &Fabric, errors: &mut Vec<EvidenceError>) {
    all.retain(|it| match it.check(fabric) {
        Ok(()) => true,
        Err(error) => {
            errors.push(error);
            false
        }
    });
    let contradicted = contradicted(all, fabric);
    let is_believed = |it: &T| {
        it.of(fabric)
            .is_none_or(|of| !contradicted.contains_key(&of))
    };
    if !contradicted.is_empty() {
        all.retain(is_believed);
    }
    let doubted = contradicted.into_keys();
    errors.extend(doubted.map(|of| EvidenceError::Contradiction { of }));
}
