//! `reweave plan circuits`: offers a plan with the circuits that an operator asks for.

use std::process::ExitCode;

use clap::Args;
use reweave_common::circuit::{CircuitSet, OpticalName};
use reweave_common::operator::Request;

use crate::Output;
use crate::ask::Reach;
use crate::error::CliError;
use crate::kept::Keep;

/// Plan circuits of optical switches and the routes that go with them
///
/// Without arguments, plans circuits that speed up the current traffic. The plan is checked and shown; `reweave apply`
/// applies it while jobs run.
#[derive(Debug, Args)]
pub(crate) struct Circuits {
    /// All circuits of an optical switch, such as ocs0=1-9,2-10; ocs0= is none. Switches not listed stay unchanged
    #[arg(value_name = "SWITCH=CIRCUITS", value_parser = wish)]
    wishes: Vec<(OpticalName, CircuitSet)>,
    #[command(flatten)]
    keep: Keep,
}

impl Circuits {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let circuits = self.wishes.iter().cloned().collect();
        crate::show_and_keep(reach, output, &Request::Rewire { circuits }, &self.keep)
    }
}

fn wish(text: &str) -> Result<(OpticalName, CircuitSet), String> {
    let parts = text.split_once('=');
    let (name, circuits) = parts.ok_or("write it as SWITCH=CIRCUITS, such as ocs0=1-9,2-10")?;
    let circuits = CircuitSet::from_text(circuits).map_err(|error| error.to_string())?;
    Ok((OpticalName(name.to_owned()), circuits))
}
