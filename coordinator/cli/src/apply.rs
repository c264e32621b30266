//! `reweave apply` and `reweave approve`: submit a plan to the coordinator and follow it to its outcome.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use reweave_common::operator::{Approval, Outcome, Plan, Record, Refused, Request, Response};
use reweave_common::plan::Generation;
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::kept::Whose;
use crate::names::Names;
use crate::page::Page;
use crate::report::Report;
use crate::voice::print_note;
use crate::{Output, kept, offer, print_report, show};

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum outage of the coordinator that a command survives while it follows a change.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Apply a plan and follow it to its outcome
///
/// Apply the plan with this generation, or the plan in a file, and follow it until it is kept or rolled back
///
/// Without an argument, the newest offered plan is shown and applied after confirmation on the terminal. A plan file
/// must be unmodified: an edited file, a file of another cluster, and a plan whose effect has changed since are
/// refused. Exit codes: 0 the change was kept, 1 it was refused or rolled back.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Generation printed by `reweave plan`, or file written by `reweave plan --out FILE`
    #[arg(value_name = "GENERATION|FILE", value_parser = wanted)]
    plan: Option<Wanted>,
    /// Apply the newest offered plan without asking for confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    insistence: Insistence,
    /// Return as soon as the coordinator has accepted the plan
    #[arg(long)]
    no_wait: bool,
}

/// Approve a plan and return at once
///
/// Approve the plan with this generation and return as soon as the coordinator has accepted it
///
/// `reweave apply` also follows the plan to its outcome.
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Generation printed by `reweave plan`
    #[arg(value_parser = number)]
    generation: u64,
    #[command(flatten)]
    insistence: Insistence,
    /// Refuse unless the plan still has this seal (field `seal` of `reweave --output json plan`)
    #[arg(long)]
    seal: Option<String>,
}

#[derive(Debug, Clone, Copy, Args)]
struct Insistence {
    /// Keep the change even if flows become slower; an unsound plan is refused all the same
    #[arg(long)]
    force: bool,
    /// Apply now, outside the change windows of the policy
    #[arg(long)]
    now: bool,
}

impl Insistence {
    fn approval(self) -> Approval {
        let Self { force, now } = self;
        Approval { force, now }
    }
}

/// A plan, named by its generation or given as the file that `reweave plan --out` wrote.
#[derive(Debug, Clone)]
enum Wanted {
    Number(u64),
    File(PathBuf),
}

fn wanted(text: &str) -> Result<Wanted, &'static str> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        number(text).map(Wanted::Number)
    } else {
        Ok(Wanted::File(text.into()))
    }
}

impl Wanted {
    fn approved(
        &self,
        reach: &Reach,
        approval: Approval,
    ) -> Result<(Generation, Request), CliError> {
        match self {
            Self::Number(number) => {
                let generation = Generation(*number);
                Ok((generation, approval.of(generation)))
            }
            Self::File(path) => {
                let ours = Whose::of(&reach.own_identity()?);
                Ok(sealed(&kept::read_for(path, &ours)?, approval))
            }
        }
    }
}

/// Returns the request that applies exactly this plan: the coordinator refuses it if the plan has changed since.
fn sealed(plan: &Plan, approval: Approval) -> (Generation, Request) {
    let seals = vec![plan.seal.clone()];
    (plan.generation, approval.of_sealed(plan.generation, seals))
}

pub(crate) fn number(text: &str) -> Result<u64, &'static str> {
    text.parse()
        .map_err(|_| "not a plan number; `reweave plan` prints it")
}

impl Approve {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let (generation, approval) = (Generation(self.generation), self.insistence.approval());
        let asked = match &self.seal {
            Some(seal) => approval.of_sealed(generation, vec![seal.clone()]),
            None => approval.of(generation),
        };
        begin(&mut Coordinator::reach(reach)?, generation, &asked)?;
        print_started(output, generation)
    }
}

