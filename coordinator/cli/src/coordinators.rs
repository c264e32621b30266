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
    /// Who they are, who leads, who is missed, and how far each is
    List,
    /// Let one more take part: it learns first, and votes when it has caught up
    Add {
        /// As in its certificate
        name: String,
        /// Where it will listen
        #[arg(value_name = "ADDRESS:PORT")]
        address: SocketAddr,
    },
    /// Take one out for good; refused where too few would be left to decide anything
    Remove {
        /// Its name or number
        #[arg(value_name = "NAME")]
        who: String,
    },
    /// Put another in the place of one that is dead, or whose folder is lost: it learns first, and
    /// votes in that one's place when it has caught up
    Replace {
        /// The old one's name or number
        #[arg(value_name = "NAME")]
        who: String,
        /// The new one's name, as in its certificate [default: the old one's]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        /// Where the new one will listen [default: where the old one did]
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
            "\nstart {} with an empty folder and these [[member]]s in its file; it votes by itself \
             when it has caught up",
            newest.name
        ));
    }
}
