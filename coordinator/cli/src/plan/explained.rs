//! What was weighed, and what else there is to know of a proposal.

use reweave_planner::topology::{
    self, COST_OF_A_FAT_TREE, COST_OF_OPTICAL_SWITCHES, Failed, Job, Lost, Outlook, Pair, Proposal,
    Request, Rival, TopologyError, backups,
};
use reweave_planner::workload::effects::Interval;
use serde::Serialize;

use super::crew::Cores;
use crate::page::Page;

#[derive(Debug, Serialize)]
pub(super) struct Explained {
    lost: Vec<Weighed>,
    /// How many ordered pairs of hosts are 1, 2, 3, ... links apart.
    pairs_by_hops: Vec<u64>,
    /// Of the links in both directions, percent: the least used, the tenth part of them, two tenths,
    /// ... and the most used.
    load_percent: Vec<f64>,
    interval: Option<Interval>,
    /// For each link, the way around it that takes over at once when it fails.
    backups: Vec<Backup>,
    /// What an iteration takes after failures, with other routes over the same circuits.
    failures: Vec<Failure>,
    cost: Cost,
}

/// A candidate that lost.
#[derive(Debug, Serialize)]
struct Weighed {
    what: String,
    screened_ms: f64,
    iteration_ms: Option<f64>,
    mean_hops: f64,
}

#[derive(Debug, Serialize)]
struct Backup {
    link: Pair,
    /// Nothing when some hosts cannot reach others without the link.
    way: Option<Vec<u32>>,
}

#[derive(Debug, Serialize)]
struct Failure {
    failed: String,
    /// Nothing when what is left cannot go on.
    iteration_ms: Option<f64>,
}

/// What must be bought, and what else could be.
#[derive(Debug, Serialize)]
struct Cost {
    transceivers: usize,
    panel_ports: usize,
    fat_tree_transceivers: usize,
    fat_tree_switch_ports: usize,
    /// Against patch panels, as published.
    optical_switches: f64,
    fat_tree: f64,
    /// What an iteration takes on a fat tree that costs as much, on one with half of the way up left
    /// out, and on random links.
    equal_cost_fat_tree_ms: Option<f64>,
    two_to_one_fat_tree_ms: Option<f64>,
    expander_ms: Option<f64>,
}

impl Explained {
    pub(super) fn of(
        proposal: &Proposal,
        job: &Job<'_>,
        request: &Request,
    ) -> Result<Self, TopologyError> {
        let design = &proposal.design;
        let outlook = topology::outlook(design, &proposal.routes, job, request, &Cores);
        let rivals = topology::rivals(job, request, &Cores)?;
        let backup = |(link, way)| Backup { link, way };
        Ok(Self {
            lost: proposal.lost.iter().map(Weighed::of).collect(),
            pairs_by_hops: proposal.distances.histogram(),
            load_percent: loads(proposal),
            interval: proposal.interval.clone(),
            backups: backups(&design.wiring).into_iter().map(backup).collect(),
            failures: failures(&outlook),
            cost: Cost::of(proposal, &rivals),
        })
    }
}

impl Weighed {
    fn of(lost: &Lost) -> Self {
        Self {
            what: lost.family.to_string(),
            screened_ms: lost.screened_ms,
            iteration_ms: lost.iteration_ms,
            mean_hops: lost.mean_hops,
        }
    }
}

/// In tenths, from the least used link to the most used one.
fn loads(proposal: &Proposal) -> Vec<f64> {
    let used = proposal.evaluation.lanes.iter();
    let mut loads: Vec<_> = used.map(|lane| lane.utilization * 100.0).collect();
    let lanes = proposal.design.wiring.cables() * 2;
    loads.resize(lanes.max(loads.len()), 0.0);
    loads.sort_by(f64::total_cmp);
    (0..=10)
        .map(|tenth| loads[tenth * (loads.len() - 1) / 10])
        .collect()
}

fn failures(outlook: &Outlook) -> Vec<Failure> {
    let cases = outlook.cases.iter();
    cases
        .map(|case| Failure {
            failed: named(case.failed),
            iteration_ms: case.iteration_ms,
        })
        .collect()
}

/// As `plan repair --failed` takes it.
fn named(failed: Failed) -> String {
    match failed {
        Failed::Cable([a, b]) => format!("h{a}-h{b}"),
        Failed::Port { of, towards } => format!("h{of}:h{towards}"),
        Failed::Host(host) => format!("h{host}"),
        Failed::Panel(panel) => format!("panel{panel}"),
    }
}

