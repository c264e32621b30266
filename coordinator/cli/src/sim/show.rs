//! Cost of an iteration as JSON and as text.

use reweave_sim::workload::effects::{Cost, Interval};
use reweave_sim::workload::losses::Known;
use reweave_sim::workload::{Chosen, Evaluation, Exposed, LaneLoad, RankTime, Segment, Stretch};
use serde::Serialize;

use super::measured::Lossy;
use crate::page::Page;
use crate::report::Report;

#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    iteration_ms: f64,
    compute_bound_ms: f64,
    comm_bound_ms: f64,
    events: u64,
    wall_ms: f64,
    breakdown: Breakdown,
}

#[derive(Debug, Serialize)]
struct Breakdown {
    /// Interval that counts the effects left out by exact sharing.
    interval: Option<Interval>,
    /// Length of the longest chain of dependent tasks, in ms.
    chain_bound_ms: f64,
    /// Mean over all ranks.
    #[serde(flatten)]
    mean: RankTime,
    exposed: Vec<Exposed>,
    critical_path: Vec<Segment>,
    /// Algorithms of the collectives, if the job names them.
    collectives: Vec<Chosen>,
    ranks: Vec<RankTime>,
    links: Vec<LaneLoad>,
    /// Loss of links in the history, if it was requested.
    lossy: Vec<Lossy>,
}

impl Answer {
    pub(super) fn new(
        evaluation: Evaluation,
        interval: Option<Interval>,
        lossy: Vec<Lossy>,
        wall_ms: f64,
    ) -> Self {
        Self {
            iteration_ms: evaluation.iteration_ms,
            compute_bound_ms: evaluation.bounds.compute_ms,
            comm_bound_ms: evaluation.bounds.communication_ms,
            events: evaluation.events,
            wall_ms,
            breakdown: Breakdown {
                interval,
                chain_bound_ms: evaluation.bounds.chain_ms,
                mean: evaluation.mean,
                exposed: evaluation.exposed,
                critical_path: evaluation.critical,
                collectives: evaluation.collectives,
                ranks: evaluation.ranks,
                links: evaluation.lanes,
                lossy,
            },
        }
    }
}

/// Maximum number of rows.
const MAX_ROWS: usize = 8;

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        let Breakdown {
            mean,
            exposed,
            critical_path,
            collectives,
            links,
            ..
        } = &self.breakdown;
        page.line(&format!("An iteration takes {:.2} ms.", self.iteration_ms));
        if let Some(interval) = &self.breakdown.interval {
            page.line(&uncertain(interval));
        }
        page.line(&format!(
            "Lower bounds: {:.2} ms of computing, {:.2} ms of communication, {:.2} ms of \
             dependent tasks.",
            self.compute_bound_ms, self.comm_bound_ms, self.breakdown.chain_bound_ms
        ));
        page.heading("Time of a rank, on average");
        let part = |name: &str, ms: f64| {
            let percent = ms / self.iteration_ms * 100.0;
            [name.to_owned(), format!("{ms:.2}"), format!("{percent:.1}")]
        };
        let parts = [
            ("computes", mean.compute_ms),
            ("waits for its own communication", mean.exposed_ms),
            ("waits for others", mean.stalled_ms),
        ];
        page.table(["it", "ms", "%"], parts.map(|(name, ms)| part(name, ms)));
        if !exposed.is_empty() {
            page.heading("Communication that is not hidden behind computing");
            let rows = exposed
                .iter()
                .take(MAX_ROWS)
                .map(|it| part(&it.name, it.ms));
            page.table(["what", "ms", "%"], rows);
        }
        page.heading("What the end waited for");
        page.table(
            ["what", "name", "ms", "tasks"],
            critical_path.iter().take(MAX_ROWS).map(segment),
        );
        if !collectives.is_empty() {
            page.heading("How collectives are done, the largest first");
            page.table(
                ["what", "ranks", "MB", "by", "groups", "ms alone"],
                collectives.iter().take(MAX_ROWS).map(chosen),
            );
        }
        page.heading("Links, the most used first");
        page.table(
            [
                "link",
                "MB",
                "% used",
                "% shared",
                "flows at once",
                "queue us",
            ],
            links.iter().take(MAX_ROWS).map(link),
        );
        lossy(page, &self.breakdown.lossy);
        risks(page, links);
    }
}

