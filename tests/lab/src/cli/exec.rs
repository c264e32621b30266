//! `reweave-lab exec`: a program inside a host.

use crate::enter::run_in_node;
use crate::error::LabError;
use crate::state::Running;

/// Run a program inside a host or switch of a running lab
#[derive(Debug, clap::Args)]
pub struct Exec {
    /// The lab; needed only when several are running
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// The host or switch, such as h0 or leaf1
    host: String,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Exec {
    pub fn run(self) -> Result<u8, LabError> {
        let lab = Running::find(self.lab.as_deref())?;
        // clap gives at least one word.
        let (program, arguments) = self.command.split_first().unwrap_or((&self.host, &[]));
        run_in_node(&lab, &self.host, program, arguments)
    }
}
