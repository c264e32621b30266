//! `reweave diagnose` and `reweave explain`: problems found in the cluster or in an evidence file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reweave_common::cause::Cause;
use reweave_common::fabric::Fabric;
use reweave_common::operator::{Explanation, Refused, Request, Response};
use reweave_common::units::Rate;
use reweave_repair::causes::{self, Evidence};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::exit::ExitOption;
use crate::job::{Hostlist, hostlist};
use crate::kept::Keep;
use crate::page::Page;
use crate::report::Report;
use crate::sim::input;
use crate::voice::print_note;
use crate::{Output, json, print_report, show, show_found};

/// Diagnose what is wrong, with evidence
#[derive(Debug, Args)]
pub(crate) struct Diagnose {
    /// Read evidence from this JSON file instead of the coordinator
    #[arg(long, value_name = "FILE", requires = "fabric")]
    evidence: Option<PathBuf>,
    /// Fabric file of the evidence
    #[arg(long, value_name = "FABRIC", requires = "evidence")]
    fabric: Option<PathBuf>,
    #[command(flatten)]
    exit: ExitOption,
}

/// Explain why a job is slow
///
/// Why a job is slow: its slowest collective, the slowest pair of ranks, their path, link and cause
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Name of the job: as registered, or as --hosts or --evidence give it; otherwise one of its hosts
    job: String,
    /// All hosts of the job as a Slurm hostlist: node[01-04,07]. Default: the hosts that exchange large flows with the
    /// named host, directly or through others
    #[arg(long, value_name = "LIST", value_parser = hostlist)]
    hosts: Vec<Hostlist>,
    /// Read evidence from this JSON file instead of the coordinator
    #[arg(
        long,
        value_name = "FILE",
        requires = "fabric",
        conflicts_with = "hosts"
    )]
    evidence: Option<PathBuf>,
    /// Fabric file of the evidence
    #[arg(long, value_name = "FABRIC", requires = "evidence")]
    fabric: Option<PathBuf>,
}

#[derive(Serialize)]
struct Answer {
    findings: Vec<Cause>,
    /// Parts of the evidence that had to be ignored, with reasons.
    doubts: Vec<String>,
}

impl Diagnose {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let (Some(file), Some(fabric)) = (&self.evidence, &self.fabric) else {
            let found = show_found(reach, output, &Request::Diagnose, &Keep::default())?;
            return Ok(self.exit.code(found));
        };
        let (evidence, fabric) = (read(file)?, input::fabric(fabric)?);
        let findings = causes::diagnose(&evidence, &fabric);
        let findings = findings.map_err(|source| unfit(file, source))?;
        let doubts = evidence.doubts(&fabric);
        doubts.iter().for_each(|doubt| print_note(doubt));
        let answer = Answer { findings, doubts };
        print_report(output, &answer)?;
        Ok(self.exit.code(!answer.findings.is_empty()))
    }
}

