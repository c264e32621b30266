//! `reweave cluster token` and `revoke`: admit members, and revoke them.

use std::process::ExitCode;
use std::slice;
use std::time::Duration;

use clap::Args;
use reweave_common::member::{Member, UnknownRole};
use reweave_common::operator::{Request, Response};
use reweave_common::time_span::TimeSpan;
use reweave_link::{Identity, Role, join};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::duration::{self, MINUTE};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, print_report};

const MAX_LIFETIME: Duration = Duration::from_mins(15);

#[derive(Debug, Args)]
pub(crate) struct Token {
    /// Names that may join; for agents, names of fabric nodes
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Role of the members
    #[arg(long, default_value = "agent", value_parser = role)]
    role: Role,
    /// Validity of each token; a bare number is in minutes
    #[arg(long = "minutes", value_name = "TIME", default_value = "10m", value_parser = lifetime)]
    lifetime: Duration,
}

fn lifetime(text: &str) -> Result<Duration, String> {
    duration::parse(text, Some(MINUTE), [MINUTE, MAX_LIFETIME])
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Names of the members to revoke
    #[arg(value_name = "NAME")]
    name: String,
    /// Role of the members
    #[arg(long, default_value = "agent", value_parser = role)]
    role: Role,
    /// Revoke an agent of any name, such as that of a node that has left the fabric
    #[arg(long)]
    force: bool,
}

fn role(text: &str) -> Result<Role, UnknownRole> {
    text.parse()
}

/// A join token that was created.
#[derive(Debug, Serialize)]
struct Made {
    expires_in_ms: u64,
    member: String,
    token: String,
}

#[derive(Serialize)]
struct MadeTokens {
    tokens: Vec<Made>,
}

impl Report for MadeTokens {
    fn lay_out(&self, page: &mut Page) {
        let rows = self.tokens.iter();
        let rows = rows.map(|one| [one.member.clone(), one.token.clone()]);
        page.table(["for", "token; good for one join"], rows);
    }
}

impl Token {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        let identity = coordinator.identity().clone();
        let made = self.names.iter();
        let made = made.map(|name| self.make(&mut coordinator, &identity, name));
        let tokens: Vec<_> = made.collect::<Result<_, _>>()?;
        print_report(output, &MadeTokens { tokens })
    }

    /// Creates the secret here. The coordinator receives only its digest.
    fn make(
        &self,
        coordinator: &mut Coordinator,
        ours: &Identity,
        name: &str,
    ) -> Result<Made, CliError> {
        let member = Member::new(self.role, name);
        let token = join::Token::new(ours, member.clone());
        let request = Request::Invite {
            member: member.clone(),
            token: token.digest(),
            lasting: TimeSpan::from_secs(self.lifetime.as_secs()),
        };
        match coordinator.ask(&request)? {
            Response::Invited { expires_in_ms } => Ok(Made {
                member: member.to_string(),
                token: token.to_string(),
                expires_in_ms,
            }),
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }
}

#[derive(Serialize)]
struct RevokedMember {
    known: bool,
    revoked: String,
}

impl Report for RevokedMember {
    fn lay_out(&self, page: &mut Page) {
        let revoked = &self.revoked;
        page.line(&if self.known {
            format!("{revoked} is revoked; a new join token admits it again")
        } else {
            format!(
                "{revoked} is revoked, but the fabric has no node of that name: check the spelling"
            )
        });
    }
}

impl Revoke {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let member = Member::new(self.role, &self.name);
        let mut coordinator = Coordinator::reach(reach)?;
        let known = self.is_known(&mut coordinator);
        if !known && !self.force {
            let node = self.name.clone();
            return Err(CliError::NotToRevoke { node });
        }
        let revoked = match coordinator.ask(&Request::Revoke { member })? {
            Response::Revoked { member } => member.to_string(),
            Response::Refused(refused) => return Err(CliError::Refused(refused)),
            other => return Err(CliError::unexpected(&other)),
        };
        print_report(output, &RevokedMember { known, revoked })
    }

    /// Whether the name is known. Only node names can be checked, against the fabric. Without an answer, revocation goes
    /// first.
    fn is_known(&self, coordinator: &mut Coordinator) -> bool {
        let known = match self.role {
            Role::Agent => coordinator.knows(slice::from_ref(&self.name)),
            _ => Ok(()),
        };
        !matches!(known, Err(CliError::NoSuchNode { .. }))
    }
}