/// Adds the links that lost packets in the past.
pub(super) fn lossy(page: &mut Page, links: &[Lossy]) {
    if links.is_empty() {
        return;
    }
    page.heading("Links that lost packets, the most first");
    let rows = links.iter().take(MAX_ROWS).map(|Lossy { link, loss }| {
        let by = match loss.by {
            Known::Probes {
                lost,
                sent,
                suspects: 1,
            } => format!("{lost} of {sent} probes"),
            Known::Probes {
                lost,
                sent,
                suspects,
            } => format!(
                "{lost} of {sent} probes, on it or on {} others",
                suspects - 1
            ),
            Known::Port { broken, frames } => {
                format!("{broken} broken frames of {frames} at least")
            }
        };
        [link.clone(), format!("{:.3}", loss.part * 100.0), by]
    });
    page.table(["link", "% lost", "by"], rows);
}

fn risks(page: &mut Page, links: &[LaneLoad]) {
    let mut risky: Vec<_> = links.iter().filter(|it| cost_ms(it) > 0.0).collect();
    if risky.is_empty() {
        return;
    }
    risky.sort_by(|a, b| cost_ms(b).total_cmp(&cost_ms(a)));
    page.heading("What single links may add to the iteration, the most first");
    page.table(
        ["link", "% lost", "ms for loss", "ms for its queue"],
        risky.into_iter().take(MAX_ROWS).map(risk),
    );
}

/// Returns the possible delay of the iteration by a link, in ms.
fn cost_ms(load: &LaneLoad) -> f64 {
    load.risk
        .map_or(0.0, |risk| risk.loss_ms.max(risk.queue_ms.unwrap_or(0.0)))
}

fn risk(load: &LaneLoad) -> [String; 4] {
    let queue_ms = load.risk.and_then(|risk| risk.queue_ms);
    let [lost, loss_ms] = load
        .risk
        .map_or([0.0; 2], |risk| [risk.lost * 100.0, risk.loss_ms]);
    [
        load.lane.clone(),
        format!("{lost:.3}"),
        format!("{loss_ms:.3}"),
        queue_ms.map_or_else(String::new, |ms| format!("{ms:.3}")),
    ]
}

fn uncertain(interval: &Interval) -> String {
    let Interval {
        low_ms,
        high_ms,
        costs,
        ..
    } = interval;
    let cost = |cost: &Cost| format!("{} {:.2} ms", cost.effect, cost.ms);
    let costs: Vec<_> = costs.iter().map(cost).collect();
    let why = if costs.is_empty() {
        String::new()
    } else {
        format!("; by themselves, they cost: {}", costs.join(", "))
    };
    format!("The error of the fluid model puts it between {low_ms:.2} and {high_ms:.2} ms{why}.")
}

fn segment(segment: &Segment) -> [String; 4] {
    let stretch = match segment.stretch {
        Stretch::Compute => "computing",
        Stretch::Communication => "communication",
        Stretch::Delay => "delay",
    };
    [
        stretch.to_owned(),
        segment.name.clone(),
        format!("{:.2}", segment.ms),
        segment.tasks.to_string(),
    ]
}

fn chosen(chosen: &Chosen) -> [String; 6] {
    [
        chosen.operation.to_owned(),
        chosen.members.to_string(),
        format!("{:.3}", chosen.bytes as f64 / 1e6),
        chosen.algorithm.clone(),
        chosen.groups.to_string(),
        format!("{:.3}", chosen.alone_ms),
    ]
}

fn link(load: &LaneLoad) -> [String; 6] {
    [
        load.lane.clone(),
        format!("{:.1}", load.bytes / 1e6),
        format!("{:.1}", load.utilization * 100.0),
        format!("{:.1}", load.shared * 100.0),
        load.flows_at_once.to_string(),
        format!("{:.0}", load.queue_us),
    ]
}
