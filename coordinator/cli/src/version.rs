//! `reweave cluster version`: the protocol version that all coordinators can read. It is lowered before a downgrade.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{Request, Response};
use reweave_proto::hello::PROTOCOL_VERSION;
use reweave_proto::since_version::came_with;
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, print_report};

#[derive(Debug, Args)]
pub(crate) struct Version {
    /// New version, one release lower or higher [default: print the current version]
    #[arg(value_name = "MAJOR.MINOR", value_parser = minor)]
    minor: Option<u16>,
}

fn minor(text: &str) -> Result<u16, String> {
    let minor = text.strip_prefix(&format!("{}.", PROTOCOL_VERSION.major));
    let minor = minor.and_then(|minor| minor.parse().ok());
    minor.ok_or_else(|| format!("a version has two numbers, as {PROTOCOL_VERSION} does"))
}

impl Version {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let request = Request::ClusterVersion { minor: self.minor };
        match Coordinator::reach(reach)?.ask(&request)? {
            Response::ClusterVersion { minor, lowered_by } => {
                let version = came_with(minor).to_string();
                let answer = ClusterVersionAnswer {
                    lowered_by,
                    version,
                    minor,
                };
                print_report(output, &answer)
            }
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }
}

#[derive(Serialize)]
struct ClusterVersionAnswer {
    lowered_by: Option<String>,
    version: String,
    #[serde(skip)]
    minor: u16,
}

impl Report for ClusterVersionAnswer {
    fn lay_out(&self, page: &mut Page) {
        match &self.lowered_by {
            Some(by) => page.line(&lowered(self.minor, by)),
            None => page.line(&format!("the cluster is at version {}", self.version)),
        }
    }
}

fn lowered(minor: u16, by: &str) -> String {
    let [version, next] = [minor, minor.saturating_add(1)].map(came_with);
    format!(
        "the cluster is at version {version}, lowered by {by}, until `reweave cluster version \
         {next}`; a coordinator may be downgraded to that release once the `reweave-coordinator \
         check` of that release succeeds on its machine"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_this_major_are_read() {
        assert_eq!(minor("1.0"), Ok(0));
        for wrong in ["", "1", "2.0", "1.", "1.x", "1.0.0", "0.1", "1.70000"] {
            let message = minor(wrong).unwrap_err();
            assert!(message.contains("two numbers"), "{wrong}: {message}");
        }
    }
}
