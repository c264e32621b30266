//! `--explain` of a proposal: alternatives, failures, costs and other fabrics.

use std::collections::BTreeSet;

use reweave_design::crew::InTime;
use reweave_design::topology::prices::{Bill, TREE_CABLES_PER_PORT, TREE_SWITCH_PORTS_PER_PORT};
use reweave_design::topology::{self, Failed, Job, Lost, Outlook, Proposal, Request, Rival};
use reweave_sim::workload::effects::Interval;
use reweave_sim::workload::job::Losses;
use serde::Serialize;

use super::crew::Cores;
use super::tables::{self, Backup};
use crate::page::Page;

#[derive(Debug, Serialize)]
pub(super) struct Explained {
    lost: Vec<Weighed>,
    interval: Option<Interval>,
    /// Table entries that change at once when a link fails, for each link.
    backups: Vec<Backup>,
    /// Iteration times after failures, with other routes over the same circuits.
    failures: Vec<Failure>,
    cost: Cost,
}

/// A candidate that was not chosen.
#[derive(Debug, Serialize)]
struct Weighed {
    what: String,
    screened_ms: f64,
    iteration_ms: Option<f64>,
    mean_hops: f64,
}

#[derive(Debug, Serialize)]
struct Failure {
    failed: String,
    /// Absent if the remaining hosts cannot continue.
    iteration_ms: Option<f64>,
    /// Parts of the job that are lost with failed hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    losses: Option<Losses>,
}

/// Cost of the proposal and of its alternatives.
#[derive(Debug, Serialize)]
struct Cost {
    transceivers: usize,
    panel_ports: usize,
    fat_tree_transceivers: usize,
    fat_tree_switch_ports: usize,
    /// Cost by the given prices, else by the published prices with patch panels.
    bill: Bill,
    priced: bool,
    others: Vec<Other>,
}

/// Iteration time on another fabric.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Other {
    what: &'static str,
    iteration_ms: Option<f64>,
    /// Parallelism of a preset on that fabric.
    spread: Option<String>,
}

impl Other {
    pub(super) fn new(rival: Rival, iteration_ms: Option<f64>, spread: Option<String>) -> Self {
        let what = match rival {
            Rival::IdealSwitch => "an ideal switch",
            Rival::EqualCost => "a fat tree of the same cost",
            Rival::TwoToOne => "a fat tree with half of the uplinks",
            Rival::Expander => "random links, shortest paths",
        };
        Self {
            what,
            iteration_ms,
            spread,
        }
    }
}

/// Alternatives that could be bought, with prices.
pub(super) struct Market {
    pub(super) bill: Bill,
    pub(super) priced: bool,
    pub(super) others: Vec<Other>,
}

/// The proposal that is explained, with further facts about it.
pub(super) struct Subject<'s> {
    pub(super) proposal: &'s Proposal,
    pub(super) job: &'s Job<'s>,
    pub(super) request: &'s Request,
    /// Numbers in the names of the hosts.
    pub(super) names: &'s [u32],
    /// Returns what is lost with hosts that fail.
    pub(super) losses: &'s dyn Fn(&BTreeSet<u32>) -> Option<Losses>,
    pub(super) in_time: InTime<'s>,
}

impl Explained {
    pub(super) fn of(subject: &Subject<'_>, market: Market) -> Self {
        let Subject {
            proposal,
            job,
            request,
            names,
            ..
        } = subject;
        let (design, routes) = (&proposal.design, &proposal.routes);
        let outlook = topology::outlook(design, routes, job, request, &Cores, subject.in_time);
        let backups = outlook.backups.iter();
        Self {
            lost: proposal.lost.iter().map(Weighed::of).collect(),
            interval: proposal.interval.clone(),
            backups: backups.map(|it| Backup::of(it, names)).collect(),
            failures: subject.failures(&outlook),
            cost: Cost::of(proposal, market),
        }
    }
}

