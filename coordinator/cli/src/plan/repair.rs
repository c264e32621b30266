//! `reweave plan repair`: other routes at once, when something of a topology fails.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use reweave_common::ids::Rank;
use reweave_planner::topology::{self, Design, Failed, Job, Pair, Wiring, candidates::Family};
use serde::{Deserialize, Serialize};

use super::show::{Asked, Degrees};
use super::topology::{hosts, place};
use crate::error::CliError;
use crate::page::Page;
use crate::sim::input;
use crate::work::{Source, Work};
use crate::{Output, print};

/// Other routes at once, when something of a topology fails
#[derive(Debug, Args)]
pub(crate) struct Repair {
    /// What `plan topology --output json` said
    plan: PathBuf,
    /// What has failed: a link as in h0-h1, or a host; may be repeated
    #[arg(long, required = true, value_name = "LINK|HOST")]
    failed: Vec<String>,
}

/// What is read of a plan.
#[derive(Debug, Deserialize)]
struct Plan {
    links: Vec<Pair>,
    rings: Vec<Vec<u32>>,
    #[serde(default)]
    splits: Vec<Vec<u32>>,
    parallelism: Option<Degrees>,
    asked: Asked,
}

#[derive(Debug, Serialize)]
struct Answer {
    failed: Vec<String>,
    before_ms: f64,
    iteration_ms: f64,
    /// With other circuits too; nothing when that would not be faster.
    rewired_ms: f64,
    /// How long it took to find the routes.
    planning_ms: f64,
    /// Hosts that need another table.
    changed: Vec<String>,
}

impl Repair {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let bad = |source| CliError::BadPlan {
            path: self.plan.clone(),
            source,
        };
        let plan: Plan = serde_json::from_str(&input::text(&self.plan)?).map_err(bad)?;
        let answer = self.answer(&plan)?;
        print(output, &answer, |page| show(page, &answer))
    }

    fn answer(&self, plan: &Plan) -> Result<Answer, CliError> {
        let (request, work) = (plan.asked.ports.request()?, plan.work()?);
        let place = place(&work);
        let job = Job {
            iteration: &work.iteration,
            place: &place,
            settings: &work.settings,
        };
        let design = plan.design();
        let failed = self.failed.iter().map(|name| plan.failed(name));
        let failed: Vec<_> = failed.collect::<Result<_, _>>()?;
        let whole = topology::repair(&design, None, &job, &[]).map_err(CliError::Topology)?;
        let began = Instant::now();
        let repaired = topology::repair(&design, Some(&whole.routes), &job, &failed);
        let planning_ms = began.elapsed().as_secs_f64() * 1e3;
        let repaired = repaired.map_err(CliError::Topology)?;
        let ms = |it: &topology::Repair| it.iteration_ms(&job, request.rate, request.work);
        let mut limits = request.clone();
        topology::without(&mut limits.limits, &design.wiring, &failed);
        let rewired = topology::plan(&job, &limits).map_err(CliError::Topology)?;
        Ok(Answer {
            failed: self.failed.clone(),
            before_ms: ms(&whole).map_err(CliError::Topology)?,
            iteration_ms: ms(&repaired).map_err(CliError::Topology)?,
            rewired_ms: rewired.evaluation.iteration_ms,
            planning_ms,
            changed: repaired
                .changed
                .iter()
                .map(|host| format!("h{host}"))
                .collect(),
        })
    }
}

impl Plan {
    fn design(&self) -> Design {
        Design {
            family: Family::Random,
            wiring: Wiring::of(self.asked.ports.hosts, self.links.iter().copied()),
            rings: self.rings.clone(),
        }
    }

    fn work(&self) -> Result<Work, CliError> {
        let source = Source::read(&self.asked.job)?;
        let hosts = hosts(self.asked.ports.hosts);
        if let Some(degrees) = self.parallelism {
            return source.spread(hosts, degrees.parallelism());
        }
        if self.splits.is_empty() {
            return source.work(hosts);
        }
        let ranks = |split: &Vec<u32>| {
            split
                .iter()
                .map(|&it| Rank::from_index(it as usize))
                .collect()
        };
        let splits: Vec<_> = self.splits.iter().map(ranks).collect();
        source.split(hosts, &splits)
    }

    fn failed(&self, name: &str) -> Result<Failed, CliError> {
        let ports = &self.asked.ports;
        if !name.contains('-') {
            return ports.host(name).map(Failed::Host);
        }
        let cable = ports.cable(name)?;
        match self.links.contains(&cable) {
            true => Ok(Failed::Cable(cable)),
            false => Err(CliError::NoSuchLink {
                name: name.to_owned(),
            }),
        }
    }
}

fn show(page: &mut Page, answer: &Answer) {
    page.heading("Other routes at once");
    page.line(&format!(
        "  without {}, an iteration takes {:.2} ms instead of {:.2} ms",
        answer.failed.join(" and "),
        answer.iteration_ms,
        answer.before_ms
    ));
    page.line(&format!(
        "  {} hosts need another table; found in {:.1} ms",
        answer.changed.len(),
        answer.planning_ms
    ));
    page.line(&format!(
        "  with other circuits too it would take {:.2} ms: `reweave plan topology` with --cut and --dead-port",
        answer.rewired_ms
    ));
}
