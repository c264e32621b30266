//! `reweave plan circuits`: puts circuits on offer that a person wants.

use std::process::ExitCode;

use clap::Args;
use reweave_common::circuit::{CircuitSet, OpticalName};
use reweave_common::operator::Request;

use crate::Output;
use crate::ask::Reach;
use crate::error::CliError;
use crate::kept::Keep;

/// Which circuits optical switches shall hold, and the routes that go with them
///
/// Without any, those that surely speed up what is sent now. It is judged, shown, and carried out by `reweave
/// apply`, while jobs run.
#[derive(Debug, Args)]
pub(crate) struct Circuits {
    /// All that an optical switch shall hold, such as ocs0=1-9,2-10; ocs0= is none. Others stay as they are
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
