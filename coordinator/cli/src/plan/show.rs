//! A proposal for scripts and for people.

use std::path::PathBuf;

use reweave_planner::parallel::presets;
use reweave_planner::parallel::together::Pairing;
use reweave_planner::routing::Order;
use reweave_planner::topology::{Lost, Pair, Patch, Proposal};
use reweave_planner::workload::effects::Interval;
use reweave_planner::workload::job::operators::{Model, Split};
use reweave_planner::workload::job::preset::{Parallelism, Zero};
use serde::{Deserialize, Serialize};

use super::explained::Explained;
use super::request::Ports;
use crate::page::Page;

/// What was asked, so that an answer says all that a later question needs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) job: PathBuf,
    pub(super) ports: Ports,
}

/// How a model is spread.
#[derive(Debug, Default)]
pub(super) struct Spread {
    splits: Vec<Vec<u32>>,
    parallelism: Option<Degrees>,
    report: Vec<String>,
}

/// How a preset is spread, as its job file would say it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Degrees {
    data: usize,
    tensor: usize,
    pipeline: usize,
    interleave: usize,
    microbatches: usize,
    expert: usize,
    columns: usize,
    zero: u64,
}

impl Degrees {
    fn of(spread: Parallelism) -> Self {
        Self {
            data: spread.data.unwrap_or(1),
            tensor: spread.tensor,
            pipeline: spread.pipeline,
            interleave: spread.interleave,
            microbatches: spread.microbatches,
            expert: spread.expert,
            columns: spread.columns,
            zero: presets::stage(spread.zero),
        }
    }

    pub(super) fn parallelism(self) -> Parallelism {
        Parallelism {
            data: Some(self.data),
            tensor: self.tensor,
            pipeline: self.pipeline,
            interleave: self.interleave,
            microbatches: self.microbatches,
            expert: self.expert,
            columns: self.columns,
            zero: Zero::stage(self.zero).unwrap_or_default(),
        }
    }
}

/// More operators than these tell nobody anything.
const MOST_OPERATORS: usize = 12;

impl Spread {
    pub(super) fn of_preset(search: &presets::Search, found: &Pairing<Parallelism>) -> Self {
        let needed = search.needed(found.deal).ok().flatten();
        let needed = needed.map_or(String::new(), |needed| {
            format!("; a processor holds {:.1} GB", needed.count() as f64 / 1e9)
        });
        let mut report = vec![format!(
            "spread over {}{needed}",
            presets::Words(found.deal)
        )];
        if found.tried > 0 {
            report.push(format!(
                "spreads and links were searched in turn, {} were simulated: {}",
                found.tried,
                course(&found.course)
            ));
        }
        Self {
            parallelism: Some(Degrees::of(found.deal)),
            report,
            ..Self::default()
        }
    }

    pub(super) fn of_operators(model: &Model, found: &Pairing<Vec<Split>>) -> Self {
        let servers = found.deal.iter().map(Vec::len).max().unwrap_or(0);
        let of_operator = |split: &Vec<_>| {
            split
                .iter()
                .map(|rank: &reweave_common::ids::Rank| rank.index() as u32)
                .collect()
        };
        let splits: Vec<Vec<u32>> = found.deal.iter().map(of_operator).collect();
        let mut report = vec![format!(
            "operators and links were searched in turn, {} ways to split: {}",
            found.tried,
            course(&found.course)
        )];
        let few = model
            .operators
            .iter()
            .zip(&splits)
            .filter(|(_, split)| split.len() < servers);
        let few: Vec<_> = few
            .map(|(operator, split)| format!("{} on {}", operator.name, names(split)))
            .collect();
        report.extend(few.iter().take(MOST_OPERATORS).cloned());
        if few.len() > MOST_OPERATORS {
            report.push(format!(
                "and {} operators more on some servers",
                few.len() - MOST_OPERATORS
            ));
        }
        report.push(format!("all other operators on {servers} servers"));
        Self {
            splits,
            report,
            ..Self::default()
        }
    }
}

fn course(course: &[f64]) -> String {
    let course: Vec<_> = course.iter().map(|ms| format!("{ms:.2}")).collect();
    format!("{} ms", course.join(", then "))
}

fn names(hosts: &[u32]) -> String {
    let names: Vec<_> = hosts.iter().map(|host| format!("h{host}")).collect();
    names.join(" ")
}

/// A link's way through a panel.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Patched {
    link: Pair,
    panel: usize,
    ports: [usize; 2],
}

