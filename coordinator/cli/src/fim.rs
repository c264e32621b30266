//! `reweave fim`: how evenly flows are spread over equivalent links.

use std::process::ExitCode;

use clap::Args;
use reweave_common::finding::Imbalance;
use reweave_common::operator::{
    GroupImbalance, Imbalances, JobImbalance, LayerImbalance, NotedImbalance, Request, Response,
};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::{Page, age};
use crate::report::Report;
use crate::{Detail, Output, print_report, show};

/// Show how evenly flows are spread over links
///
/// Flow imbalance metric: how evenly large flows are spread over equivalent links, per layer
///
/// 0 % is even. The floor is the lowest imbalance that is possible with this number of flows and links.
#[derive(Debug, Args)]
pub(crate) struct Fim {
    /// All groups of links instead of the worst; JSON always has all
    #[arg(long)]
    all: bool,
}

impl Fim {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let imbalances = match Coordinator::reach(reach)?.ask(&Request::Imbalance)? {
            Response::Imbalances(found) => found,
            Response::Refused(refused) => return Err(CliError::Refused(refused)),
            other => return Err(CliError::unexpected(&other)),
        };
        let detail = Detail { all: self.all };
        print_report(output, &ImbalanceAnswer { imbalances, detail })
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct ImbalanceAnswer {
    imbalances: Imbalances,
    #[serde(skip)]
    detail: Detail,
}

impl Report for ImbalanceAnswer {
    fn lay_out(&self, page: &mut Page) {
        let (found, detail) = (&self.imbalances, self.detail);
        match &found.all {
            Some(all) => show::flows::imbalance(page, all),
            None => page.line("no large flow has a choice of links"),
        }
        if !found.layers.is_empty() {
            page.heading("Layers");
            let headings = [
                "links", "groups", "mean", "worst", "floor", "by rate", "max/mean",
            ];
            page.table(headings, found.layers.iter().map(layer));
            page.heading("Groups, the worst first");
            let rows = found.groups.iter().take(show::most_rows(detail));
            let headings = ["over", "FIM", "floor", "by rate", "max/mean"];
            page.table(headings, rows.map(group));
            more(page, found.groups.len(), detail);
        }
        jobs(page, &found.jobs, detail);
        history(page, &found.history);
        if found.unknown_flows > 0 {
            let count = found.unknown_flows;
            page.line(&format!(
                "not counted: {count} large flows with an unknown hop"
            ));
        }
    }
}

fn more(page: &mut Page, rows: usize, detail: Detail) {
    let more = rows.saturating_sub(show::most_rows(detail));
    if more > 0 {
        page.line(&format!("  and {more} more; --all shows them"));
    }
}

fn jobs(page: &mut Page, jobs: &[JobImbalance], detail: Detail) {
    if jobs.is_empty() {
        return;
    }
    page.heading("Each job's flows alone, the worst first");
    let headings = [
        "job", "flows", "mean", "worst", "floor", "by rate", "max/mean",
    ];
    let rows = jobs.iter().take(show::most_rows(detail)).map(|it| {
        let [worst, floor, weighted, peak] = figures(&it.all.worst);
        let mean = percent(it.all.mean_fim_percent);
        let flows = it.flows.to_string();
        [it.job.clone(), flows, mean, worst, floor, weighted, peak]
    });
    page.table(headings, rows);
    more(page, jobs.len(), detail);
}

fn history(page: &mut Page, history: &[NotedImbalance]) {
    let above = |it: &NotedImbalance| it.worst.fim_percent - it.worst.floor_percent;
    let worst = history.iter().rev();
    let worst = worst.max_by(|one, other| above(one).total_cmp(&above(other)));
    if let [first, ..] = history
        && let Some(worst) = worst
    {
        let sum: f64 = history.iter().map(|it| it.mean_fim_percent).sum();
        page.line(&format!(
            "Over the last {}  mean {}; worst {} against a floor of {}, {} ago",
            age(first.age_ms),
            percent(sum / history.len() as f64),
            percent(worst.worst.fim_percent),
            percent(worst.worst.floor_percent),
            age(worst.age_ms)
        ));
    }
}

fn layer(layer: &LayerImbalance) -> [String; 7] {
    let [worst, floor, weighted, _] = figures(&layer.worst);
    [
        layer.to_string(),
        layer.groups.to_string(),
        percent(layer.mean_fim_percent),
        worst,
        floor,
        weighted,
        format!("{:.2}", layer.max_over_mean),
    ]
}

fn group(group: &GroupImbalance) -> [String; 5] {
    let over: Vec<_> = group.over.iter().map(show::hop).collect();
    let [fim, floor, weighted, peak] = figures(&group.imbalance);
    [over.join(", "), fim, floor, weighted, peak]
}

fn figures(imbalance: &Imbalance) -> [String; 4] {
    [
        percent(imbalance.fim_percent),
        percent(imbalance.floor_percent),
        percent(imbalance.weighted_percent),
        format!("{:.2}", imbalance.max_over_mean),
    ]
}

fn percent(figure: f64) -> String {
    format!("{figure:.1} %")
}

#[cfg(test)]
mod tests {
    use reweave_common::operator::FlowImbalance;

    use super::*;

    fn uneven(fim_percent: f64) -> Imbalance {
        Imbalance {
            fim_percent,
            floor_percent: 20.0,
            weighted_percent: 90.0,
            max_over_mean: 2.0,
        }
    }

    fn noted(age_s: u64, fim_percent: f64) -> NotedImbalance {
        NotedImbalance {
            age_ms: age_s * 1000,
            mean_fim_percent: fim_percent / 2.0,
            worst: uneven(fim_percent),
        }
    }

    #[test]
    fn jobs_and_history_follow_imbalance() {
        let all = FlowImbalance {
            mean_fim_percent: 50.0,
            worst_over: vec![],
            worst: uneven(100.0),
        };
        let job = JobImbalance {
            job: "h0 and h3".to_owned(),
            flows: 2,
            all,
        };
        let imbalances = Imbalances {
            jobs: vec![job],
            history: vec![noted(30, 40.0), noted(25, 80.0), noted(20, 60.0)],
            ..Imbalances::default()
        };
        let mut page = Page::default();
        let detail = Detail { all: false };
        ImbalanceAnswer { imbalances, detail }.lay_out(&mut page);
        let shown = "no large flow has a choice of links

Each job's flows alone, the worst first
  job        flows    mean    worst   floor  by rate  max/mean
  h0 and h3      2  50.0 %  100.0 %  20.0 %   90.0 %      2.00
Over the last 30 s  mean 30.0 %; worst 80.0 % against a floor of 20.0 %, 25 s ago
";
        assert_eq!(page.text, shown);
    }
}
