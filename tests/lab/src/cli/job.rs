//! `reweave-lab job`: a job of the scenario in a lab that is up already.

use std::io::Write;
use std::process::{Command, Stdio};

use super::Output;
use crate::conduct::Order;
use crate::enter::Visit;
use crate::error::LabError;
use crate::state::Running;

/// Run a job of the scenario in a lab that is up, until it is done or Ctrl-C
///
/// Exits with 0 when no session was broken. With `--output json` it prints a line when the job
/// begins, four a second while it runs, and a last one with its report.
#[derive(Debug, clap::Args)]
pub struct Job {
    /// The lab; needed only when several are running
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// The job's name
    job: String,
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Job {
    pub fn run(self) -> Result<u8, LabError> {
        let lab = Running::find(self.lab.as_deref())?;
        let (record, visit) = Visit::prepare(&lab)?;
        let jobs = record.source.scenario()?.jobs;
        let Some(job) = jobs.iter().position(|job| job.name == self.job) else {
            return Err(LabError::NoSuchJob {
                name: self.job,
                lab: lab.name,
                jobs: jobs.into_iter().map(|job| job.name).collect(),
            });
        };
        let order = Order {
            source: record.source,
            job,
            output: self.output,
        };
        let visit = visit.enter()?;
        // /proc is the lab's by now, and this process is not in it; the conductor will be.
        let mut conductor = visit.start(conductor(), "reweave-lab")?;
        if let Some(mut stdin) = conductor.stdin.take() {
            // A conductor that cannot read it says why it ends.
            let _ = stdin.write_all(order.to_line().as_bytes());
        }
        visit.attend(conductor)
    }
}

/// This program again, as it will be found inside the lab.
fn conductor() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("conduct").stdin(Stdio::piped());
    command
}
