//! `reweave plan topology`: circuits, routes and the spread of a job.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reweave_common::ids::NodeId;
use reweave_planner::parallel::operators::Search;
use reweave_planner::parallel::together;
use reweave_planner::topology::{self, Proposal, Request, picture};
use reweave_planner::workload::Settings;

use super::request::Ports;
use super::show::{self, Answer, Asked, Spread};
use crate::error::CliError;
use crate::work::{Kind, Source, Work};
use crate::{Output, print};

/// Which hosts to wire to which for a job, and how its traffic goes there
#[derive(Debug, Args)]
pub(crate) struct Topology {
    /// The job file: a preset, or operators with their profile
    #[arg(long)]
    job: PathBuf,
    #[command(flatten)]
    ports: Ports,
    /// Spread the model as its file says, and operators over all servers
    #[arg(long)]
    keep: bool,
    /// How many ways to spread the model are simulated at most
    #[arg(long, value_name = "N")]
    tries: Option<u32>,
    /// Also what was weighed, the length of ways, the load of links, ways around each link
    #[arg(long)]
    explain: bool,
    /// Draw the topology into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the topology for Graphviz into this file
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
}

/// Hosts times operators times these many tries are simulated when nobody says how many.
const WORK_OF_TRIES: usize = 300_000;
const MOST_TRIES: usize = 300;

impl Topology {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let source = Source::read(&self.job)?;
        let request = Request {
            interval: self.explain,
            ..self.ports.request()?
        };
        let (proposal, spread) = self.propose(&source, &request)?;
        self.draw(&proposal)?;
        let asked = Asked {
            job: self.job.clone(),
            ports: self.ports.clone(),
        };
        let answer = Answer::new(&proposal, spread, asked, self.explain);
        print(output, &answer, |page| show::proposal(page, &answer))
    }

    fn propose(&self, source: &Source, request: &Request) -> Result<(Proposal, Spread), CliError> {
        match &source.kind {
            Kind::Operators { model, timings, .. } if !self.keep => {
                let search = Search {
                    model,
                    timings,
                    servers: self.ports.hosts,
                    memory: self.ports.memory()?,
                    seed: self.ports.seed,
                    tries: self.tries(model.operators.len()),
                };
                let start = model.data_parallel(timings, self.ports.hosts);
                let start = start.map_err(|error| source.bad_operators(error))?;
                let found = together::search(&search, start, &Settings::default(), request);
                let found = found.map_err(CliError::Topology)?;
                let spread = Spread::of_operators(model, &found);
                Ok((found.proposal, spread))
            }
            _ => {
                let work = source.work(hosts(self.ports.hosts))?;
                Ok((plan(&work, request)?, Spread::default()))
            }
        }
    }

    fn tries(&self, operators: usize) -> u32 {
        let each = (self.ports.hosts * operators).max(1);
        let most = (WORK_OF_TRIES / each).clamp(20, MOST_TRIES);
        self.tries.unwrap_or(most as u32)
    }

    fn draw(&self, proposal: &Proposal) -> Result<(), CliError> {
        let write = |file: &Path, picture: String| {
            let failed = |source| CliError::Write {
                path: file.to_owned(),
                source,
            };
            fs::write(file, picture).map_err(failed)
        };
        if let Some(file) = &self.svg {
            write(file, picture::svg(&proposal.design))?;
        }
        if let Some(file) = &self.dot {
            write(file, picture::graphviz(&proposal.design))?;
        }
        Ok(())
    }
}

pub(super) fn hosts(count: usize) -> Vec<NodeId> {
    (0..count).map(NodeId::from_index).collect()
}

pub(super) fn place(work: &Work) -> Vec<u32> {
    work.placement
        .iter()
        .map(|host| host.index() as u32)
        .collect()
}

fn plan(work: &Work, request: &Request) -> Result<Proposal, CliError> {
    let place = place(work);
    let job = topology::Job {
        iteration: &work.iteration,
        place: &place,
        settings: &work.settings,
    };
    topology::plan(&job, request).map_err(CliError::Topology)
}
