//! Variants of a simulation, each compared with the original.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use reweave_common::fabric::Fabric;
use reweave_common::traffic::Burst;
use reweave_history::{Covered, written};
use reweave_sim::engine::network;
use reweave_sim::sandbox::{
    Compared, Effort, JobCompared, SandboxError, Variant, VariantFile, as_seen, compare_jobs,
};
use reweave_sim::workload::job::{JobFile, Work};
use serde::Serialize;

use super::abreast::{SideBySide, Sides};
use super::measured::Lossy;
use super::progress::{self, Progress};
use super::{MAX_SIMULATION_WORK, input};
use crate::error::CliError;
use crate::voice::print_note;
use crate::{Output, document, print_data, print_report};

#[derive(Debug, Args)]
pub(super) struct Allowed {
    /// Exit with 1 if a variant takes this much longer in total than the original
    #[arg(long, value_name = "PERCENT", value_parser = percent, requires = "variants",
          allow_negative_numbers = true)]
    fail_if_slower: Option<f64>,
}

fn percent(text: &str) -> Result<f64, &'static str> {
    let percent = text.parse().ok();
    let sound = percent.filter(|it: &f64| it.is_finite() && *it >= 0.0);
    sound.ok_or("no share in percent, as 5 or 0.5")
}

/// A variant with its fabrics.
pub(super) struct Read {
    name: String,
    pub(super) variant: Variant,
    /// Job of the variant.
    pub(super) job: Option<JobFile>,
    files: [PathBuf; 2],
}

/// Originals to which variants apply.
#[derive(Clone, Copy, Default)]
pub(super) struct Base<'b> {
    /// Fabric, unless variants name it.
    pub(super) fabric: Option<&'b Path>,
    /// Name and text of a job file.
    pub(super) job: Option<[&'b str; 2]>,
    /// Recorded traffic, and the commands that moved circuits until then.
    pub(super) seen: Option<(&'b [Burst], &'b [String])>,
}

impl Base<'_> {
    pub(super) fn read_all(self, paths: &[PathBuf]) -> Result<Vec<Read>, CliError> {
        paths.iter().map(|path| self.read(path)).collect()
    }

    /// Reads a variant and its fabric files, which lie in the same folder.
    fn read(self, path: &Path) -> Result<Read, CliError> {
        let (name, text) = (path.display().to_string(), input::text(path)?);
        let mut file = VariantFile::parse(&name, &text).map_err(CliError::Input)?;
        let beside = |name| path.parent().unwrap_or(Path::new("")).join(name);
        let recorded = match self.fabric {
            Some(fabric) => fabric.to_owned(),
            None => beside(file.recorded().map_err(CliError::Input)?),
        };
        let other = file.fabric().map_or_else(|| recorded.clone(), beside);
        let changed = self.job.map(|[name, text]| file.job(name, text));
        let job = changed.transpose().map_err(CliError::Input)?.flatten();
        let [as_it_was, now] = self.recorded(&recorded)?;
        let fabrics = match file.fabric() {
            Some(_) => [as_it_was, input::lit(&other)?],
            None => [as_it_was, now],
        };
        let variant = file.on(fabrics).map_err(CliError::Input)?;
        Ok(Read {
            name,
            variant,
            job,
            files: [recorded, other],
        })
    }

    /// Returns the recorded fabric at the beginning and at the end.
    fn recorded(self, path: &Path) -> Result<[Fabric; 2], CliError> {
        let fabric = input::fabric(path)?;
        let (bursts, moved) = self.seen.unwrap_or_default();
        Ok(as_seen(&fabric, moved, bursts))
    }
}

/// Outcome of a simulation with a variant.
#[derive(Debug, Serialize)]
pub(super) struct Answer<C> {
    pub(super) name: String,
    /// Period of the history that was replayed.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) stretch: Option<Stretch>,
    /// Increase of the total time in percent; negative if the variant is faster.
    pub(super) slower_percent: f64,
    #[serde(flatten)]
    pub(super) compared: C,
    wall_ms: f64,
}

