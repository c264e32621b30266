//! `reweave plan topology`: circuits, routes and the spread of a job.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reweave_common::ids::NodeId;
use reweave_common::timings::Timings;
use reweave_common::units::Bytes;
use reweave_planner::parallel::{Help, Progress, operators, others, presets, together};
use reweave_planner::topology::prices::{Bill, PUBLISHED};
use reweave_planner::topology::{self, Job, Proposal, Request, TopologyError, picture};
use reweave_planner::workload::Settings;
use reweave_planner::workload::job::PresetJob;
use reweave_planner::workload::job::operators::Model;

use super::crew::Cores;
use super::explained::{Explained, Market, Other};
use super::prices;
use super::request::Ports;
use super::searching::Searching;
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
    /// How many ways to split operators are simulated at most in each turn
    #[arg(long, value_name = "N")]
    tries: Option<u32>,
    /// After so long, the best that is known by then is the answer
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    within_s: Option<u32>,
    /// Also what was weighed, the length of ways, the load of links, ways around each link
    #[arg(long)]
    explain: bool,
    /// What parts cost, for --explain: a file with transceiver, switch_port, panel_port, optical_port,
    /// and if need be card_port and fibre; what is published when left out
    #[arg(long, value_name = "PRICES.toml", requires = "explain")]
    prices: Option<PathBuf>,
    /// Draw the topology into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the topology for Graphviz into this file
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
}

