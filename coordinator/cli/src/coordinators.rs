//! `reweave cluster member`: list, add, remove and replace coordinators of a running cluster.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Subcommand;
use reweave_common::operator::{CoordinatorStatus, MemberOrder, Request, Response};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, print_report, show};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Coordinators {
    /// List coordinators with leader, unreachable members and replication progress
    List,
    /// Add a coordinator: it joins as a learner and becomes a voter when it has caught up
    Add {
        /// Name in its certificate
        name: String,
        /// Address that it will listen on
        #[arg(value_name = "ADDRESS:PORT")]
        address: SocketAddr,
    },
    /// Remove a coordinator for good; refused if the rest would have no quorum
    Remove {
        /// Name or number of the coordinator
        #[arg(value_name = "NAME")]
        who: String,
    },
    /// Replace a coordinator that is dead or has lost its data folder: the new one joins as a learner and takes over
    /// the vote when it has caught up
    Replace {
        /// Name or number of the old coordinator
        #[arg(value_name = "NAME")]
        who: String,
        /// Name of the new coordinator, as in its certificate [default: the old name]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        /// Address that the new coordinator will listen on [default: the old address]
        #[arg(long, value_name = "ADDRESS:PORT")]
        at: Option<SocketAddr>,
    },
}

#[derive(Serialize)]
struct Members {
    coordinators: Vec<CoordinatorStatus>,
    /// Next step for the operator.
    #[serde(skip)]
    hint: Option<String>,
}

impl Report for Members {
    fn lay_out(&self, page: &mut Page) {
        show::members(page, &self.coordinators);
        if let Some(hint) = &self.hint {
            page.line(hint);
        }
    }

    fn lay_out_wide(&self, page: &mut Page) {
        show::wide_members(page, &self.coordinators);
    }

    fn names(&self) -> Vec<String> {
        let coordinators = self.coordinators.iter();
        coordinators.map(|one| one.name.clone()).collect()
    }
}

impl Coordinators {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        let coordinators = match coordinator.ask(&self.request())? {
            Response::Coordinators(coordinators) => coordinators,
            Response::Refused(refused) => return Err(CliError::Refused(refused)),
            other => return Err(CliError::unexpected(&other)),
        };
        let members = Members {
            hint: self.hint(&coordinators),
            coordinators,
        };
        print_report(output, &members)
    }

    fn request(&self) -> Request {
        Request::ChangeMembers(match self.clone() {
            Self::List => return Request::Coordinators,
            Self::Add { name, address } => MemberOrder::Add { name, address },
            Self::Remove { who } => MemberOrder::Remove { who },
            Self::Replace { who, by, at } => MemberOrder::Replace {
                who,
                name: by,
                address: at,
            },
        })
    }

    fn hint(&self, coordinators: &[CoordinatorStatus]) -> Option<String> {
        let newest = coordinators.iter().max_by_key(|one| one.number)?;
        let brings_one = matches!(self, Self::Add { .. } | Self::Replace { .. });
        brings_one.then(|| {
            format!(
                "\nstart {} with an empty data folder and these [[member]]s in its settings; it \
                 becomes a voter once it has caught up",
                newest.name
            )
        })
    }
}