impl Cost {
    /// A host's cable has a transceiver and a port of the panel at each end. In a fat tree of three
    /// layers that blocks nobody, each port of a host stands for five ports of switches, and each of
    /// its three cables has two transceivers.
    fn of(proposal: &Proposal, rivals: &[(Rival, Option<f64>)]) -> Self {
        let ends = proposal.design.wiring.cables() * 2;
        let ms = |rival| rivals.iter().find(|(it, _)| *it == rival)?.1;
        Self {
            transceivers: ends,
            panel_ports: ends,
            fat_tree_transceivers: 6 * ends,
            fat_tree_switch_ports: 5 * ends,
            optical_switches: COST_OF_OPTICAL_SWITCHES,
            fat_tree: COST_OF_A_FAT_TREE,
            equal_cost_fat_tree_ms: ms(Rival::EqualCost),
            two_to_one_fat_tree_ms: ms(Rival::TwoToOne),
            expander_ms: ms(Rival::Expander),
        }
    }
}

impl Explained {
    pub(super) fn show(&self, page: &mut Page) {
        self.show_lost(page);
        page.heading("How far hosts are apart");
        let rows = (1..).zip(&self.pairs_by_hops);
        page.table(
            ["links", "pairs"],
            rows.map(|(hops, pairs): (u32, _)| [hops.to_string(), pairs.to_string()]),
        );
        page.heading("How full links are");
        let tenths: Vec<_> = self
            .load_percent
            .iter()
            .map(|it| format!("{it:.1}"))
            .collect();
        page.line(&format!(
            "  from the least to the most used, in tenths of all: {} %",
            tenths.join(" ")
        ));
        self.show_failures(page);
        self.cost.show(page);
    }

    fn show_lost(&self, page: &mut Page) {
        page.heading("What was weighed besides");
        let row = |it: &Weighed| {
            [
                it.what.clone(),
                format!("{:.2}", it.screened_ms),
                spelled(it.iteration_ms),
                format!("{:.3}", it.mean_hops),
            ]
        };
        page.table(
            ["candidate", "fullest link ms", "iteration ms", "mean hops"],
            self.lost.iter().map(row),
        );
        if let Some(interval) = &self.interval {
            page.heading("What exact shares leave out");
            let row = |it: &reweave_planner::workload::effects::Cost| {
                [it.effect.to_owned(), format!("{:.2}", it.ms)]
            };
            page.table(["effect", "by itself ms"], interval.costs.iter().map(row));
        }
    }

    fn show_failures(&self, page: &mut Page) {
        page.heading("When something fails");
        let without = self.backups.iter().filter(|it| it.way.is_none()).count();
        page.line(&match without {
            0 => "  each link has a way around it".to_owned(),
            1 => "  one link has no way around it".to_owned(),
            _ => format!("  {without} links have no way around them"),
        });
        for failure in &self.failures {
            page.line(&match failure.iteration_ms {
                Some(ms) => format!(
                    "  without {}, an iteration takes {ms:.2} ms over other routes",
                    failure.failed
                ),
                None => format!(
                    "  without {}, some cannot reach each other any more",
                    failure.failed
                ),
            });
        }
    }
}

fn spelled(ms: Option<f64>) -> String {
    ms.map_or("-".to_owned(), |ms| format!("{ms:.2}"))
}

impl Cost {
    fn show(&self, page: &mut Page) {
        page.heading("What must be bought");
        page.line(&format!(
            "  {} transceivers and {} ports of patch panels; with optical switches instead, {} times the \
             cost",
            self.transceivers, self.panel_ports, self.optical_switches
        ));
        page.line(&format!(
            "  a fat tree as wide: {} transceivers and {} ports of switches, {} times the cost",
            self.fat_tree_transceivers, self.fat_tree_switch_ports, self.fat_tree
        ));
        page.table(
            ["what else could be bought", "iteration ms"],
            [
                ("a fat tree of the same cost", self.equal_cost_fat_tree_ms),
                (
                    "a fat tree with half of the way up",
                    self.two_to_one_fat_tree_ms,
                ),
                ("random links, shortest ways", self.expander_ms),
            ]
            .map(|(what, ms)| [what.to_owned(), spelled(ms)]),
        );
    }
}