impl Explain {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let report = match (&self.evidence, &self.fabric) {
            (Some(file), Some(fabric)) => self.by_file(file, &input::fabric(fabric)?)?,
            _ => self.by_traffic(reach)?,
        };
        print_report(output, &report)
    }

    fn by_file(&self, file: &Path, fabric: &Fabric) -> Result<Explanation, CliError> {
        let explained = causes::explain(&read(file)?, fabric, &self.job);
        let explained = explained.map_err(|source| unfit(file, source))?;
        explained.ok_or_else(|| CliError::NoSuchJob {
            job: self.job.clone(),
            path: file.to_owned(),
        })
    }

    fn asked(&self) -> Request {
        let hosts = self.hosts.iter().flat_map(|Hostlist(hosts)| hosts);
        Request::Explain {
            job: self.job.clone(),
            hosts: hosts.cloned().collect(),
        }
    }

    fn by_traffic(&self, reach: &Reach) -> Result<Explanation, CliError> {
        match Coordinator::reach(reach)?.ask(&self.asked())? {
            Response::Explanation(Some(report)) => Ok(*report),
            Response::Explanation(None) => Err(CliError::NoTraffic {
                job: self.job.clone(),
            }),
            Response::Refused(refused) => Err(self.refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }

    /// Error for a job name that is unknown. Without hosts, the name is looked up among jobs first and among hosts
    /// last.
    fn refused(&self, refused: Refused) -> CliError {
        match refused {
            Refused::NoSuchHost { name } if name == self.job && self.hosts.is_empty() => {
                CliError::NothingToExplain { job: name }
            }
            other => CliError::Refused(other),
        }
    }
}

fn read(file: &Path) -> Result<Evidence, CliError> {
    let bytes = input::bytes(file)?;
    let bad = |source| CliError::BadEvidence {
        path: file.to_owned(),
        source,
    };
    // Serde would also accept a list with the fields in order, and an empty list.
    json::read::<Map<String, Value>>(file, &bytes, bad)?;
    json::read_whole(&bytes).map_err(bad)
}

fn unfit(file: &Path, source: causes::EvidenceError) -> CliError {
    CliError::UnfitEvidence {
        path: file.to_owned(),
        source,
    }
}

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        let Self { findings, doubts } = self;
        match (findings.is_empty(), doubts.is_empty()) {
            (true, true) => page.line("no problem found in this evidence"),
            (true, false) => {
                page.line("no cause found; part of the evidence is inconclusive");
            }
            _ => {}
        }
        findings.iter().for_each(|cause| show::cause(page, cause));
    }
}

impl Report for Explanation {
    fn lay_out(&self, page: &mut Page) {
        page.heading(&format!("job {}", self.job));
        if let Some(ms) = self.iteration_ms {
            page.line(&format!("iteration: {ms:.1} ms"));
        }
        if let (Some(collective), Some(ms)) = (&self.collective, self.collective_ms) {
            page.line(&format!("slowest collective: {collective}, {ms:.3} ms"));
        }
        page.line(&pair(self));
        if !self.path.is_empty() {
            page.line(&format!("path: {}", self.path.join(" > ")));
        }
        if let Some(link) = &self.link {
            page.line(&format!("link: {link}"));
        }
        self.doubts.iter().for_each(|doubt| page.line(doubt));
        if let Some(cause) = &self.cause {
            show::cause(page, cause);
        }
    }
}

/// Describes the slowest pair against its peers, with each figure that is known.
fn pair(explanation: &Explanation) -> String {
    let [from, to] = &explanation.hosts;
    let ends = match explanation.ranks {
        Some([first, second]) => format!("rank {first} on {from} to rank {second} on {to}"),
        None => format!("{from} to {to}"),
    };
    let beside = |own: Option<String>, others: Option<String>| {
        let others = others.map(|it| format!(" (the others {it})"));
        own.map(|it| format!(", {it}{}", others.unwrap_or_default()))
            .unwrap_or_default()
    };
    let ms = |ms: Option<f64>| ms.map(|ms| format!("{ms:.3} ms"));
    let rate = |rate: Option<Rate>| rate.map(|it| it.to_string());
    format!(
        "slowest pair: {ends}{}{}",
        beside(ms(explanation.pair_ms), ms(explanation.others_ms)),
        beside(
            rate(explanation.pair_bits_per_s),
            rate(explanation.others_bits_per_s)
        )
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct ExplainCommand {
        #[command(flatten)]
        explain: Explain,
    }

    #[test]
    fn hosts_parse_slurm_hostlist() {
        let asked = |list: &[&str]| {
            let lists = list.iter().flat_map(|list| ["--hosts", list]);
            let words = ["explain", "mine"].into_iter().chain(lists);
            let asked = ExplainCommand::try_parse_from(words)?;
            let Request::Explain { hosts, .. } = asked.explain.asked() else {
                panic!("it explains")
            };
            Ok::<_, clap::Error>(hosts)
        };
        let describe = |list: &[&str]| asked(list).unwrap().join(" ");
        assert_eq!(describe(&["h[0-2],g7"]), "h0 h1 h2 g7");
        assert_eq!(describe(&["h0,h1", "h5"]), "h0 h1 h5");
        assert_eq!(describe(&[]), "");
        let said = asked(&["h[0-"]).unwrap_err().to_string();
        assert!(said.contains("a bracket that is not closed"), "{said}");
    }
}