impl Patched {
    pub(super) fn of(patch: &Patch) -> Self {
        Self {
            link: patch.cable,
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
pub(crate) struct Answer {
    links: Vec<Pair>,
    iteration_ms: f64,
    /// What exact shares leave out makes it no shorter than the first, and no longer than the second.
    interval_ms: Option<[f64; 2]>,
    ideal_switch_ms: f64,
    /// No wiring of these ports is faster.
    bound_ms: f64,
    diameter: u32,
    mean_hops: f64,
    bandwidth_tax: f64,
    family: &'static str,
    /// Ways through all hosts in a ring, for what they reduce.
    rings: Vec<Vec<u32>>,
    /// Where there are panels: which link runs through which, over which ports of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    patches: Vec<Patched>,
    /// By operator, the servers that it is split over; empty for presets.
    splits: Vec<Vec<u32>>,
    /// How a preset is spread; left out for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    parallelism: Option<Degrees>,
    /// Classes of service that a lossless fabric needs, so that no circle of full buffers can arise.
    classes: u32,
    report: Vec<String>,
    asked: Asked,
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<Explained>,
}

impl Answer {
    pub(super) fn new(
        proposal: &Proposal,
        spread: Spread,
        asked: Asked,
        explained: Option<Explained>,
    ) -> Self {
        let mut report = report(proposal);
        report.extend(spread.report);
        Self {
            links: proposal.design.wiring.pairs(),
            iteration_ms: proposal.evaluation.iteration_ms,
            interval_ms: proposal.interval.as_ref().map(|it| [it.low_ms, it.high_ms]),
            ideal_switch_ms: proposal.ideal.iteration_ms,
            bound_ms: proposal.bound_ms,
            diameter: proposal.distances.diameter(),
            mean_hops: proposal.distances.mean(),
            bandwidth_tax: proposal.bandwidth_tax,
            family: proposal.design.family.word(),
            rings: proposal.design.rings.clone(),
            patches: proposal.design.patches.iter().map(Patched::of).collect(),
            splits: spread.splits,
            parallelism: spread.parallelism,
            classes: Order::of(&proposal.design.wiring).classes(&proposal.routes),
            report,
            asked,
            explained,
        }
    }
}

fn report(proposal: &Proposal) -> Vec<String> {
    let (took, ideal) = (
        proposal.evaluation.iteration_ms,
        proposal.ideal.iteration_ms,
    );
    let mut report = vec![
        format!(
            "{}: {} links, hosts {:.2} links apart on average and {} at most",
            proposal.design.family,
            proposal.design.wiring.cables(),
            proposal.distances.mean(),
            proposal.distances.diameter()
        ),
        format!(
            "an iteration takes {took:.2} ms, on one ideal switch with the same ports {ideal:.2} ms"
        ),
        between(proposal),
        format!(
            "nothing is faster than {:.2} ms: {}",
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
            .take(MOST_LOST)
            .map(|lost| why_lost(lost, took)),
    );
    report
}

fn between(proposal: &Proposal) -> String {
    match &proposal.interval {
        None => "how far that is off was not asked".to_owned(),
        Some(Interval {
            low_ms, high_ms, ..
        }) => format!("with what exact shares leave out, between {low_ms:.2} and {high_ms:.2} ms"),
    }
}

/// Where ports have no partner.
fn dark(proposal: &Proposal) -> Option<String> {
    let wiring = &proposal.design.wiring;
    let [least, most] = wiring.degrees();
    let hosts = wiring.hosts();
    let dark = most * hosts - 2 * wiring.cables();
    (least < most).then(|| match hosts * most % 2 {
        1 => format!(
            "{dark} ports stay dark: {hosts} hosts of {most} ports have an odd number of ends; {} hosts, \
             or a degree of {}, would use all",
            hosts + 1,
            most - 1
        ),
        _ => format!(
            "{dark} ports stay dark, as what has failed or cannot be joined leaves them no partner"
        ),
    })
}

/// More of what lost tells nobody anything.
const MOST_LOST: usize = 4;

fn what_bounds(proposal: &Proposal) -> &'static str {
    let bounds = &proposal.ideal.bounds;
    if bounds.compute_ms >= proposal.bound_ms {
        "the busiest server computes so long"
    } else if bounds.chain_ms > bounds.communication_ms && bounds.chain_ms <= proposal.bound_ms {
        "so long is the longest chain of tasks that wait for one another"
    } else {
        "the busiest server sends so long over all its ports"
    }
}

fn why_lost(lost: &Lost, best_ms: f64) -> String {
    match lost.iteration_ms {
        Some(ms) if ms > best_ms * 1.001 => {
            format!("not {}: an iteration would take {ms:.2} ms", lost.family)
        }
        Some(_) => format!(
            "not {}: as fast, and hosts {:.2} links apart",
            lost.family, lost.mean_hops
        ),
        None => format!(
            "not {}: its fullest link needs {:.2} ms, and others were more promising",
            lost.family, lost.screened_ms
        ),
    }
}

pub(crate) fn proposal(page: &mut Page, answer: &Answer) {
    page.heading("The topology");
    answer
        .report
        .iter()
        .for_each(|line| page.line(&format!("  {line}")));
    page.heading("Links");
    for links in answer.links.chunks(10) {
        let links: Vec<_> = links.iter().map(|[a, b]| format!("h{a}-h{b}")).collect();
        page.line(&format!("  {}", links.join(" ")));
    }
    if let Some(explained) = &answer.explained {
        explained.show(page);
    }
}
