//! A proposal for scripts and for people.

use reweave_planner::topology::{Lost, Pair, Proposal};
use serde::Serialize;

use crate::page::Page;

#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    links: Vec<Pair>,
    iteration_ms: f64,
    ideal_switch_ms: f64,
    /// No wiring of these ports is faster.
    bound_ms: f64,
    diameter: u32,
    mean_hops: f64,
    bandwidth_tax: f64,
    family: &'static str,
    /// Ways through all hosts in a ring, for what they reduce.
    rings: Vec<Vec<u32>>,
    report: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<Explained>,
}

#[derive(Debug, Serialize)]
struct Explained {
    lost: Vec<Weighed>,
    /// How many ordered pairs of hosts are 1, 2, 3, ... links apart.
    pairs_by_hops: Vec<u64>,
    /// Of the links in both directions, the least used, the middle and the most used: percent.
    load_percent: [f64; 3],
}

#[derive(Debug, Serialize)]
struct Weighed {
    what: String,
    screened_ms: f64,
    iteration_ms: Option<f64>,
    mean_hops: f64,
}

impl Answer {
    pub(crate) fn new(proposal: &Proposal, explain: bool) -> Self {
        let bounds = &proposal.ideal.bounds;
        Self {
            links: proposal.design.wiring.pairs(),
            iteration_ms: proposal.evaluation.iteration_ms,
            ideal_switch_ms: proposal.ideal.iteration_ms,
            bound_ms: bounds.most_ms(),
            diameter: proposal.distances.diameter(),
            mean_hops: proposal.distances.mean(),
            bandwidth_tax: proposal.bandwidth_tax,
            family: proposal.design.family.word(),
            rings: proposal.design.rings.clone(),
            report: report(proposal),
            explained: explain.then(|| explained(proposal)),
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
        format!(
            "nothing is faster than {:.2} ms: {}",
            proposal.ideal.bounds.most_ms(),
            what_bounds(proposal)
        ),
        format!(
            "each byte crosses {:.3} links on average",
            proposal.bandwidth_tax
        ),
    ];
    report.extend(
        proposal
            .lost
            .iter()
            .take(MOST_LOST)
            .map(|lost| why_lost(lost, took)),
    );
    report
}

/// More of what lost tells nobody anything.
const MOST_LOST: usize = 4;

fn what_bounds(proposal: &Proposal) -> &'static str {
    let bounds = &proposal.ideal.bounds;
    if bounds.compute_ms >= bounds.most_ms() {
        "the busiest server computes so long"
    } else if bounds.communication_ms >= bounds.most_ms() {
        "the busiest server sends so long over all its ports"
    } else {
        "so long is the longest chain of tasks that wait for one another"
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
            "not {}: its fullest link alone needs {:.2} ms",
            lost.family, lost.screened_ms
        ),
    }
}

fn explained(proposal: &Proposal) -> Explained {
    let weighed = |lost: &Lost| Weighed {
        what: lost.family.to_string(),
        screened_ms: lost.screened_ms,
        iteration_ms: lost.iteration_ms,
        mean_hops: lost.mean_hops,
    };
    let lanes = proposal.design.wiring.cables() * 2;
    let mut loads: Vec<_> = proposal
        .evaluation
        .lanes
        .iter()
        .map(|lane| lane.utilization * 100.0)
        .collect();
    loads.resize(lanes.max(loads.len()), 0.0);
    loads.sort_by(f64::total_cmp);
    Explained {
        lost: proposal.lost.iter().map(weighed).collect(),
        pairs_by_hops: proposal.distances.histogram(),
        load_percent: [0, loads.len() / 2, loads.len() - 1].map(|nth| loads[nth]),
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
        explain(page, explained);
    }
}

fn explain(page: &mut Page, explained: &Explained) {
    page.heading("What was weighed besides");
    let row = |it: &Weighed| {
        let took = it
            .iteration_ms
            .map_or("-".to_owned(), |ms| format!("{ms:.2}"));
        [
            it.what.clone(),
            format!("{:.2}", it.screened_ms),
            took,
            format!("{:.3}", it.mean_hops),
        ]
    };
    page.table(
        ["candidate", "fullest link ms", "iteration ms", "mean hops"],
        explained.lost.iter().map(row),
    );
    page.heading("How far hosts are apart");
    let rows = (1..).zip(&explained.pairs_by_hops);
    page.table(
        ["links", "pairs"],
        rows.map(|(hops, pairs): (u32, _)| [hops.to_string(), pairs.to_string()]),
    );
    let [least, middle, most] = explained.load_percent;
    page.line(&format!(
        "Links are used {least:.1} % at least, {middle:.1} % in the middle, {most:.1} % at most."
    ));
}
