//! `reweave-lab run`: a scenario from beginning to end, judged by its own expectations.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Output, show};
use crate::artifacts::{self, KeptFile};
use crate::capture::{self, Capture};
use crate::error::LabError;
use crate::launch::{Inside, Launch};
use crate::run::{self, Outcome};

/// Run a scenario's jobs and faults, and check the expectations
///
/// Exits with 0 if all expectations are met, and with 1 otherwise. Records of a failed run are kept under ./artifacts.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// A scenario file
    scenario: PathBuf,
    /// Name of the lab [default: the name of the scenario]
    #[arg(long)]
    name: Option<String>,
    /// Keep what happened even when all is well
    #[arg(long)]
    keep: bool,
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Run {
    pub fn run(self) -> Result<u8, LabError> {
        let launch = Launch::prepare(&self.scenario, self.name.as_deref())?;
        if launch.scenario().jobs.is_empty() {
            return Err(LabError::NothingToRun {
                path: self.scenario,
            });
        }
        let started = Instant::now();
        launch.run(
            || {},
            |inside| self.run_inside(&launch, inside, started.elapsed()),
        )
    }

    fn run_inside(
        &self,
        launch: &Launch,
        inside: &Inside<'_>,
        bring_up: Duration,
    ) -> Result<u8, LabError> {
        let captures = capture::start_all(inside.cluster, &launch.scenario().captures)?;
        let keep = |files: Vec<KeptFile>| keep(launch, inside, &captures, files);
        let ran = run::run(inside, launch.scenario(), bring_up);
        let Outcome { mut report, logs } = ran.inspect_err(|_| {
            let _ = keep(Vec::new()).inspect_err(warn);
        })?;
        let mut kept = Ok(());
        if self.keep || !report.passed {
            let text = ("report.txt".to_owned(), report.text().into_bytes());
            kept = keep([logs, vec![text]].concat()).map(|path| report.artifacts = Some(path));
        }
        // The result is printed before the folder is removed.
        show(self.output, &report.text(), &report)?;
        let _ = kept.as_ref().inspect_err(|error| warn(error));
        Ok(u8::from(!report.passed || kept.is_err()))
    }
}

/// Keeps all there is to know, and says where.
fn keep(
    launch: &Launch,
    inside: &Inside<'_>,
    captures: &[Capture],
    files: Vec<KeptFile>,
) -> Result<PathBuf, LabError> {
    let files = [launch.files(), files].concat();
    let kept = artifacts::keep(launch.name(), inside.cluster, captures, &files)?;
    eprintln!("kept in {}", kept.display());
    Ok(kept)
}

fn warn(error: &LabError) {
    eprintln!("warning: {error}");
}
