//! `reweave version`: versions of this program and of each coordinator, and the protocol that they speak.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use reweave_proto::hello::PROTOCOL_VERSION;
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::standing::{self, Leaderless, Stands};
use crate::{Output, print_report};

/// Show the versions of this program and coordinators
///
/// Versions of this program and of each coordinator, and the protocol they speak
///
/// Fails if no coordinator answers; the version of this program is printed in any case.
#[derive(Debug, Args)]
pub(crate) struct Versions {
    /// Only the version of this program, without asking a coordinator
    #[arg(long)]
    client: bool,
}

#[derive(Serialize)]
struct Answer {
    client: Client,
    coordinators: Vec<Server>,
}

#[derive(Serialize)]
struct Client {
    version: &'static str,
    /// Absent if the build did not set it.
    commit: Option<&'static str>,
    protocol: String,
}

/// Version that a coordinator reports, or that another has reported of it.
#[derive(Serialize)]
struct Server {
    name: String,
    address: SocketAddr,
    answers: bool,
    version: Option<String>,
    protocol: Option<String>,
}

impl Versions {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        if self.client {
            return show(output, Vec::new());
        }
        match ask(reach) {
            Ok(coordinators) => show(output, coordinators),
            Err(error) => {
                show(output, Vec::new())?;
                Err(error)
            }
        }
    }
}

fn ask(reach: &Reach) -> Result<Vec<Server>, CliError> {
    let answers = Coordinator::reach(reach)?.standings();
    let waited = standing::STATUS_TIMEOUT;
    let seen = Leaderless::of(&answers).ok_or(CliError::NoAnswer { waited })?;
    Ok(seen.coordinators.into_iter().map(Server::from).collect())
}

impl From<Stands> for Server {
    fn from(
        Stands {
            answers, status, ..
        }: Stands,
    ) -> Self {
        Self {
            name: status.name,
            address: status.address,
            answers,
            version: status.build,
            protocol: status.protocol,
        }
    }
}

fn show(output: Output, coordinators: Vec<Server>) -> Result<ExitCode, CliError> {
    let commit = option_env!("REWEAVE_BUILD_COMMIT");
    let answer = Answer {
        client: Client {
            version: env!("CARGO_PKG_VERSION"),
            commit: commit.filter(|commit| !commit.is_empty()),
            protocol: PROTOCOL_VERSION.to_string(),
        },
        coordinators,
    };
    print_report(output, &answer)
}

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        let client = &self.client;
        let commit = client.commit.map(|commit| format!(" (commit {commit})"));
        page.line(&format!(
            "reweave {}{}, protocol {}",
            client.version,
            commit.unwrap_or_default(),
            client.protocol
        ));
        if self.coordinators.is_empty() {
            return;
        }
        page.heading("Coordinators");
        let unknown = || "not known".to_owned();
        let rows = self.coordinators.iter().map(|one| {
            [
                one.name.clone(),
                one.address.to_string(),
                if one.answers { "yes" } else { "no" }.to_owned(),
                one.version.clone().unwrap_or_else(unknown),
                one.protocol.clone().unwrap_or_else(unknown),
            ]
        });
        page.table(["name", "address", "answers", "version", "protocol"], rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, answers: bool) -> Server {
        let known = |text: &str| answers.then(|| text.to_owned());
        Server {
            name: name.to_owned(),
            address: SocketAddr::from(([10, 0, 0, 1], 7332)),
            answers,
            version: known("0.1.0"),
            protocol: known("1.1"),
        }
    }

    fn shown(commit: Option<&'static str>, coordinators: Vec<Server>) -> String {
        let client = Client {
            version: "0.1.0",
            commit,
            protocol: "1.1".to_owned(),
        };
        let mut page = Page::default();
        let answer = Answer {
            client,
            coordinators,
        };
        answer.lay_out(&mut page);
        page.text
    }

    #[test]
    fn versions_name_each_coordinator() {
        let client = "reweave 0.1.0 (commit 1f2e), protocol 1.1\n";
        assert_eq!(shown(Some("1f2e"), Vec::new()), client);
        let text = shown(None, vec![server("c1", true), server("c2", false)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "reweave 0.1.0, protocol 1.1");
        assert_eq!(lines[4], "  c1    10.0.0.1:7332  yes      0.1.0      1.1");
        assert_eq!(
            lines[5],
            "  c2    10.0.0.1:7332  no       not known  not known"
        );
    }
}
