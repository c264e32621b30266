//! `reweave plan show` and `reweave diff`: plans known to the coordinator, by generation.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{Line, Plan, Record};
use reweave_common::plan::Generation;
use serde::Serialize;

use crate::apply::number;
use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::names::Names;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, exit, print_report, show};

/// Show a recorded plan: its changes, predictions, reasons and outcome
#[derive(Debug, Args)]
pub(super) struct Show {
    /// Generation printed by `reweave plan` or `reweave history`
    #[arg(value_name = "N", value_parser = number)]
    generation: u64,
}

/// Show the changes of a plan, one per line
///
/// Show the changes of a plan against its parent generation, one per line, with the effect on running jobs
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Generation printed by `reweave plan` or `reweave history`
    #[arg(value_name = "N", value_parser = number)]
    generation: u64,
    /// Exit with 3 if the plan changes anything
    #[arg(long)]
    detailed_exitcode: bool,
}

#[derive(Serialize)]
struct Changes<'r> {
    generation: Generation,
    parent: Generation,
    changes: &'r [Line],
    #[serde(skip)]
    plan: &'r Plan,
    #[serde(skip)]
    names: Names,
}

impl Report for Changes<'_> {
    fn lay_out(&self, page: &mut Page) {
        show::all_changes(page, self.plan, &self.names);
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct RecordAnswer {
    record: Record,
    #[serde(skip)]
    names: Names,
}

impl Report for RecordAnswer {
    fn lay_out(&self, page: &mut Page) {
        show::recorded(page, &self.record, &self.names);
    }
}

impl Show {
    pub(super) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let (record, names) = look(reach, self.generation)?;
        print_report(output, &RecordAnswer { record, names })
    }
}

impl Diff {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let (Record { plan, .. }, names) = look(reach, self.generation)?;
        let answer = Changes {
            generation: plan.generation,
            parent: plan.parent,
            changes: &plan.changes,
            plan: &plan,
            names,
        };
        print_report(output, &answer)?;
        let found = !plan.changes.is_empty();
        Ok(ExitCode::from(exit::number(self.detailed_exitcode, found)))
    }
}

fn look(reach: &Reach, generation: u64) -> Result<(Record, Names), CliError> {
    let mut coordinator = Coordinator::reach(reach)?;
    let names = Names::of(&coordinator.status()?);
    let record = coordinator.record(Generation(generation))?;
    Ok((record, names))
}