/// A period of the history.
#[derive(Debug, Serialize)]
pub(super) struct Stretch {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) resolution: String,
    /// Times in the period for which records exist.
    pub(super) covered: Vec<Part>,
    pub(super) covered_percent: f64,
    /// Links of the recorded fabric with loss, by probes and ports.
    pub(super) lossy: Vec<Lossy>,
}

/// A part of the period.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    pub(super) from: String,
    pub(super) to: String,
}

impl Part {
    pub(super) fn all(covered: &Covered) -> Vec<Self> {
        let parts = covered.parts.iter().map(|part| part.map(written));
        parts.map(|[from, to]| Self { from, to }).collect()
    }
}

impl Read {
    /// Simulates original and variant with `work`. `of` is the error for input with nothing to simulate.
    pub(super) fn played<C: Sides>(
        &self,
        costs: network::Costs,
        limit: u64,
        of: &str,
        work: impl FnOnce(&mut Effort<'_>) -> Result<C, SandboxError>,
    ) -> Result<Answer<C>, CliError> {
        let began = Instant::now();
        let mut progress = Progress::begin("tasks");
        let watch = &mut |at| {
            progress.see(at);
            true
        };
        let compared = work(&mut Effort {
            costs,
            limit,
            watch,
        });
        progress.end();
        let compared = compared.map_err(|error| self.failed(error, of))?;
        Ok(Answer {
            name: self.name.clone(),
            stretch: None,
            slower_percent: compared.slower_percent(),
            compared,
            wall_ms: progress::millis(began),
        })
    }

    /// Simulates an iteration of the original job and of the variant's job.
    pub(super) fn played_job(
        &self,
        job: &Work,
        changed: Option<&Work>,
    ) -> Result<Answer<JobCompared>, CliError> {
        let works = [job, changed.unwrap_or(job)];
        let costs = network::Costs::default();
        self.played(costs, MAX_SIMULATION_WORK, "the job", |effort| {
            compare_jobs(works, &self.variant, effort)
        })
    }

    pub(super) fn path(&self) -> &Path {
        Path::new(&self.name)
    }

    fn failed(&self, error: SandboxError, of: &str) -> CliError {
        let [recorded, other] = &self.files;
        match error {
            SandboxError::NothingSent => CliError::NothingSent { of: of.to_owned() },
            SandboxError::NotInFabric { name } => CliError::NotInFabric { name }.on(other),
            SandboxError::OnePlace(error) => CliError::Input(error),
            SandboxError::AsItWas(error) => CliError::Replay(error).on(recorded),
            SandboxError::Otherwise(error) => CliError::Replay(error).on(other),
            SandboxError::JobAsItWas(error) => CliError::Simulation(error).on(recorded),
            SandboxError::JobOtherwise(error) => CliError::Simulation(error).on(other),
        }
    }
}

impl Allowed {
    /// Prints all answers, and then fails if a variant is slower than allowed.
    pub(super) fn judged<C: Sides>(
        &self,
        answers: &[Answer<C>],
        output: Output,
    ) -> Result<ExitCode, CliError> {
        print_all(output, answers)?;
        let most = self.fail_if_slower.unwrap_or(f64::INFINITY);
        let slower = answers.iter().filter(|it| it.slower_percent > most);
        let mut verdict = ExitCode::SUCCESS;
        for it in slower {
            print_note(&format!(
                "{}: {} {:.1} % longer than the original; {most} % are allowed",
                it.name,
                C::DURATION_PHRASE,
                it.slower_percent
            ));
            verdict = ExitCode::FAILURE;
        }
        Ok(verdict)
    }
}

/// Prints a single answer in full, and compares several.
fn print_all<C: Sides>(output: Output, answers: &[Answer<C>]) -> Result<(), CliError> {
    match (output, answers) {
        (Output::Table, [_, _, ..]) => {
            print_report(output, &SideBySide { variants: answers })?;
        }
        (_, [answer]) => {
            print_report(output, answer)?;
        }
        (_, answers) => {
            for answer in answers {
                print_data(&document(output, answer)?)?;
            }
        }
    }
    Ok(())
}

impl Answer<Compared> {
    pub(super) fn during(self, stretch: Stretch) -> Self {
        Self {
            stretch: Some(stretch),
            ..self
        }
    }
}
