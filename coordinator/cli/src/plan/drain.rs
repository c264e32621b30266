//! `reweave plan drain`: offers a plan with routes that avoid the drained links.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::Request;

use crate::Output;
use crate::ask::Reach;
use crate::error::CliError;
use crate::kept::Keep;

/// Set the drained links and switches; with --none, none
///
/// The list is complete: links that are not listed carry traffic again. The plan is checked and shown; `reweave apply`
/// applies it while jobs run.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// All links to drain, such as leaf0-spine1; a switch or an optical switch stands for all its links
    #[arg(required_unless_present = "none", value_name = "LINK|NODE")]
    links: Vec<String>,
    /// Drain no link: all links carry their regular traffic again
    #[arg(long, conflicts_with = "links")]
    none: bool,
    #[command(flatten)]
    keep: Keep,
}

impl Drain {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let links = self.links.clone();
        crate::show_and_keep(reach, output, &Request::Drain { links }, &self.keep)
    }
}
