//! Commands that register, start, announce phases of, and end a job, and their results.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use reweave_common::operator::{
    Allocation, JobOrder, Outcome, Record, RegisteredJob, Request, Response, StartedJob,
};
use reweave_common::units::Rate;
use serde::Serialize;

use super::{Hostlist, hostlist};
use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::names::Names;
use crate::page::Page;
use crate::report::Report;
use crate::sim::replay::rate;
use crate::{Output, apply, duration, print_report, show};

/// How often `job start` checks whether an improvement has become possible.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Register a job and its hosts; a repeated call confirms that the job still runs
#[derive(Debug, Args)]
pub(crate) struct Register {
    /// Name of the job
    job: String,
    /// Hosts in rank order, as a Slurm hostlist: node[01-04,07]
    #[arg(long, value_name = "LIST", value_parser = hostlist)]
    hosts: Hostlist,
    /// Allow another rank order: the best order is printed and stays fixed
    #[arg(long)]
    reorder: bool,
}

/// Optimise the routes of a job: plan, check, apply, wait for the result and print the gain
///
/// Does what automatic mode would do, within the same policy, for flows between hosts of this job. Exits with 0 unless
/// a change was started and not kept.
#[derive(Debug, Args)]
pub(crate) struct Start {
    /// Name of the job
    job: String,
    /// Hosts in rank order, as a Slurm hostlist, if the job is not registered yet
    #[arg(long, value_name = "LIST", value_parser = hostlist)]
    hosts: Option<Hostlist>,
    /// What may be changed for the job
    #[arg(long, value_enum, default_value_t = Topology::Auto)]
    topology: Topology,
    /// Retry for this long while there is nothing to improve; demand is known only once flows run
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = within)]
    within: Duration,
}

/// Maximum of `--within`.
const MAX_WITHIN: Duration = Duration::from_hours(24);

fn within(text: &str) -> Result<Duration, String> {
    duration::parse(text, None, [Duration::ZERO, MAX_WITHIN])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topology {
    /// Routes, chosen by the planner
    Auto,
    /// Nothing; only the best rank order is printed
    None,
}

/// Announce the next traffic phase of a job, so that links it will saturate are predicted
#[derive(Debug, Args)]
pub(crate) struct Phase {
    /// Name of the job
    job: String,
    /// Name of the phase
    phase: String,
    /// Rate that each host will send to the next in a ring; without it, nothing is predicted
    #[arg(long, value_name = "G", value_parser = rate, allow_negative_numbers = true)]
    ring_gbps: Option<Rate>,
}

/// End a job: predictions and freezes end, and its pins are removed once its flows have ended
///
/// A job that is not registered is no error: schedulers end each job, and some twice. The command says so.
#[derive(Debug, Args)]
pub(crate) struct End {
    /// Name of the job
    job: String,
}

#[derive(Serialize)]
struct Started<'a> {
    job: &'a str,
    allocation: Allocation,
    /// The change that was made, with its outcome.
    change: Option<Record>,
    /// Reason why nothing was changed.
    because: Option<String>,
    #[serde(skip)]
    names: Names,
}

/// Sends an order. Returns the new state of the job, or the last one of a job that it ends, if that was registered.
pub(crate) fn send_order(
    coordinator: &mut Coordinator,
    job: &str,
    order: JobOrder,
) -> Result<Option<RegisteredJob>, CliError> {
    let job = job.to_owned();
    match coordinator.ask(&Request::Job { job, order })? {
        Response::Registered(mut report) => Ok(report.pop()),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

pub(crate) fn begin(
    coordinator: &mut Coordinator,
    job: &str,
    topology: Topology,
) -> Result<StartedJob, CliError> {
    let may_change = topology == Topology::Auto;
    let request = Request::Job {
        job: job.to_owned(),
        order: JobOrder::Start { may_change },
    };
    match coordinator.ask(&request)? {
        Response::Started(started) => Ok(*started),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

impl Register {
    pub(super) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let order = JobOrder::Register {
            hosts: self.hosts.0.clone(),
            may_reorder: self.reorder,
        };
        say_registered(reach, output, &self.job, order)
    }
}

impl Phase {
    pub(super) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let order = JobOrder::Phase {
            name: self.phase.clone(),
            ring_bits_per_s: self.ring_gbps,
        };
        say_registered(reach, output, &self.job, order)
    }
}

fn say_registered(
    reach: &Reach,
    output: Output,
    job: &str,
    order: JobOrder,
) -> Result<ExitCode, CliError> {
    let registered = send_order(&mut Coordinator::reach(reach)?, job, order)?;
    print_report(output, &RegisterAnswer { registered, job })
}

#[derive(Serialize)]
#[serde(transparent)]
struct RegisterAnswer<'r> {
    registered: Option<RegisteredJob>,
    #[serde(skip)]
    job: &'r str,
}

impl Report for RegisterAnswer<'_> {
    fn lay_out(&self, page: &mut Page) {
        if let Some(RegisteredJob { hosts, phase, .. }) = &self.registered {
            let phase = phase.as_ref();
            let phase = phase.map_or(String::new(), |it| format!(", in phase {}", it.name));
            let (job, hosts) = (self.job, hosts.join(", "));
            page.line(&format!("{job} is registered on {hosts}{phase}"));
        }
    }
}

impl End {
    pub(super) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let ended = send_order(&mut Coordinator::reach(reach)?, &self.job, JobOrder::End)?;
        let was_registered = ended.is_some();
        let ended = &self.job;
        print_report(
            output,
            &EndedJob {
                ended,
                was_registered,
            },
        )
    }
}

#[derive(Serialize)]
struct EndedJob<'e> {
    ended: &'e str,
    was_registered: bool,
}

impl Report for EndedJob<'_> {
    fn lay_out(&self, page: &mut Page) {
        let job = self.ended;
        page.line(&if self.was_registered {
            format!("{job} is over")
        } else {
            format!("no job {job} is registered: it is over, or never was")
        });
    }
}

impl Start {
    pub(super) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        if let Some(Hostlist(hosts)) = self.hosts.clone() {
            let may_reorder = false;
            let order = JobOrder::Register { hosts, may_reorder };
            send_order(&mut coordinator, &self.job, order)?;
        }
        let begun = self.begun(&mut coordinator)?;
        let mut change = None;
        if let Some(generation) = begun.generation {
            let (record, again) = apply::follow(reach, coordinator, generation)?;
            change = Some(record);
            coordinator = again;
        }
        let started = Started {
            job: &self.job,
            allocation: begun.allocation,
            change,
            because: begun.because,
            names: Names::of(&coordinator.status()?),
        };
        print_report(output, &started)?;
        let is_kept = |record: &Record| record.outcome == Outcome::Committed;
        Ok(if started.change.as_ref().is_none_or(is_kept) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn begun(&self, coordinator: &mut Coordinator) -> Result<StartedJob, CliError> {
        let end = Instant::now() + self.within;
        loop {
            let begun = begin(coordinator, &self.job, self.topology)?;
            if begun.generation.is_some() || Instant::now() >= end {
                return Ok(begun);
            }
            coordinator.wait(POLL_INTERVAL);
        }
    }
}

impl Report for Started<'_> {
    fn lay_out(&self, page: &mut Page) {
        self.allocation.lay_out(page);
        match (&self.change, &self.because) {
            (Some(record), _) => show::record(page, record, &self.names),
            (None, Some(because)) => page.line(&format!("no change: {because}")),
            (None, None) => {}
        }
    }
}
