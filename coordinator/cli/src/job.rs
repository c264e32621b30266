//! `reweave job`: jobs that nothing is to be changed under.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_common::operator::{Request, Response};

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::{Output, print};

#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// No plan may touch a link that its flows use, until it is thawed
    Freeze(Hosts),
    /// Plans may touch its links again
    Thaw(Hosts),
}

#[derive(Debug, Args)]
pub(crate) struct Hosts {
    /// One host stands for the job that it works for now; several are all of its hosts
    #[arg(required = true, value_name = "HOST")]
    hosts: Vec<String>,
}

impl Job {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let (request, done) = match self {
            Self::Freeze(Hosts { hosts }) => {
                let hosts = hosts.clone();
                (Request::Freeze { hosts }, "frozen")
            }
            Self::Thaw(Hosts { hosts }) => {
                let hosts = hosts.clone();
                (Request::Thaw { hosts }, "thawed")
            }
        };
        match Coordinator::reach(reach)?.ask(&request)? {
            Response::Froze { hosts } => {
                let said = serde_json::json!({ done: hosts });
                print(output, &said, |page| {
                    page.line(&format!("{done}: the job of {}", hosts.join(", ")));
                })
            }
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }
}
