//! `reweave plan drain`: puts routes on offer by which some links carry nothing.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::Request;

use crate::Output;
use crate::ask::Reach;
use crate::error::CliError;
use crate::kept::Keep;

/// Which links and switches shall carry nothing, and no others; with --none, none any more
///
/// It is judged, shown, and carried out by `reweave apply`, while jobs run.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// All links that shall carry nothing, such as leaf0-spine1; a switch or an optical switch for all of its own
    #[arg(required_unless_present = "none", value_name = "LINK|NODE")]
    links: Vec<String>,
    /// All links carry again what the network sends over them by itself
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