impl Subject<'_> {
    fn failures(&self, outlook: &Outlook) -> Vec<Failure> {
        outlook
            .cases
            .iter()
            .map(|case| Failure {
                failed: self.named(case.failed),
                iteration_ms: case.iteration_ms,
                losses: match case.failed {
                    Failed::Host(host) => (self.losses)(&BTreeSet::from([host])),
                    _ => None,
                },
            })
            .collect()
    }

    /// Returns a failure as `plan repair --failed` accepts it.
    fn named(&self, failed: Failed) -> String {
        let name = |host: u32| tables::name(self.names[host as usize]);
        match failed {
            Failed::Cable([a, b]) => format!("{}-{}", name(a), name(b)),
            Failed::Port { of, towards } => format!("{}:{}", name(of), name(towards)),
            Failed::Host(host) => name(host),
            Failed::Panel(panel) => format!("panel{panel}"),
        }
    }
}

impl Weighed {
    fn of(lost: &Lost) -> Self {
        Self {
            what: lost.what.clone(),
            screened_ms: lost.screened_ms,
            iteration_ms: lost.iteration_ms,
            mean_hops: lost.mean_hops,
        }
    }
}

impl Cost {
    /// A host's cable has a transceiver and a panel port at each end. In a non-blocking fat tree of three layers, each
    /// host port needs five switch ports and three cables with two transceivers each.
    fn of(proposal: &Proposal, market: Market) -> Self {
        let ends = proposal.design.wiring.cables() * 2;
        Self {
            transceivers: ends,
            panel_ports: ends,
            fat_tree_transceivers: 2 * TREE_CABLES_PER_PORT * ends,
            fat_tree_switch_ports: TREE_SWITCH_PORTS_PER_PORT * ends,
            bill: market.bill,
            priced: market.priced,
            others: market.others,
        }
    }
}

impl Explained {
    pub(super) fn show(&self, page: &mut Page) {
        self.show_lost(page);
        self.show_failures(page);
        self.cost.show(page);
    }

    fn show_lost(&self, page: &mut Page) {
        page.heading("Alternatives");
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
            page.heading("Error of the fluid model");
            let costs = interval.costs.iter();
            let rows = costs.map(|it| [it.effect.to_owned(), format!("{:.2}", it.ms)]);
            page.table(["effect", "by itself ms"], rows);
            if !interval.unseparated.is_empty() {
                let unseparated = interval.unseparated.join(", ");
                page.line(&format!("  too much work to separate: {unseparated}"));
            }
        }
    }

    fn show_failures(&self, page: &mut Page) {
        page.heading("When something fails");
        let without = self.backups.iter().filter(|it| !it.is_ready()).count();
        page.line(&match without {
            0 => "  table changes are precomputed for the failure of each link".to_owned(),
            1 => "  one link has no detour".to_owned(),
            _ => format!("  {without} links have no detour"),
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
                    "  without {}, some hosts cannot reach each other",
                    failure.failed
                ),
            });
            if let Some(losses) = &failure.losses {
                page.line(&format!("    {losses}"));
            }
        }
    }
}

impl Failure {
    fn is_link(&self) -> bool {
        self.failed.contains('-')
    }
}

/// Returns the iteration times after the best and the worst of these failures.
fn range(failures: &[&Failure]) -> String {
    let going = failures
        .iter()
        .filter_map(|it| Some((it.iteration_ms?, it)));
    let mut going: Vec<_> = going.collect();
    going.sort_by(|a, b| a.0.total_cmp(&b.0));
    let apart = failures.len() - going.len();
    let apart = match apart {
        0 => String::new(),
        _ => format!("; without one of {apart}, some hosts cannot reach each other"),
    };
    match &going[..] {
        [] => "some hosts cannot reach each other, for every failure".to_owned(),
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
        page.heading("Bill of materials");
        let Bill {
            patch_panels,
            optical_switches,
            fat_tree,
        } = self.bill;
        let price = |cost: f64| {
            if self.priced {
                format!("{cost:.0}, {:.2} times as much", self.bill.times(cost))
            } else {
                format!("{cost} times the cost, as published")
            }
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
        self.show_others(page);
    }

    /// Shows the other fabrics, each with its own parallelism if it is known.
    fn show_others(&self, page: &mut Page) {
        let [what, ms] = ["alternatives by cost", "iteration ms"];
        let row = |it: &Other| [it.what.to_owned(), spelled(it.iteration_ms)];
        if self.others.iter().all(|it| it.spread.is_none()) {
            return page.table([what, ms], self.others.iter().map(row));
        }
        let row = |it: &Other| {
            let [what, ms] = row(it);
            [what, ms, it.spread.clone().unwrap_or_default()]
        };
        page.table([what, ms, "spread there"], self.others.iter().map(row));
    }
}
