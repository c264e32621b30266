//! `reweave fim`: how evenly flows are spread over links that stand for one another.

use std::process::ExitCode;

use clap::Args;
use reweave_common::finding::Imbalance;
use reweave_common::operator::{GroupImbalance, Imbalances, LayerImbalance, Request, Response};

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::{Detail, Output, print, show};

/// How evenly large flows are spread over links that stand for one another, layer by layer: the flow
/// imbalance metric
///
/// 0 % is even. So many flows on so many links may not go without some of it: that is the floor.
#[derive(Debug, Args)]
pub(crate) struct Fim {
    /// All groups of links, and not only the worst; JSON has all in any case
    #[arg(long)]
    all: bool,
}

impl Fim {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let found = match Coordinator::reach(reach)?.ask(&Request::Imbalance)? {
            Response::Imbalances(found) => found,
            Response::Refused(refused) => return Err(CliError::Refused(refused)),
            other => return Err(CliError::unexpected(&other)),
        };
        let detail = Detail { all: self.all };
        print(output, &found, |page| lay_out(page, &found, detail))
    }
}

fn lay_out(page: &mut Page, found: &Imbalances, detail: Detail) {
    match &found.all {
        Some(all) => show::flows::imbalance(page, all),
        None => page.line("no large flow goes where there is a choice of links"),
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
        let more = found.groups.len().saturating_sub(show::most_rows(detail));
        if more > 0 {
            page.line(&format!("  and {more} more; --all shows them"));
        }
    }
    if found.unknown_flows > 0 {
        let count = found.unknown_flows;
        page.line(&format!(
            "not counted: {count} large flows of which a hop is not known"
        ));
    }
}

fn layer(layer: &LayerImbalance) -> [String; 7] {
    let by = if layer.is_chosen {
        ""
    } else {
        ", chosen before"
    };
    let [worst, floor, weighted, _] = figures(&layer.worst);
    [
        format!("tier {} to {}{by}", layer.from_tier, layer.to_tier),
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
