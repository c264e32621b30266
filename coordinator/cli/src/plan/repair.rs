//! `reweave plan repair`: other routes at once, when something of a topology fails.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use reweave_common::ids::Rank;
use reweave_planner::topology::{
    self, Design, Failed, Job, Pair, Proposal, Wiring, candidates::Family, pair,
};
use serde::{Deserialize, Serialize};

use super::crew::Cores;
use super::show::{Asked, Degrees, Patched};
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
    /// What has failed: a link as in h0-h1, the port of h0 at it as in h0:h1, a host as in h0, or a panel
    /// as in panel0; may be repeated
    #[arg(long, required = true, value_name = "WHAT")]
    failed: Vec<String>,
}

/// What is read of a plan.
#[derive(Debug, Deserialize)]
struct Plan {
    links: Vec<Pair>,
    rings: Vec<Vec<u32>>,
    #[serde(default)]
    splits: Vec<Vec<u32>>,
    #[serde(default)]
    patches: Vec<Patched>,
    parallelism: Option<Degrees>,
    asked: Asked,
}

#[derive(Debug, Serialize)]
struct Answer {
    failed: Vec<String>,
    before_ms: f64,
    iteration_ms: f64,
    /// With other circuits too.
    rewired: Rewired,
    /// How long it took to find the routes.
    planning_ms: f64,
    /// Hosts that need another table.
    changed: Vec<String>,
}

/// What is better when there is time to move fibres.
#[derive(Debug, Serialize)]
struct Rewired {
    iteration_ms: f64,
    links: Vec<Pair>,
    /// Of these links, those that are there already.
    kept: usize,
}

impl Rewired {
    /// Hosts of the proposal are numbered without those that failed.
    fn of(proposal: &Proposal, names: &[u32], before: &[Pair]) -> Self {
        let pairs = proposal.design.wiring.pairs().into_iter();
        let links: Vec<_> = pairs
            .map(|[a, b]| pair(names[a as usize], names[b as usize]))
            .collect();
        Self {
            iteration_ms: proposal.evaluation.iteration_ms,
            kept: links.iter().filter(|link| before.contains(link)).count(),
            links,
        }
    }
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
        let rewired = topology::rewire(&design, &job, &request, &failed, &Cores);
        let (rewired, names) = rewired.map_err(CliError::Topology)?;
        Ok(Answer {
            failed: self.failed.clone(),
            before_ms: ms(&whole).map_err(CliError::Topology)?,
            iteration_ms: ms(&repaired).map_err(CliError::Topology)?,
            rewired: Rewired::of(&rewired, &names, &plan.links),
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
            patches: self.patches.iter().map(|it| it.patch()).collect(),
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
        if let Some(panel) = name.strip_prefix("panel") {
            let on = |nth: &usize| self.patches.iter().any(|it| it.patch().panel == *nth);
            let panel = panel.parse().ok().filter(on);
            return panel
                .map(Failed::Panel)
                .ok_or_else(|| CliError::NoSuchPanel {
                    name: name.to_owned(),
                });
        }
        if let Some((of, towards)) = name.split_once(':') {
            let [of, towards] = [ports.host(of)?, ports.host(towards)?];
            self.laid(pair(of, towards), name)?;
            return Ok(Failed::Port { of, towards });
        }
        if !name.contains('-') {
            return ports.host(name).map(Failed::Host);
        }
        self.laid(ports.cable(name)?, name).map(Failed::Cable)
    }

    fn laid(&self, cable: Pair, name: &str) -> Result<Pair, CliError> {
        match self.links.contains(&cable) {
            true => Ok(cable),
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
        "  with other circuits too it would take {:.2} ms; {} of their {} links are there already",
        answer.rewired.iteration_ms,
        answer.rewired.kept,
        answer.rewired.links.len()
    ));
}
