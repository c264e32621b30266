//! Alternatives to a repair that move circuits.
//!
//! Either the ports whose cables led to failed elements are joined to each other, and all other circuits stay; or
//! everything is planned again. Each is chosen only if it surely saves more than its moves cost, and the second only if
//! it surely saves more than the first.

use std::collections::BTreeSet;

use super::demand::Demand;
use super::error::TopologyError;
use super::families::Design;
use super::limits::Limits;
use super::mended::mended;
use super::plan::{Draft, Job, Proposal, Request, plan_with};
use super::repair::{Failed, lost_hosts};
use super::survivors;
use super::wiring::{Pair, pair};
use crate::crew::{Crew, NO_DEADLINE};
use crate::gain::Gain;

/// Benefit and cost of moving circuits.
#[derive(Clone, Copy)]
pub struct Worth<'w> {
    /// Remaining iterations of the job; if unknown, moving costs nothing.
    pub iterations: Option<f64>,
    /// Returns the time to move this number of circuits.
    pub cost_ms: &'w dyn Fn(usize) -> f64,
}

/// How new circuits are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewiringMethod {
    /// Ports that lost their other end are joined.
    Repaired,
    Redesigned,
}

/// Changes to the remaining circuits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    pub kept: usize,
    pub torn: usize,
    pub set: usize,
}

/// Other circuits, and what they are worth.
#[derive(Debug)]
pub struct Choice {
    pub way: RewiringMethod,
    pub proposal: Proposal,
    pub moved: Moved,
    /// Gain over the best choice without circuit moves.
    pub gain: Gain,
}

/// New circuits after a failure; hosts are numbered without the failed ones.
#[derive(Debug)]
pub struct Rewiring {
    /// Original numbers of the remaining hosts.
    pub names: Vec<u32>,
    /// Choices, fewest moved circuits first.
    pub choices: Vec<Choice>,
    /// Index of the choice that pays off.
    pub best: Option<usize>,
    /// Reason why no new plan could be made.
    pub refused: Option<TopologyError>,
}

/// Finds other circuits for the remaining hosts. `before` is the design without anything failed.
pub fn rewire(
    before: &Design,
    repaired: &Proposal,
    job: &Job<'_>,
    request: &Request,
    failed: &[Failed],
    worth: Worth<'_>,
    crew: &dyn Crew,
) -> Result<Rewiring, TopologyError> {
    let mut limits = without(&request.limits, before, failed);
    limits.laid.clone_from(&repaired.design.patches);
    let dead = lost_hosts(failed);
    let iteration = survivors::iteration(job, &dead)?;
    let demand = Demand::of(&iteration, job.place, limits.hosts());
    let left = (0..limits.hosts() as u32).filter(|host| !dead.contains(host));
    let mut rewiring = Rewiring {
        names: left.collect(),
        choices: Vec::new(),
        best: None,
        refused: None,
    };
    let mended = mended(before, &repaired.design, &limits, &dead, &demand);
    // Ranks of hosts that failed do nothing, wherever that is.
    let number = |host: &u32| rewiring.names.binary_search(host).unwrap_or(0) as u32;
    let place: Vec<_> = job.place.iter().map(number).collect();
    let job = Job {
        iteration: &iteration,
        place: &place,
        settings: job.settings,
    };
    let request = Request {
        degree: limits.most_ports(),
        limits: limits.of(&rewiring.names),
        interval: true,
        ..request.clone()
    };
    let mut found = Vec::new();
    if let Some(design) = mended {
        let demand = Demand::of(job.iteration, job.place, rewiring.names.len());
        let design = design.of_hosts(&rewiring.names);
        let draft = Draft::of(design, &demand, &request, NO_DEADLINE);
        found.push((
            RewiringMethod::Repaired,
            draft.proposed(&job, &demand, &request)?,
        ));
    }
    match plan_with(&job, &request, crew) {
        Ok(proposal) => found.push((RewiringMethod::Redesigned, proposal)),
        Err(error) => rewiring.refused = Some(error),
    }
    rewiring.weigh(repaired, found, worth);
    Ok(rewiring)
}

