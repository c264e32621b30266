//! `reweave maintenance`: work on a switch or an optical switch, while jobs run around it.
//!
//! How far it has come is in the coordinators' log, and not here: whoever runs it again goes on there,
//! and where it stops nothing passes the switch.

mod health;
mod line;
mod work;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reweave_common::operator::{MaintenanceStage, MaintenanceStatus};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::duration::{self, SECOND};
use crate::error::CliError;
use crate::page::{Ink, Page, age};
use crate::{Output, print};

use work::{Report, Work};

/// Drain a switch, work on it, and let it carry again
///
/// Drain a switch, prove that nothing passes it, run a command, look whether it is well, let it carry again
///
/// The command has the switch's name in REWEAVE_NODE, and what it prints goes to standard error. Whatever
/// fails, the switch stays drained, and what to do is said; run again, it goes on from there. Without a
/// switch it lists what is under maintenance.
#[derive(Debug, Args)]
pub(crate) struct Maintenance {
    /// The switch or optical switch to work on
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// The work is done: look whether it is well, and let it carry again
    #[arg(long, requires = "node", conflicts_with = "command")]
    finish: bool,
    /// Drain it though flows become slower by it
    #[arg(long, requires = "node")]
    force: bool,
    /// Make the changes at once, whatever hours the policy has for them
    #[arg(long, requires = "node")]
    now: bool,
    /// The version that its agent must have afterwards
    #[arg(long, value_name = "VERSION", requires = "node")]
    expect_version: Option<String>,
    /// It has no agent: its links alone tell whether it is well
    #[arg(long, requires = "node", conflicts_with = "expect_version")]
    no_agent: bool,
    /// How long it may take to be well again after the command; a bare number is in seconds
    #[arg(long = "within-s", value_name = "TIME", default_value = "2m", requires = "node", value_parser = seconds)]
    within: Duration,
    /// How long it is watched after it carries again; a bare number is in seconds
    #[arg(long = "watch-s", value_name = "TIME", default_value = "10s", requires = "node", value_parser = seconds)]
    watch: Duration,
    /// What to run on this machine, after `--`
    #[arg(last = true, value_name = "COMMAND", requires = "node")]
    command: Vec<String>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let range = [Duration::ZERO, Duration::from_hours(24)];
    duration::parse(text, Some(SECOND), range)
}

impl Maintenance {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let Some(node) = &self.node else {
            return list(reach, output);
        };
        if self.command.is_empty() && !self.finish {
            return Err(CliError::NothingToRun { node: node.clone() });
        }
        let report = Work::new(self, node, reach).run()?;
        print(output, &report, |page| lay_out(page, &report))?;
        Ok(match report.is_done() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

#[derive(Serialize)]
struct Listed {
    maintenance: Vec<MaintenanceStatus>,
}

fn list(reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
    let maintenance = Coordinator::reach(reach)?.status()?.maintenance;
    let listed = Listed { maintenance };
    print(output, &listed, |page| table(page, &listed.maintenance))
}

pub(crate) fn table(page: &mut Page, maintenance: &[MaintenanceStatus]) {
    if maintenance.is_empty() {
        return page.line("nothing is under maintenance");
    }
    let rows = maintenance.iter().map(|it| row(page, it));
    let rows: Vec<_> = rows.collect();
    page.table(["switch", "stage", "since", "by", "carries"], rows);
}

fn row(page: &Page, it: &MaintenanceStatus) -> [String; 5] {
    let carries = match it.not_empty.as_slice() {
        [] => page.ink(Ink::Green, "nothing"),
        why => page.ink(Ink::Yellow, &format!("not known: {}", why.join("; "))),
    };
    [
        it.name.clone(),
        stage(it.stage).to_owned(),
        age(it.age_ms),
        it.by.clone(),
        carries,
    ]
}

fn stage(stage: MaintenanceStage) -> &'static str {
    match stage {
        MaintenanceStage::Draining => "being drained",
        MaintenanceStage::Working => "worked on",
        MaintenanceStage::Returning => "may carry again",
    }
}

fn lay_out(page: &mut Page, report: &Report) {
    match &report.stopped_because {
        None => page.line(&format!("{} carries again, and is well", report.node)),
        Some(why) => {
            let why = page.ink(Ink::Red, &format!("stopped: {why}"));
            page.line(&why);
            page.line(report.what_to_do.as_deref().unwrap_or_default());
        }
    }
}