impl Topology {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let source = Source::read(&self.job)?;
        let request = Request {
            interval: true,
            ..self.ports.request()?
        };
        let bill = self.bill(&request)?;
        let found = self.propose(&source, &request, &bill)?;
        self.draw(&found.proposal)?;
        let asked = Asked {
            job: self.job.clone(),
            ports: self.ports.clone(),
        };
        let explained = match self.explain {
            true => Some(self.explained(&found, &request, bill)?),
            false => None,
        };
        let answer = Answer::new(&found.proposal, found.spread, asked, explained);
        print(output, &answer, |page| show::proposal(page, &answer))
    }

    /// What the job's ports cost, wired in one way or another.
    fn bill(&self, request: &Request) -> Result<Bill, CliError> {
        let ports = request.degree * request.limits.hosts();
        let prices = self.prices.as_deref().map(prices::read).transpose()?;
        Ok(prices.map_or(PUBLISHED, |prices| prices.bill(ports)))
    }

    fn explained(
        &self,
        found: &Found,
        request: &Request,
        bill: Bill,
    ) -> Result<Explained, CliError> {
        let job = Job {
            iteration: &found.work.iteration,
            place: &place(&found.work),
            settings: &found.work.settings,
        };
        let market = Market {
            others: found.others.clone(),
            priced: self.prices.is_some(),
            bill,
        };
        let explained = Explained::of(&found.proposal, &job, request, market);
        explained.map_err(CliError::Topology)
    }

    fn propose(&self, source: &Source, request: &Request, bill: &Bill) -> Result<Found, CliError> {
        match &source.kind {
            Kind::Operators {
                model,
                timings,
                choices,
            } if !self.keep => {
                let settings = Settings {
                    choices: choices.clone(),
                    ..Settings::default()
                };
                self.split(source, (model, timings), &settings, (request, bill))
            }
            Kind::Preset(job) if !self.keep => self.spread(source, job, (request, bill)),
            _ => {
                let work = source.work(hosts(self.ports.hosts))?;
                Ok(Found {
                    proposal: plan(&work, request)?,
                    spread: Spread::default(),
                    others: self.as_given(&work, request, bill)?,
                    work,
                })
            }
        }
    }

    /// Operators go to servers of their own choice.
    fn split(
        &self,
        source: &Source,
        (model, timings): (&Model, &Timings),
        settings: &Settings,
        (request, bill): (&Request, &Bill),
    ) -> Result<Found, CliError> {
        let search = operators::Search {
            model,
            timings,
            servers: self.ports.hosts,
            memory: self.ports.memory()?,
            seed: self.ports.seed,
            tries: self.tries,
        };
        let start = model.data_parallel(timings, self.ports.hosts);
        let start = start.map_err(|error| source.bad_operators(error))?;
        let start = search.with_room(start);
        let start = start.map_err(|crowded| CliError::Topology(TopologyError::Crowded(crowded)))?;
        let progress = self.searching();
        let go_on = |it: &_| progress.go_on(it);
        let found = together::search(&search, start, settings, request, help(&go_on));
        let found = found.map_err(CliError::Topology)?;
        let terms = (request, bill.times(bill.fat_tree));
        let others = self
            .others(|| others::at_their_best(&search, &found.deal, settings, terms, help(&go_on)));
        progress.end();
        Ok(Found {
            others: of_each(others?, |_| None),
            spread: Spread::of_operators(model, &found),
            work: source.split(hosts(self.ports.hosts), &found.deal)?,
            proposal: found.proposal,
        })
    }

    /// A preset is spread anew over all processors.
    fn spread(
        &self,
        source: &Source,
        job: &PresetJob,
        (request, bill): (&Request, &Bill),
    ) -> Result<Found, CliError> {
        let own = Bytes::new(job.preset.gpu.memory_gb * 1_000_000_000);
        let memory = self.ports.memory()?.unwrap_or(own);
        let search = presets::Search::new(&job.preset, self.ports.hosts, Some(memory));
        let start = search.start().map_err(CliError::Topology)?;
        let settings = Settings {
            inside: job.inside,
            choices: job.choices.clone(),
            ..Settings::default()
        };
        let progress = self.searching();
        let go_on = |it: &_| progress.go_on(it);
        let found = together::search(&search, start, &settings, request, help(&go_on));
        let found = found.map_err(CliError::Topology)?;
        let terms = (request, bill.times(bill.fat_tree));
        let others = self
            .others(|| others::at_their_best(&search, &found.deal, &settings, terms, help(&go_on)));
        progress.end();
        Ok(Found {
            others: of_each(others?, |deal| Some(presets::Words(*deal).to_string())),
            spread: Spread::of_preset(&search, &found),
            work: source.spread(hosts(self.ports.hosts), found.deal)?,
            proposal: found.proposal,
        })
    }

    /// What else could be built, where somebody asks.
    fn others<D>(
        &self,
        find: impl FnOnce() -> Result<Vec<others::Other<D>>, TopologyError>,
    ) -> Result<Vec<others::Other<D>>, CliError> {
        match self.explain {
            true => find().map_err(CliError::Topology),
            false => Ok(Vec::new()),
        }
    }

    /// The same for a job that stays as its file spreads it.
    fn as_given(
        &self,
        work: &Work,
        request: &Request,
        bill: &Bill,
    ) -> Result<Vec<Other>, CliError> {
        if !self.explain {
            return Ok(Vec::new());
        }
        let job = Job {
            iteration: &work.iteration,
            place: &place(work),
            settings: &work.settings,
        };
        let rivals = topology::rivals(&job, request, bill.times(bill.fat_tree), &Cores);
        let rivals = rivals.map_err(CliError::Topology)?.into_iter();
        Ok(rivals
            .map(|(rival, ms)| Other::new(rival, ms, None))
            .collect())
    }

    fn searching(&self) -> Searching {
        let within = self.within_s.map(|it| Duration::from_secs(it.into()));
        Searching::begin(within)
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

/// A proposal, and the job as it is spread for it.
struct Found {
    proposal: Proposal,
    spread: Spread,
    /// What an iteration takes elsewhere; nothing where nobody asks.
    others: Vec<Other>,
    work: Work,
}

fn of_each<D>(others: Vec<others::Other<D>>, words: impl Fn(&D) -> Option<String>) -> Vec<Other> {
    let other = |it: others::Other<D>| match it.best {
        Some((deal, ms)) => Other::new(it.rival, Some(ms), words(&deal)),
        None => Other::new(it.rival, None, None),
    };
    others.into_iter().map(other).collect()
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
    let job = Job {
        iteration: &work.iteration,
        place: &place,
        settings: &work.settings,
    };
    topology::plan_with(&job, request, &Cores).map_err(CliError::Topology)
}

fn help<'h>(go_on: &'h (dyn Fn(&Progress) -> bool + Sync)) -> Help<'h> {
    Help {
        crew: &Cores,
        go_on,
    }
}
