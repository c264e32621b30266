//! `reweave sim raw`: flows over bare links.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_sim::engine::{Outcome, raw};
use serde::Serialize;

use super::effort::Effort;
use super::input;
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, print_report};

#[derive(Debug, Args)]
pub(crate) struct Raw {
    /// Lines `cap GBPS`, `flow BYTES DELAY_S LINK...` and `dep A B` (B after A)
    problem: PathBuf,
    #[command(flatten)]
    effort: Effort,
}

#[derive(Serialize)]
struct Answer {
    makespan_s: f64,
    /// Id, start and finish of each flow.
    flows: Vec<(usize, f64, f64)>,
    wall_ms: f64,
}

impl Raw {
    pub(super) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let name = self.problem.display().to_string();
        let problem = raw::parse(&name, &input::text(&self.problem)?);
        let problem = problem.map_err(CliError::Input)?;
        let (outcome, wall_ms) = self.effort.simulate(&problem)?;
        let answer = Answer {
            makespan_s: outcome.makespan().seconds(),
            flows: flows(&outcome),
            wall_ms,
        };
        print_report(output, &answer)
    }
}

fn flows(outcome: &Outcome) -> Vec<(usize, f64, f64)> {
    let times = outcome.starts.iter().zip(&outcome.finishes).enumerate();
    times
        .map(|(id, (start, finish))| (id, start.seconds(), finish.seconds()))
        .collect()
}

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        if self.flows.is_empty() {
            page.line("it has no flows");
        }
        for (id, start_s, finish_s) in &self.flows {
            page.line(&format!("{id} {start_s:.12} {finish_s:.12}"));
        }
    }
}
