//! `reweave diagnose` and `reweave explain`: what is wrong, by what a cluster or a file says.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reweave_common::cause::Cause;
use reweave_common::fabric::Fabric;
use reweave_common::operator::Request;
use reweave_planner::causes::{self, Evidence, Explanation};
use serde::Serialize;

use crate::ask::Reach;
use crate::error::CliError;
use crate::page::Page;
use crate::sim::input;
use crate::{Output, print, show};

/// What is wrong, with evidence
#[derive(Debug, Args)]
pub(crate) struct Diagnose {
    /// By what this file says, in JSON, and not by what the coordinator knows
    #[arg(long, value_name = "FILE", requires = "fabric")]
    evidence: Option<PathBuf>,
    /// The fabric that the evidence is about
    #[arg(long, value_name = "FABRIC", requires = "evidence")]
    fabric: Option<PathBuf>,
}

/// Why a job is slow: its slowest collective, the slowest pair of ranks, their path, link and cause
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The job, as the evidence calls it
    job: String,
    /// What is known, in JSON
    #[arg(long, value_name = "FILE")]
    evidence: PathBuf,
    /// The fabric that the evidence is about
    #[arg(long, value_name = "FABRIC")]
    fabric: PathBuf,
}

#[derive(Serialize)]
struct Answer {
    findings: Vec<Cause>,
}

impl Diagnose {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let (Some(file), Some(fabric)) = (&self.evidence, &self.fabric) else {
            return show(reach, output, &Request::Diagnose);
        };
        let (evidence, fabric) = (read(file)?, input::fabric(fabric)?);
        let findings = causes::diagnose(&evidence, &fabric);
        let findings = findings.map_err(|source| unfit(file, source))?;
        let answer = Answer { findings };
        print(output, &answer, |page| lay_out(page, &answer.findings))
    }
}

impl Explain {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let evidence = read(&self.evidence)?;
        let fabric: Fabric = input::fabric(&self.fabric)?;
        let told = causes::explain(&evidence, &fabric, &self.job);
        let told = told.map_err(|source| unfit(&self.evidence, source))?;
        let told = told.ok_or_else(|| CliError::NoSuchJob {
            job: self.job.clone(),
            path: self.evidence.clone(),
        })?;
        print(output, &told, |page| tell(page, &told))
    }
}

fn read(file: &Path) -> Result<Evidence, CliError> {
    let evidence = serde_json::from_slice(&input::bytes(file)?);
    evidence.map_err(|source| CliError::BadEvidence {
        path: file.to_owned(),
        source,
    })
}

fn unfit(file: &Path, source: causes::EvidenceError) -> CliError {
    CliError::UnfitEvidence {
        path: file.to_owned(),
        source,
    }
}

fn lay_out(page: &mut Page, findings: &[Cause]) {
    if findings.is_empty() {
        page.line("nothing is wrong, as far as this evidence goes");
    }
    findings.iter().for_each(|cause| show::cause(page, cause));
}

fn tell(page: &mut Page, told: &Explanation) {
    let Explanation {
        ranks: [from, to],
        hosts,
        ..
    } = told;
    page.heading(&format!("job {}", told.job));
    page.line(&format!(
        "slowest collective: {}, {:.3} ms",
        told.collective, told.collective_ms
    ));
    let others = told.others_ms.map(|ms| format!(", the others {ms:.3} ms"));
    page.line(&format!(
        "slowest pair: rank {from} on {} to rank {to} on {}, {:.3} ms{}",
        hosts[0],
        hosts[1],
        told.pair_ms,
        others.unwrap_or_default()
    ));
    if !told.path.is_empty() {
        page.line(&format!("path: {}", told.path.join(" > ")));
    }
    if let Some(link) = &told.link {
        page.line(&format!("link: {link}"));
    }
    told.doubts.iter().for_each(|doubt| page.line(doubt));
    if let Some(cause) = &told.cause {
        show::cause(page, cause);
    }
}
