//! Summary of a topology, for every command that shows one.

use std::collections::BTreeSet;

use reweave_design::routing::Order;
use reweave_design::topology::{Altered, Family, Lost, Pair, Patch, Proposal, counted, pair};
use reweave_sim::workload::effects::Interval;
use serde::{Deserialize, Serialize};

use super::tables::{self, Tables};
use crate::page::Page;

/// The path of a link through a patch panel.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Patched {
    link: Pair,
    panel: usize,
    ports: [usize; 2],
}

impl Patched {
    fn of(patch: &Patch, link: Pair) -> Self {
        Self {
            link,
            panel: patch.panel,
            ports: patch.ports,
        }
    }

    pub(super) fn patch(self) -> Patch {
        Patch {
            cable: self.link,
            panel: self.panel,
            ports: self.ports,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(super) links: Vec<Pair>,
    pub(super) iteration_ms: f64,
    /// Lower and upper bound with the effects that exact sharing leaves out.
    pub(super) interval_ms: Option<[f64; 2]>,
    pub(super) ideal_switch_ms: f64,
    /// Lower bound over every wiring of these ports, with this parallelism.
    spread_bound_ms: f64,
    diameter: u32,
    mean_hops: f64,
    /// Number of ordered pairs of hosts at a distance of 1, 2, 3, ... links.
    pairs_by_hops: Vec<u64>,
    /// Load of directed links in percent, as deciles from the least to the most used.
    load_percent: Vec<f64>,
    bandwidth_tax: f64,
    family: Family,
    /// Number of missing and of additional links, compared with the topology family.
    altered: Altered,
    /// Ring orders of all hosts, for reductions.
    rings: Vec<Vec<u32>>,
    /// Links with their patch panels and ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    patches: Vec<Patched>,
    /// Number of priority classes that a lossless fabric needs to exclude cyclic buffer dependencies.
    classes: u32,
    tables: Tables,
    report: Vec<String>,
}

impl Summary {
    /// Returns the summary. `names` are the numbers in host names; `reported` are indices of the hosts whose tables are
    /// included.
    pub(super) fn of(proposal: &Proposal, names: &[u32], reported: &[u32]) -> Self {
        let design = &proposal.design;
        let called = |host: &u32| names[*host as usize];
        let named = |[a, b]: Pair| pair(called(&a), called(&b));
        let rings = design.rings.iter();
        Self {
            links: design.wiring.pairs().into_iter().map(named).collect(),
            iteration_ms: proposal.evaluation.iteration_ms,
            interval_ms: proposal.interval.as_ref().map(|it| [it.low_ms, it.high_ms]),
            ideal_switch_ms: proposal.ideal.iteration_ms,
            spread_bound_ms: proposal.bound_ms,
            diameter: proposal.distances.diameter(),
            mean_hops: proposal.distances.mean(),
            pairs_by_hops: proposal.distances.histogram(),
            load_percent: loads(proposal),
            bandwidth_tax: proposal.bandwidth_tax,
            family: design.family.clone(),
            altered: design.altered,
            rings: rings
                .map(|ring| ring.iter().map(called).collect())
                .collect(),
            patches: design
                .patches
                .iter()
                .map(|patch| Patched::of(patch, named(patch.cable)))
                .collect(),
            classes: Order::of(&design.wiring).classes(&proposal.routes),
            tables: tables::of(proposal, names, reported),
            report: report(proposal),
        }
    }

    /// Returns the summary with all tables and the proposal's own host numbers.
    pub(super) fn whole(proposal: &Proposal) -> Self {
        let all: Vec<_> = (0..proposal.design.wiring.hosts() as u32).collect();
        Self::of(proposal, &all, &all)
    }

    pub(super) fn add(&mut self, report: Vec<String>) {
        self.report.extend(report);
    }

    pub(super) fn show(&self, page: &mut Page) {
        let lines = self.report.iter();
        lines.for_each(|line| page.line(&format!("  {line}")));
    }

    pub(super) fn show_lengths(&self, page: &mut Page) {
        page.heading("Distance between hosts");
        let rows = (1..).zip(&self.pairs_by_hops);
        page.table(
            ["links", "pairs"],
            rows.map(|(hops, pairs): (u32, _)| [hops.to_string(), pairs.to_string()]),
        );
        page.heading("Load of links");
        let tenths = self.load_percent.iter().map(|it| format!("{it:.1}"));
        page.line(&format!(
            "  from the least to the most used, in tenths of all: {} %",
            tenths.collect::<Vec<_>>().join(" ")
        ));
    }

    /// Formats an interval: `12.30 to 14.10`.
    pub(super) fn between(&self) -> String {
        let [low, high] = self.interval_ms.unwrap_or([self.iteration_ms; 2]);
        format!("{low:.2} to {high:.2}")
    }

    pub(super) fn show_tables(&self, page: &mut Page) {
        for (at, table) in &self.tables {
            let towards = table.towards.iter();
            let towards = towards.map(|(to, next)| format!("{to} by {}", by(next)));
            let towards: Vec<_> = towards.collect();
            page.line(&format!("  {at} sends to {}", towards.join(", ")));
        }
    }

    pub(super) fn show_links(&self, page: &mut Page) {
        page.heading("Links");
        for links in self.links.chunks(10) {
            let links: Vec<_> = links.iter().map(|[a, b]| format!("h{a}-h{b}")).collect();
            page.line(&format!("  {}", links.join(" ")));
        }
        if !self.patches.is_empty() {
            page.heading("Ports of panels that are joined");
            let panels: BTreeSet<_> = self.patches.iter().map(|it| it.panel).collect();
            panels.into_iter().for_each(|it| self.show_panel(page, it));
        }
    }

    fn show_panel(&self, page: &mut Page, panel: usize) {
        let on = self.patches.iter().filter(|it| it.panel == panel);
        let joined = on.map(|it| {
            let [[a, b], [at_a, at_b]] = [it.link.map(|host| host as usize), it.ports];
            format!("h{a} {at_a} - h{b} {at_b}")
        });
        for line in joined.collect::<Vec<_>>().chunks(PATCHES_PER_LINE) {
            page.line(&format!("  panel{panel}: {}", line.join(", ")));
        }
    }
}

fn by(next: &[(String, u32)]) -> String {
    let total: f64 = next.iter().map(|(_, weight)| f64::from(*weight)).sum();
    next.iter()
        .map(|(name, weight)| match next.len() {
            1 => name.clone(),
            _ => format!("{name} {:.0} %", f64::from(*weight) / total * 100.0),
        })
        .collect::<Vec<_>>()
        .join(" + ")
}

/// Returns the deciles of the link load, least used first.
fn loads(proposal: &Proposal) -> Vec<f64> {
    let used = proposal.evaluation.lanes.iter();
    let mut loads: Vec<_> = used.map(|lane| lane.utilization * 100.0).collect();
    let lanes = proposal.design.wiring.cables() * 2;
    loads.resize(lanes.max(loads.len()), 0.0);
    loads.sort_by(f64::total_cmp);
    let last = loads.len().saturating_sub(1);
    (0..=10)
        .filter_map(|tenth| loads.get(tenth * last / 10).copied())
        .collect()
}

fn report(proposal: &Proposal) -> Vec<String> {
    let (took, ideal) = (
        proposal.evaluation.iteration_ms,
        proposal.ideal.iteration_ms,
    );
    let mut report = vec![
        format!(
            "{}: {}, hosts {:.2} links apart on average and {} at most",
            proposal.design.words(),
            counted(proposal.design.wiring.cables(), "link"),
            proposal.distances.mean(),
            proposal.distances.diameter()
        ),
        format!(
            "an iteration takes {took:.2} ms, on one ideal switch with the same ports {ideal:.2} ms"
        ),
        between(proposal),
        format!(
            "lower bound for this spread: {:.2} ms: {}",
            proposal.bound_ms,
            what_bounds(proposal)
        ),
        format!(
            "each byte crosses {:.3} links on average",
            proposal.bandwidth_tax
        ),
    ];
    report.extend(dark(proposal));
    report.extend(
        proposal
            .lost
            .iter()
            .take(MAX_LOST_CANDIDATES)
            .map(|lost| why_lost(lost, took, proposal.distances.mean())),
    );
    report
}

fn between(proposal: &Proposal) -> String {
    match &proposal.interval {
        None => "error not computed: it takes many simulations".to_owned(),
        Some(Interval {
            low_ms, high_ms, ..
        }) => format!("with the error of the fluid model, between {low_ms:.2} and {high_ms:.2} ms"),
    }
}

/// Describes working ports that have no partner, if there are any.
fn dark(proposal: &Proposal) -> Option<String> {
    let (ports, hosts) = (&proposal.ports, proposal.ports.len());
    let ends: usize = ports.iter().sum();
    let dark = ends.saturating_sub(2 * proposal.design.wiring.cables());
    let stay = if dark == 1 { "stays" } else { "stay" };
    let alike = ports.iter().min() == ports.iter().max();
    let each = ports.first().copied().unwrap_or(0);
    let why = match (dark, ends % 2 == 1) {
        (0, _) => return None,
        (1, true) if alike => format!(
            ": {hosts} hosts of {each} ports have an odd number of ends; {} hosts, or degree {}, \
             would use all",
            hosts + 1,
            each - 1
        ),
        (1, true) => ", as hosts have an odd number of ports that work".to_owned(),
        _ => ", because failed or unjoinable ports leave no partner".to_owned(),
    };
    Some(format!("{} {stay} dark{why}", counted(dark, "port")))
}

const PATCHES_PER_LINE: usize = 5;
/// Maximum number of alternatives in text output.
const MAX_LOST_CANDIDATES: usize = 4;

fn what_bounds(proposal: &Proposal) -> &'static str {
    let bounds = &proposal.ideal.bounds;
    if bounds.compute_ms >= proposal.bound_ms {
        "compute time of the busiest server"
    } else if bounds.chain_ms > bounds.communication_ms && bounds.chain_ms <= proposal.bound_ms {
        "longest chain of dependent tasks"
    } else {
        "send time of the busiest server over all its ports"
    }
}

/// Smallest difference of mean hops that is visible in print.
const MIN_HOP_DIFFERENCE: f64 = 0.005;

fn why_lost(lost: &Lost, best_ms: f64, best_hops: f64) -> String {
    let nearer = best_hops - lost.mean_hops;
    match lost.iteration_ms {
        Some(ms) if ms > best_ms * 1.001 => {
            format!("not {}: an iteration would take {ms:.2} ms", lost.what)
        }
        Some(_) if nearer < -MIN_HOP_DIFFERENCE => format!(
            "not {}: as fast, and hosts {:.2} links apart",
            lost.what, lost.mean_hops
        ),
        Some(_) if nearer < MIN_HOP_DIFFERENCE => {
            format!("not {}: as fast, and hosts no nearer", lost.what)
        }
        // Hops do not matter if only groups reduce.
        Some(_) => format!(
            "not {}: as fast, and harder to lay, though hosts are {:.2} links apart",
            lost.what, lost.mean_hops
        ),
        None => format!(
            "not {}: its fullest link needs {:.2} ms, and others were more promising",
            lost.what, lost.screened_ms
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_candidate_names_its_loss() {
        let describe = |ms: f64, mean_hops: f64| {
            let lost = Lost {
                what: "it".to_owned(),
                screened_ms: 1.0,
                mean_hops,
                iteration_ms: Some(ms),
            };
            why_lost(&lost, 10.0, 2.0)
        };
        assert_eq!(
            describe(11.0, 1.5),
            "not it: an iteration would take 11.00 ms"
        );
        assert_eq!(
            describe(10.0, 2.5),
            "not it: as fast, and hosts 2.50 links apart"
        );
        assert_eq!(describe(10.0, 2.0), "not it: as fast, and hosts no nearer");
        let harder = "not it: as fast, and harder to lay, though hosts are 1.50 links apart";
        assert_eq!(describe(10.0, 1.5), harder);
    }
}
