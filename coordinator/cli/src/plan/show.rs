//! A proposal as JSON and as text.

use std::path::PathBuf;

use reweave_common::ids::Rank;
use reweave_design::parallel::presets;
use reweave_design::parallel::together::Pairing;
use reweave_sim::workload::job::operators::{Model, Split};
use reweave_sim::workload::job::preset::{Parallelism, Zero};
use serde::{Deserialize, Serialize};

use super::explained::Explained;
use super::request::Ports;
use super::summary::Summary;
use crate::page::Page;
use crate::report::Report;
use crate::work::Deal;

/// Inputs of the request. A later `plan repair` reads them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlanInputs {
    pub(super) job: PathBuf,
    pub(super) ports: Ports,
}

/// Parallelism of a model.
#[derive(Debug, Default)]
pub(super) struct Spread {
    pub(super) splits: Vec<Vec<u32>>,
    pub(super) parallelism: Option<Degrees>,
    pub(super) bound_ms: Option<f64>,
    pub(super) report: Vec<String>,
}

/// Parallelism of a preset, in the terms of a job file.
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

/// Returns the distribution of a job that a plan describes.
pub(super) fn deal(parallelism: Option<Degrees>, splits: &[Vec<u32>]) -> Deal {
    let ranks = |split: &Vec<u32>| {
        let ranks = split.iter().map(|&it| Rank::from_index(it as usize));
        ranks.collect()
    };
    match parallelism {
        Some(degrees) => Deal::Spread(degrees.parallelism()),
        None if splits.is_empty() => Deal::AsItsFileSays,
        None => Deal::Splits(splits.iter().map(ranks).collect()),
    }
}

impl Degrees {
    /// Whether every degree is at least one.
    pub(super) fn are_some(&self) -> bool {
        let all = [
            self.data,
            self.tensor,
            self.pipeline,
            self.interleave,
            self.microbatches,
            self.expert,
            self.columns,
        ];
        all.iter().all(|&degree| degree > 0)
    }

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

    fn parallelism(self) -> Parallelism {
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

/// Maximum number of operators in text output.
const MAX_OPERATORS: usize = 12;

impl Spread {
    pub(super) fn of_preset(search: &presets::Search, found: &Pairing<Parallelism>) -> Self {
        let needed = search.needed(found.deal).ok();
        let needed = needed.map_or(String::new(), |needed| {
            format!("; a processor holds {}", presets::spelled(needed))
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
        report.extend(bounded(found.bound_ms));
        Self {
            parallelism: Some(Degrees::of(found.deal)),
            bound_ms: found.bound_ms,
            report,
            ..Self::default()
        }
    }

    pub(super) fn of_operators(model: &Model, found: &Pairing<Vec<Split>>) -> Self {
        let servers = found.deal.iter().map(Vec::len).max().unwrap_or(0);
        let splits: Vec<Vec<u32>> = found
            .deal
            .iter()
            .map(|split| {
                split
                    .iter()
                    .map(|rank: &reweave_common::ids::Rank| rank.index() as u32)
                    .collect()
            })
            .collect();
        let mut report = vec![format!(
            "operators and links were searched in turn, {} splits: {}",
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
        report.extend(few.iter().take(MAX_OPERATORS).cloned());
        if few.len() > MAX_OPERATORS {
            report.push(format!(
                "and {} operators more on some servers",
                few.len() - MAX_OPERATORS
            ));
        }
        report.push(format!("all other operators on {servers} servers"));
        report.extend(bounded(found.bound_ms));
        Self {
            splits,
            bound_ms: found.bound_ms,
            report,
            ..Self::default()
        }
    }
}

fn bounded(bound_ms: Option<f64>) -> Option<String> {
    bound_ms.map(|ms| format!("lower bound for any spread: {ms:.2} ms"))
}

fn course(course: &[f64]) -> String {
    let course: Vec<_> = course.iter().map(|ms| format!("{ms:.2}")).collect();
    format!("{} ms", course.join(", then "))
}

fn names(hosts: &[u32]) -> String {
    let names: Vec<_> = hosts.iter().map(|host| format!("h{host}")).collect();
    names.join(" ")
}

#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    #[serde(flatten)]
    pub(super) summary: Summary,
    /// Servers of each split operator; empty for presets.
    pub(super) splits: Vec<Vec<u32>>,
    /// Parallelism of a preset; absent for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallelism: Option<Degrees>,
    /// Lower bound over every parallelism and wiring; absent if only one parallelism was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bound_ms: Option<f64>,
    pub(super) asked: PlanInputs,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) explained: Option<Explained>,
}

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        page.heading("The topology");
        self.summary.show(page);
        self.summary.show_links(page);
        if let Some(explained) = &self.explained {
            self.summary.show_lengths(page);
            explained.show(page);
        }
    }
}
