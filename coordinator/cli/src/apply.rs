//! `reweave apply`: hands a plan over to the coordinator and sees what comes of it.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reweave_common::operator::{Outcome, Record, Request, Response};
use reweave_common::plan::Generation;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::names::Names;
use crate::{Output, print, show};

const GLANCE: Duration = Duration::from_millis(100);

/// Carry out the plan that makes this generation, and see what comes of it
///
/// Exits with 0 when the change was kept, and with 1 when it was refused or taken back.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The number `reweave plan` gave
    generation: u64,
    /// Return as soon as the coordinator has taken it over
    #[arg(long)]
    no_wait: bool,
}

impl Apply {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        let generation = Generation(self.generation);
        match coordinator.ask(&Request::Apply { generation })? {
            Response::ApplyStarted { .. } => {}
            Response::Refused(refused) => return Err(CliError::Refused(refused)),
            other => return Err(CliError::unexpected(&other)),
        }
        if self.no_wait {
            let started = serde_json::json!({ "started": generation });
            return print(output, &started, |page| {
                page.line(&format!("plan {generation} is being carried out"));
            });
        }
        let record = follow(&mut coordinator, generation)?;
        let names = Names::of(&coordinator.status()?);
        print(output, &record, |page| show::record(page, &record, &names))?;
        Ok(match record.outcome {
            Outcome::Committed => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }
}

/// Waits until it has ended, one way or another, and tells what happens meanwhile.
fn follow(coordinator: &mut Coordinator, generation: Generation) -> Result<Record, CliError> {
    let mut told = None;
    loop {
        let record = recorded(coordinator, generation)?;
        if !matches!(record.outcome, Outcome::Offered | Outcome::Running) {
            return Ok(record);
        }
        let change = coordinator.status()?.change;
        let words = change.filter(|change| change.generation == generation);
        let words = words.map(|change| show::phase(&change));
        if words.is_some() && words != told {
            eprintln!("{}", words.as_deref().unwrap_or_default());
            told = words;
        }
        coordinator.wait(GLANCE);
    }
}

fn recorded(coordinator: &mut Coordinator, generation: Generation) -> Result<Record, CliError> {
    let records = match coordinator.ask(&Request::History)? {
        Response::History(records) => records,
        Response::Refused(refused) => return Err(CliError::Refused(refused)),
        other => return Err(CliError::unexpected(&other)),
    };
    let ours = |record: &Record| record.plan.generation == generation;
    let found = records.into_iter().find(ours);
    found.ok_or(CliError::Lost { generation })
}
