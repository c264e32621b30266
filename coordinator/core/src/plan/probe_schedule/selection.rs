//! Selects the probe flows to keep, once their paths are known: at least one per pair of hosts, and few that cross
//! every link in both directions often enough and distinguish links.
//!
//! At first, and after paths have changed, all flows are sent until their paths are traced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::operator::{ProbeCoverage, hops};
use reweave_common::snapshot::Hop;
use reweave_repair::paths::Atlas;
use reweave_repair::probes::{Candidate, choose};

use super::ProbeCandidate;
use crate::estimate::interval_timer::IntervalTimer;
use crate::model::world::Measurements;

const SELECTION_INTERVAL: Duration = Duration::from_secs(5);
/// Ways that are not known by then may never be.
const EXPLORATION_TIMEOUT: Duration = Duration::from_secs(60);
/// If paths remain unknown, all flows are sent again after this time.
const EXPLORATION_INTERVAL: Duration = Duration::from_secs(600);
/// Minimum number of flows that cross each link in each direction, if possible: forty probes a second.
const MIN_FLOWS_PER_LINK: u32 = 4;
/// An answer has to fit into one message.
const MAX_SELDOM_HOPS: usize = 64;

#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    exploring_since: Option<Moment>,
    chosen: Option<Chosen>,
    looks: IntervalTimer,
}

#[derive(Debug, Clone)]
struct Chosen {
    at: Moment,
    flows: BTreeSet<FlowKey>,
    crossed: BTreeSet<Hop>,
    /// Crossed less often than wanted.
    seldom: Vec<Hop>,
    /// Whether every link is crossed, and all ways were known.
    is_complete: bool,
}

impl Selection {
    /// Hosts are others than before: their ways are to be learnt.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(super) fn keeps(&self, flow: &FlowKey) -> bool {
        let chosen = self.chosen.as_ref();
        chosen.is_none_or(|chosen| chosen.flows.contains(flow))
    }

    pub(super) fn coverage(&self, fabric: &Fabric) -> Option<ProbeCoverage> {
        let chosen = self.chosen.as_ref()?;
        let named = &chosen.seldom[..chosen.seldom.len().min(MAX_SELDOM_HOPS)];
        Some(ProbeCoverage {
            directions: 2 * fabric.links().len(),
            wanted: MIN_FLOWS_PER_LINK,
            seldom: chosen.seldom.len(),
            seldom_hops: hops(named, fabric),
        })
    }

    /// Says whether others are to be sent from now on.
    pub(super) fn advance(
        &mut self,
        known: Measurements<'_>,
        asked: impl Fn() -> Vec<ProbeCandidate>,
    ) -> bool {
        if !self.looks.is_due(known.now, SELECTION_INTERVAL) {
            return false;
        }
        if let Some(chosen) = &self.chosen {
            let is_outdated = chosen.is_outdated(known);
            if is_outdated {
                self.forget();
            }
            return is_outdated;
        }
        let since = *self.exploring_since.get_or_insert(known.now);
        let asked = asked();
        let is_known = |it: &ProbeCandidate| ways(known, &it.flow).is_some();
        let is_time = known.now.since(since) >= EXPLORATION_TIMEOUT || asked.iter().all(is_known);
        if is_time && !asked.is_empty() {
            self.chosen = Some(Chosen::of(known, &asked));
        }
        self.chosen.is_some()
    }
}

impl Chosen {
    /// Keeps all flows between two hosts if some paths between them are unknown.
    fn of(known: Measurements<'_>, asked: &[ProbeCandidate]) -> Self {
        let unknown = asked.iter().filter(|it| ways(known, &it.flow).is_none());
        let unknown: BTreeSet<_> = unknown.map(|it| it.pair).collect();
        let (open, settled): (Vec<ProbeCandidate>, Vec<ProbeCandidate>) =
            asked.iter().partition(|it| unknown.contains(&it.pair));
        let (atlas, mut flows) = (Atlas::new(known.fabric), Vec::new());
        let candidates = settled.iter().filter_map(|it| {
            let index = |way: &[Hop]| way.iter().map(|&hop| atlas.index(hop)).collect();
            let ways = ways(known, &it.flow)?.map(index);
            flows.push(it.flow);
            Some(Candidate {
                pair: it.pair,
                ways,
            })
        });
        let candidates: Vec<_> = candidates.collect();
        let chosen = choose(&candidates, atlas.hops(), MIN_FLOWS_PER_LINK);
        let chosen = chosen.into_iter().map(|place| flows[place]);
        let flows: BTreeSet<_> = chosen.chain(open.iter().map(|it| it.flow)).collect();
        let times = crossings(known, &flows);
        let crossed: BTreeSet<_> = times.keys().copied().collect();
        let hops = (0..atlas.hops()).map(|index| atlas.hop(index));
        let is_seldom = |hop: &Hop| {
            times
                .get(hop)
                .is_none_or(|times| *times < MIN_FLOWS_PER_LINK)
        };
        Self {
            at: known.now,
            is_complete: open.is_empty() && crossed.len() == atlas.hops(),
            seldom: hops.filter(is_seldom).collect(),
            flows,
            crossed,
        }
    }

    fn is_outdated(&self, known: Measurements<'_>) -> bool {
        let is_old = known.now.since(self.at) >= EXPLORATION_INTERVAL;
        (is_old && !self.is_complete) || !crossed(known, &self.flows).is_superset(&self.crossed)
    }
}

/// Returns the number of these flows that cross each hop, in either direction.
fn crossings(known: Measurements<'_>, flows: &BTreeSet<FlowKey>) -> BTreeMap<Hop, u32> {
    let mut times = BTreeMap::new();
    let ways = flows.iter().filter_map(|flow| ways(known, flow));
    for hop in ways.flatten().flatten() {
        *times.entry(*hop).or_default() += 1;
    }
    times
}

fn crossed(known: Measurements<'_>, flows: &BTreeSet<FlowKey>) -> BTreeSet<Hop> {
    let ways = flows.iter().filter_map(|flow| ways(known, flow));
    ways.flatten().flatten().copied().collect()
}

/// There and back.
fn ways<'k>(known: Measurements<'k>, flow: &FlowKey) -> Option<[&'k [Hop]; 2]> {
    let ways = known.ways;
    Some([ways.way(flow)?, ways.way(&flow.reversed())?])
}
