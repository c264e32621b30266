//! `reweave maintenance`: service a switch or an optical switch while jobs run around it.
//!
//! The coordinators' log holds the progress. A repeated call continues from there, and after a failure no traffic
//! passes the switch.

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
use crate::{Output, print_report};

use work::{Report, Work};

/// Drain a switch, service it, and return it to traffic
///
/// Drain a switch, prove that its links are idle, run a command, check health, and return it to traffic
///
/// The command gets the name of the switch in REWEAVE_NODE; its output goes to standard error. After any failure the
/// switch stays drained and the remedy is printed; a repeated call continues from there. A switch that another operator
/// has under maintenance is refused, and so is a second command beside one that may still run. Without a switch, lists
/// nodes under maintenance.
#[derive(Debug, Args)]
pub(crate) struct Maintenance {
    /// Switch or optical switch
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// Finish maintenance: check health and return the switch to traffic
    #[arg(long, requires = "node", conflicts_with = "command")]
    finish: bool,
    /// Drain the switch even if flows become slower
    #[arg(long, requires = "node")]
    force: bool,
    /// Apply the changes now, outside the change windows of the policy
    #[arg(long, requires = "node")]
    now: bool,
    /// Take over the maintenance that another operator, or a command in another shell, has begun
    #[arg(long, requires = "node")]
    take_over: bool,
    /// Version that the agent of the switch must have afterwards
    #[arg(long, value_name = "VERSION", requires = "node")]
    expect_version: Option<String>,
    /// The switch has no agent: judge its health by its links alone
    #[arg(long, requires = "node", conflicts_with = "expect_version")]
    no_agent: bool,
    /// Time limit for the switch to become healthy after the command; a bare number is in seconds
    #[arg(long = "within-s", value_name = "TIME", default_value = "2m", requires = "node", value_parser = seconds)]
    within: Duration,
    /// How long to watch the switch after its return to traffic; a bare number is in seconds
    #[arg(long = "watch-s", value_name = "TIME", default_value = "10s", requires = "node", value_parser = seconds)]
    watch: Duration,
    /// Command to run on this machine, after `--`
    #[arg(last = true, value_name = "COMMAND", requires = "node")]
    command: Vec<String>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let range = [Duration::ZERO, Duration::from_hours(24)];
    duration::parse(text, Some(SECOND), range)
}

impl Maintenance {
    pub(crate) fn is_list(&self) -> bool {
        self.node.is_none()
    }

    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let Some(node) = &self.node else {
            return list(reach, output);
        };
        if self.command.is_empty() && !self.finish {
            return Err(CliError::NothingToRun { node: node.clone() });
        }
        let report = Work::new(self, node, reach).run()?;
        print_report(output, &report)?;
        Ok(if report.is_done() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

#[derive(Serialize)]
struct Listed {
    maintenance: Vec<MaintenanceStatus>,
}

fn list(reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
    let maintenance = Coordinator::reach(reach)?.status()?.maintenance;
    print_report(output, &Listed { maintenance })
}

impl crate::report::Report for Listed {
    fn lay_out(&self, page: &mut Page) {
        table(page, &self.maintenance);
    }

    fn names(&self) -> Vec<String> {
        self.maintenance.iter().map(|it| it.name.clone()).collect()
    }
}

pub(crate) fn table(page: &mut Page, maintenance: &[MaintenanceStatus]) {
    if maintenance.is_empty() {
        return page.line("no node is under maintenance");
    }
    let rows = maintenance.iter().map(|it| row(page, it));
    let rows: Vec<_> = rows.collect();
    page.table(["switch", "stage", "since", "by", "carries"], rows);
}

fn row(page: &Page, it: &MaintenanceStatus) -> [String; 5] {
    let carries = match it.not_empty.as_slice() {
        [] => page.ink(Ink::Green, "nothing"),
        why => page.ink(Ink::Yellow, &format!("unknown: {}", why.join("; "))),
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

impl crate::report::Report for Report {
    fn lay_out(&self, page: &mut Page) {
        match &self.stopped_because {
            None => page.line(&format!(
                "{} carries traffic again and is healthy",
                self.node
            )),
            Some(why) => {
                let why = page.ink(Ink::Red, &format!("stopped: {why}"));
                page.line(&why);
                page.line(self.what_to_do.as_deref().unwrap_or_default());
            }
        }
    }
}
