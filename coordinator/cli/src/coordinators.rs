//! `reweave cluster member`: who the coordinators are, and how that changes while they run.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Subcommand;
use reweave_common::operator::{CoordinatorStatus, MemberOrder, Request, Response};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::show;
use crate::{Output, print};

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
struct Answer<'a> {
    coordinators: &'a [CoordinatorStatus],
}

impl Coordinators {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        let coordinators = match coordinator.ask(&self.request())? {
            Response::Coordinators(coordinators) => coordinators,
            Response::Refused(refused) => return Err(CliError::Refused(refused)),
            other => return Err(CliError::unexpected(&other)),
        };
        let answer = Answer {
            coordinators: &coordinators,
        };
        print(output, &answer, |page| {
            show::members(page, &coordinators);
            self.hint(page, &coordinators);
        })
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

    /// What is to be done next.
    fn hint(&self, page: &mut Page, coordinators: &[CoordinatorStatus]) {
        let newest = coordinators.iter().max_by_key(|one| one.number);
        let (Self::Add { .. } | Self::Replace { .. }, Some(newest)) = (self, newest) else {
            return;
        };
        page.line(&format!(
            "\nstart {} with an empty data folder and these [[member]]s in its settings; it \
             becomes a voter once it has caught up",
            newest.name
        ));
    }
}
