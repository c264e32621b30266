//! `reweave cluster join`: a certificate for a member that has a token.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reweave_link::join::{Token, TokenError, enter};
use serde::Serialize;
use tokio::runtime::Builder;

use crate::ask::Reach;
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, print_report};

#[derive(Debug, Args)]
pub(crate) struct Join {
    /// Token printed by `reweave cluster token`; `-` reads it from standard input
    token: String,
    /// Folder for the certificate and its key
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Join address of the coordinators [default: the port after that of --coordinator]
    #[arg(long, value_name = "ADDRESS:PORT")]
    door: Vec<SocketAddr>,
}

#[derive(Serialize)]
struct JoinedMember<'j> {
    folder: &'j Path,
    member: String,
}

impl Report for JoinedMember<'_> {
    fn lay_out(&self, page: &mut Page) {
        let (member, folder) = (&self.member, self.folder.display());
        page.line(&format!(
            "{member} has joined the cluster; its certificate is in {folder}"
        ));
    }
}

impl Join {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let token: Token = self.token()?.parse().map_err(CliError::Token)?;
        let addresses = match self.door.as_slice() {
            [] => reach.doors()?,
            doors => doors.to_vec(),
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CliError::Start)?;
        let joined = runtime.block_on(enter(&addresses, &token, &self.into));
        let member = match joined {
            Ok(identity) => identity.member().to_string(),
            Err(source) => {
                let source = Box::new(source);
                return Err(CliError::Join { source });
            }
        };
        let folder = self.into.as_path();
        print_report(output, &JoinedMember { folder, member })
    }

    /// Returns the token. On a command line every user of the machine can read it, hence `-`.
    fn token(&self) -> Result<String, CliError> {
        if self.token != "-" {
            return Ok(self.token.clone());
        }
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        read.map_err(|_| CliError::Token(TokenError::NotOne))?;
        Ok(line)
    }
}
