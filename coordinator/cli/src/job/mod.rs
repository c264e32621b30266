//! `reweave job`: commands for orchestrators: register, start, freeze and end jobs.

pub(crate) mod gate;
pub(crate) mod order;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_common::operator::{Refused, Request, Response};
use reweave_formats::hostlist::{HostlistError, unfold};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, print_report};

#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    Register(order::Register),
    Start(order::Start),
    Phase(order::Phase),
    End(order::End),
    Gate(gate::Gate),
    /// Freeze a job: no plan may touch a link that its flows use, until it is thawed
    Freeze(Hosts),
    /// Thaw a job: plans may touch its links again
    Thaw(Hosts),
}

#[derive(Debug, Args)]
pub(crate) struct Hosts {
    /// One host stands for the job that runs on it now; several hosts are all hosts of the job
    #[arg(required = true, value_name = "HOST")]
    hosts: Vec<String>,
}

/// Hosts in the order of a Slurm hostlist.
#[derive(Debug, Clone)]
pub(crate) struct Hostlist(pub(crate) Vec<String>);

pub(crate) fn hostlist(text: &str) -> Result<Hostlist, HostlistError> {
    unfold(text).map(Hostlist)
}

impl Job {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        match self {
            Self::Register(register) => register.run(reach, output),
            Self::Start(start) => start.run(reach, output),
            Self::Phase(phase) => phase.run(reach, output),
            Self::End(end) => end.run(reach, output),
            Self::Gate(gate) => gate.run(reach, output),
            Self::Freeze(Hosts { hosts }) => {
                let hosts = hosts.clone();
                let frozen = hosts_of_job(reach, &Request::Freeze { hosts })?;
                print_report(output, &FreezeAnswer::Frozen(frozen))
            }
            Self::Thaw(Hosts { hosts }) => {
                let hosts = hosts.clone();
                let request = Request::Thaw {
                    hosts: hosts.clone(),
                };
                let thawed = hosts_of_job(reach, &request).map_err(|error| match error {
                    CliError::Refused(Refused::NothingToChange) => CliError::NotFrozen { hosts },
                    other => other,
                })?;
                print_report(output, &FreezeAnswer::Thawed(thawed))
            }
        }
    }
}

/// Freezes or thaws a job, and returns its hosts.
fn hosts_of_job(reach: &Reach, request: &Request) -> Result<Vec<String>, CliError> {
    match Coordinator::reach(reach)?.ask(request)? {
        Response::Froze { hosts } => Ok(hosts),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

/// The hosts of the job that was frozen or thawed.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum FreezeAnswer {
    Frozen(Vec<String>),
    Thawed(Vec<String>),
}

impl Report for FreezeAnswer {
    fn lay_out(&self, page: &mut Page) {
        let (done, hosts) = match self {
            Self::Frozen(hosts) => ("frozen", hosts),
            Self::Thawed(hosts) => ("thawed", hosts),
        };
        page.line(&format!("{done}: the job of {}", hosts.join(", ")));
    }
}