impl Apply {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let approval = self.insistence.approval();
        let (generation, asked) = match &self.plan {
            Some(wanted) => wanted.approved(reach, approval)?,
            None => sealed(&offer::accepted(reach, self.yes)?, approval),
        };
        let mut coordinator = Coordinator::reach(reach)?;
        begin(&mut coordinator, generation, &asked)?;
        if self.no_wait {
            return print_started(output, generation);
        }
        let (record, mut coordinator) = follow(reach, coordinator, generation)?;
        let names = Names::of(&coordinator.status()?);
        let applied = AppliedPlan { record, names };
        print_report(output, &applied)?;
        Ok(match applied.record.outcome {
            Outcome::Committed => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }
}

/// Result of `reweave apply` for one plan.
#[derive(Serialize)]
#[serde(transparent)]
struct AppliedPlan {
    record: Record,
    #[serde(skip)]
    names: Names,
}

impl Report for AppliedPlan {
    fn lay_out(&self, page: &mut Page) {
        show::record(page, &self.record, &self.names);
    }
}

fn print_started(output: Output, started: Generation) -> Result<ExitCode, CliError> {
    print_report(output, &StartedPlan { started })
}

#[derive(Serialize)]
struct StartedPlan {
    started: Generation,
}

impl Report for StartedPlan {
    fn lay_out(&self, page: &mut Page) {
        page.line(&format!("plan {} is being applied", self.started));
    }
}

fn begin(
    coordinator: &mut Coordinator,
    generation: Generation,
    asked: &Request,
) -> Result<(), CliError> {
    match coordinator.ask(asked)? {
        Response::ApplyStarted { .. } => Ok(()),
        Response::Refused(refused @ Refused::NoPlan) => {
            let record = coordinator.record(generation).ok();
            Err(record.map_or(CliError::Refused(refused), |it| {
                gone(generation, &it.outcome)
            }))
        }
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

/// Error for a plan that was already applied and is over.
fn gone(generation: Generation, outcome: &Outcome) -> CliError {
    let what = match outcome {
        Outcome::Offered => "superseded by another plan",
        Outcome::Running => "it is being applied",
        Outcome::Committed => "it was applied",
        Outcome::RolledBack { .. } => "it was rolled back",
        Outcome::Abandoned { .. } => "it was aborted before anything changed",
        Outcome::Held { .. } => "it is held and needs an operator",
    };
    CliError::NotOffered {
        generation,
        what: what.to_owned(),
    }
}

/// Submits the plan and follows it to its outcome.
pub(crate) fn carry_out(
    reach: &Reach,
    mut coordinator: Coordinator,
    generation: Generation,
    approval: Approval,
) -> Result<(Record, Coordinator), CliError> {
    begin(&mut coordinator, generation, &approval.of(generation))?;
    follow(reach, coordinator, generation)
}

/// Follows a running change to its outcome.
pub(crate) fn follow(
    reach: &Reach,
    coordinator: Coordinator,
    generation: Generation,
) -> Result<(Record, Coordinator), CliError> {
    let follower = Follower {
        reach,
        coordinator,
        generation,
        last_line: None,
    };
    follower.follow()
}

/// Follows a change to its outcome, and prints each phase that it enters.
struct Follower<'r> {
    reach: &'r Reach,
    coordinator: Coordinator,
    generation: Generation,
    last_line: Option<String>,
}

impl Follower<'_> {
    fn follow(mut self) -> Result<(Record, Coordinator), CliError> {
        loop {
            match self.look() {
                Ok(record) if record.outcome.is_open() => {
                    self.coordinator.wait(POLL_INTERVAL);
                }
                Ok(record) => return Ok((record, self.coordinator)),
                Err(error) if error.is_of_the_session() => self.reach_again(&error)?,
                Err(error) => return Err(error),
            }
        }
    }

    fn look(&mut self) -> Result<Record, CliError> {
        let record = self.coordinator.record(self.generation)?;
        let changes = self.coordinator.status()?.changes;
        let mut changes = changes.into_iter();
        let words = changes.find(|change| change.generation == self.generation);
        let words = words.map(|change| show::phase(&change));
        if words.is_some() && words != self.last_line {
            print_note(words.as_deref().unwrap_or_default());
            self.last_line = words;
        }
        Ok(record)
    }

    /// Opens a new session after the last one was lost. A restarted coordinator continues the change.
    fn reach_again(&mut self, lost: &CliError) -> Result<(), CliError> {
        print_note(&format!("{}; retrying", lost.error_chain()));
        let generation = self.generation;
        let end = Instant::now() + RECONNECT_TIMEOUT;
        loop {
            match Coordinator::reach(self.reach) {
                Ok(again) => {
                    self.coordinator = again;
                    return Ok(());
                }
                Err(source) if Instant::now() >= end => {
                    return Err(CliError::OutOfSight {
                        generation,
                        source: Box::new(source),
                    });
                }
                Err(_) => self.coordinator.wait(POLL_INTERVAL),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn finished_plan_reports_its_outcome() {
        let back = Outcome::RolledBack {
            reasons: Vec::new(),
            generation: Generation(14),
        };
        let said = gone(Generation(13), &back).error_chain();
        assert!(
            said.contains("plan 13 is not on offer: it was rolled back"),
            "{said}"
        );
        assert!(said.contains("`reweave plan show 13`"), "{said}");
        let offered = vec![Generation(5)];
        let other = CliError::Refused(Refused::OtherPlan { offered }).error_chain();
        assert!(
            other.contains("review it with `reweave plan show 5`"),
            "{other}"
        );
    }

    #[test]
    fn plan_argument_is_number_or_file() {
        assert!(matches!(wanted("12"), Ok(Wanted::Number(12))));
        assert!(
            matches!(wanted("plan.json"), Ok(Wanted::File(path)) if path.ends_with("plan.json"))
        );
        assert!(wanted("99999999999999999999").is_err() && wanted("").is_err());
        let words = ["reweave", "apply"].map(OsString::from);
        assert!(crate::parsed(words.into_iter()).is_ok());
    }
}