impl Rewiring {
    fn weigh(
        &mut self,
        repaired: &Proposal,
        found: Vec<(RewiringMethod, Proposal)>,
        worth: Worth<'_>,
    ) {
        let moved = |proposal: &Proposal| self.moved(&repaired.design, &proposal.design);
        let found = found.into_iter().map(|(way, it)| (moved(&it), way, it));
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|(moved, ..)| moved.torn + moved.set);
        let (mut best, mut spent_ms) = (repaired.estimate(), 0.0);
        for (moved, way, proposal) in found {
            let cost_ms = worth
                .iterations
                .map_or(0.0, |_| (worth.cost_ms)(moved.at_once()));
            let (estimate, left) = (proposal.estimate(), worth.iterations.unwrap_or(1.0));
            let gain = Gain::of(&best, &estimate, left, cost_ms - spent_ms);
            if gain.pays() {
                (best, spent_ms) = (estimate, cost_ms);
                self.best = Some(self.choices.len());
            }
            self.choices.push(Choice {
                way,
                proposal,
                moved,
                gain,
            });
        }
    }

    fn moved(&self, left: &Design, new: &Design) -> Moved {
        let old = circuits(left, |host| host);
        let new = circuits(new, |host| self.names[host as usize]);
        let kept = old.intersection(&new).count();
        Moved {
            kept,
            torn: old.len() - kept,
            set: new.len() - kept,
        }
    }

    /// Returns the original numbers of a link's hosts.
    pub fn named(&self, [a, b]: Pair) -> Pair {
        pair(self.names[a as usize], self.names[b as usize])
    }
}

impl Moved {
    /// Returns the number of circuits that are set. Removals happen at the same time.
    fn at_once(self) -> usize {
        self.set.max(self.torn)
    }
}

/// A link that runs over another panel is another circuit.
fn circuits(design: &Design, name: impl Fn(u32) -> u32) -> BTreeSet<(Pair, Option<usize>)> {
    let named = |[a, b]: Pair| pair(name(a), name(b));
    if design.patches.is_empty() {
        let pairs = design.wiring.pairs().into_iter();
        pairs.map(|ends| (named(ends), None)).collect()
    } else {
        let patches = design.patches.iter();
        patches
            .map(|patch| (named(patch.cable), Some(patch.panel)))
            .collect()
    }
}

/// Returns the limits without the failed elements. Duplicates count once, and a port is removed before its panel.
pub(super) fn without(limits: &Limits, design: &Design, failed: &[Failed]) -> Limits {
    let mut left = limits.clone();
    let (mut ends, mut panels) = (BTreeSet::new(), BTreeSet::new());
    for &failed in failed {
        match failed {
            Failed::Cable(cable) => {
                ends.extend(cable.map(|end| (end, cable)));
                left.cut.insert(cable);
            }
            Failed::Port { of, towards } => {
                ends.insert((of, pair(of, towards)));
            }
            Failed::Panel(nth) => {
                panels.insert(nth);
            }
            Failed::Host(_) => {}
        }
    }
    let dark = ends.into_iter();
    dark.for_each(|(host, cable)| darken(&mut left, design, host, cable));
    panels.into_iter().for_each(|nth| empty(&mut left, nth));
    left
}

/// No port of a panel works any longer.
fn empty(limits: &mut Limits, nth: usize) {
    let Limits { ports, panels, .. } = limits;
    let Some(panel) = panels.get_mut(nth) else {
        return;
    };
    for (ports, on_panel) in ports.iter_mut().zip(&mut panel.ports) {
        *ports = ports.saturating_sub(on_panel.len());
        on_panel.clear();
    }
}

/// A host's port at a cable works no more.
fn darken(limits: &mut Limits, design: &Design, host: u32, cable: Pair) {
    let ports = &mut limits.ports[host as usize];
    *ports = ports.saturating_sub(1);
    let Some(patch) = design.patches.iter().find(|patch| patch.cable == cable) else {
        return;
    };
    if let Some(panel) = limits.panels.get_mut(patch.panel) {
        panel.ports[host as usize].retain(|port| !patch.ports.contains(port));
    }
}
