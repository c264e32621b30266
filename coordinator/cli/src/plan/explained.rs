//! What was weighed, and what else there is to know of a proposal.

use reweave_planner::topology::prices::{Bill, TREE_CABLES, TREE_SWITCH_PORTS};
use reweave_planner::topology::{
    self, Failed, Job, Lost, Outlook, Pair, Proposal, Request, Rival, TopologyError, backups,
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
    /// By the prices that are given; else against patch panels, as published.
    bill: Bill,
    priced: bool,
    others: Vec<Other>,
}

/// What an iteration takes on another fabric.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Other {
    what: &'static str,
    iteration_ms: Option<f64>,
    /// How a preset is spread there.
    spread: Option<String>,
}

impl Other {
    pub(super) fn new(rival: Rival, iteration_ms: Option<f64>, spread: Option<String>) -> Self {
        let what = match rival {
            Rival::IdealSwitch => "an ideal switch",
            Rival::EqualCost => "a fat tree of the same cost",
            Rival::TwoToOne => "a fat tree with half of the way up",
            Rival::Expander => "random links, shortest ways",
        };
        Self {
            what,
            iteration_ms,
            spread,
        }
    }
}

/// What else there is to buy, and for how much.
pub(super) struct Market {
    pub(super) bill: Bill,
    pub(super) priced: bool,
    pub(super) others: Vec<Other>,
}

impl Explained {
    pub(super) fn of(
        proposal: &Proposal,
        job: &Job<'_>,
        request: &Request,
        market: Market,
    ) -> Result<Self, TopologyError> {
        let design = &proposal.design;
        let outlook = topology::outlook(design, &proposal.routes, job, request, &Cores);
        let backup = |(link, way)| Backup { link, way };
        Ok(Self {
            lost: proposal.lost.iter().map(Weighed::of).collect(),
            pairs_by_hops: proposal.distances.histogram(),
            load_percent: loads(proposal),
            interval: proposal.interval.clone(),
            backups: backups(&design.wiring).into_iter().map(backup).collect(),
            failures: failures(&outlook),
            cost: Cost::of(proposal, market),
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
    fn of(proposal: &Proposal, market: Market) -> Self {
        let ends = proposal.design.wiring.cables() * 2;
        Self {
            transceivers: ends,
            panel_ports: ends,
            fat_tree_transceivers: 2 * TREE_CABLES * ends,
            fat_tree_switch_ports: TREE_SWITCH_PORTS * ends,
            bill: market.bill,
            priced: market.priced,
            others: market.others,
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
        let [links, others]: [Vec<_>; 2] = [true, false].map(|is_link| {
            let failures = self.failures.iter();
            failures.filter(|it| it.is_link() == is_link).collect()
        });
        if let [_, _, ..] = links[..] {
            page.line(&format!("  without one link: {}", range(&links)));
        }
        let single = if links.len() == 1 { &links[..] } else { &[] };
        for failure in single.iter().chain(&others) {
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

impl Failure {
    fn is_link(&self) -> bool {
        self.failed.contains('-')
    }
}

/// What an iteration takes after the best of these failures, and after the worst.
fn range(failures: &[&Failure]) -> String {
    let going = failures
        .iter()
        .filter_map(|it| Some((it.iteration_ms?, it)));
    let mut going: Vec<_> = going.collect();
    going.sort_by(|a, b| a.0.total_cmp(&b.0));
    let apart = failures.len() - going.len();
    let apart = match apart {
        0 => String::new(),
        _ => format!("; without one of {apart}, some cannot reach each other any more"),
    };
    match &going[..] {
        [] => "some cannot reach each other any more, whichever it is".to_owned(),
        [(best, _), .., (worst, failure)] if spelled(Some(*best)) != spelled(Some(*worst)) => {
            format!(
                "an iteration takes {best:.2} to {worst:.2} ms over other routes, most without {}{apart}",
                failure.failed
            )
        }
        [(ms, _), ..] => format!("an iteration takes {ms:.2} ms over other routes{apart}"),
    }
}

fn spelled(ms: Option<f64>) -> String {
    ms.map_or("-".to_owned(), |ms| format!("{ms:.2}"))
}

impl Cost {
    fn show(&self, page: &mut Page) {
        page.heading("What must be bought");
        let Bill {
            patch_panels,
            optical_switches,
            fat_tree,
        } = self.bill;
        let price = |cost: f64| match self.priced {
            true => format!("{cost:.0}, {:.2} times as much", self.bill.times(cost)),
            false => format!("{cost} times the cost, as published"),
        };
        let total = if self.priced {
            format!(": {patch_panels:.0}")
        } else {
            String::new()
        };
        page.line(&format!(
            "  {} transceivers and {} ports of patch panels{total}; with optical switches instead: {}",
            self.transceivers,
            self.panel_ports,
            price(optical_switches)
        ));
        page.line(&format!(
            "  a fat tree as wide, {} transceivers and {} ports of switches: {}",
            self.fat_tree_transceivers,
            self.fat_tree_switch_ports,
            price(fat_tree)
        ));
        let row = |it: &Other| {
            let spread = it.spread.clone().unwrap_or_default();
            [it.what.to_owned(), spelled(it.iteration_ms), spread]
        };
        page.table(
            ["what else could be bought", "iteration ms", "spread there"],
            self.others.iter().map(row),
        );
    }
}
