//! `reweave plan topology`: designs circuits, routes and parallelism for a job.

use std::fs;
use std::path::{self, Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reweave_common::ids::NodeId;
use reweave_common::timings::Timings;
use reweave_common::units::Bytes;
use reweave_design::crew::InTime;
use reweave_design::parallel::together::{Dealing, Pairing};
use reweave_design::parallel::{Help, operators, others, presets, together};
use reweave_design::topology::prices::{Bill, PUBLISHED_PRICES};
use reweave_design::topology::{self, Job, Proposal, Request, TopologyError, picture};
use reweave_sim::workload::job::operators::Model;
use reweave_sim::workload::job::preset::Parallelism;
use reweave_sim::workload::job::{PresetJob, Work};

use super::crew::Cores;
use super::explained::{Explained, Market, Other, Subject};
use super::prices;
use super::request::Ports;
use super::searching::Searching;
use super::show::{self, Answer, PlanInputs, Spread};
use super::summary::Summary;
use crate::duration::{self, SECOND};
use crate::error::CliError;
use crate::work::{Deal, Kind, Source};
use crate::{Output, print_report};

/// Design the links between the hosts of a job, and its routes
#[derive(Debug, Args)]
pub(crate) struct Topology {
    /// Job file: a preset, or operators with their profile
    #[arg(long)]
    job: PathBuf,
    #[command(flatten)]
    ports: Ports,
    /// Keep the parallelism of the job file, and spread operators over all servers
    #[arg(long)]
    keep: bool,
    /// Maximum number of operator splits simulated per turn
    #[arg(long, value_name = "N", conflicts_with = "keep")]
    tries: Option<u32>,
    /// Time limit: the best result found by then is printed; a bare number is in seconds
    #[arg(long = "within-s", value_name = "TIME", value_parser = within)]
    within: Option<Duration>,
    /// Also the alternatives, path lengths, link load, and detours around each link
    #[arg(long)]
    explain: bool,
    /// Prices for --explain: a file with transceiver, switch_port, panel_port, optical_port, and optionally card_port
    /// and fibre [default: published prices]
    #[arg(long, value_name = "PRICES.toml", requires = "explain")]
    prices: Option<PathBuf>,
    /// Draw the topology into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the topology for Graphviz into this file
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
}

fn within(text: &str) -> Result<Duration, String> {
    let range = [SECOND, Duration::from_hours(24)];
    duration::parse(text, Some(SECOND), range)
}

impl Topology {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let source = Source::read(&self.job)?;
        let request = self.ports.request()?;
        let bill = self.bill(&request)?;
        let searching = self.searching();
        let inputs = TopologyInputs {
            source: &source,
            request: &request,
            bill,
            searching: &searching,
        };
        let found = self.propose(inputs)?;
        searching.end();
        self.draw(&found.proposal)?;
        // A later repair may run in another folder.
        let job = path::absolute(&self.job).unwrap_or_else(|_| self.job.clone());
        let ports = self.ports.clone();
        let explained = if self.explain {
            Some(self.explained(inputs, &found))
        } else {
            None
        };
        let mut summary = Summary::whole(&found.proposal);
        let Spread {
            splits,
            parallelism,
            bound_ms,
            report,
        } = found.spread;
        summary.add(report);
        if !searching.in_time() {
            summary.add(vec!["the time limit ended the search early".to_owned()]);
        }
        let answer = Answer {
            summary,
            splits,
            parallelism,
            bound_ms,
            asked: PlanInputs { job, ports },
            explained,
        };
        print_report(output, &answer)
    }

    /// Returns the cost of the job's ports for each wiring. Uncountable numbers are refused later.
    fn bill(&self, request: &Request) -> Result<Bill, CliError> {
        let ports = request.degree.saturating_mul(request.limits.hosts());
        let prices = self.prices.as_deref().map(prices::read).transpose()?;
        Ok(prices.map_or(PUBLISHED_PRICES, |prices| prices.bill(ports)))
    }

    fn explained(&self, inputs: TopologyInputs<'_>, found: &ProposedTopology) -> Explained {
        let (hosts, work) = (self.ports.hosts, &found.work);
        let job = Job {
            iteration: &work.iteration,
            place: &place(work),
            settings: &work.settings,
        };
        let market = Market {
            others: found.others.clone(),
            priced: self.prices.is_some(),
            bill: inputs.bill,
        };
        let deal = show::deal(found.spread.parallelism, &found.spread.splits);
        let subject = Subject {
            proposal: &found.proposal,
            job: &job,
            request: inputs.request,
            names: &(0..hosts as u32).collect::<Vec<_>>(),
            losses: &|dead| inputs.source.losses(hosts, &deal, dead).ok(),
            in_time: &|| inputs.searching.in_time(),
        };
        Explained::of(&subject, market)
    }

    fn propose(&self, inputs: TopologyInputs<'_>) -> Result<ProposedTopology, CliError> {
        let TopologyInputs {
            source,
            request,
            bill,
            searching,
        } = inputs;
        match &source.kind {
            Kind::Operators { model, timings, .. } if !self.keep => {
                self.split(inputs, model, timings)
            }
            Kind::Preset(job) if !self.keep => self.spread(inputs, job),
            _ => {
                self.check_room(source)?;
                let work = source.work(hosts(self.ports.hosts))?;
                let mut proposal = plan(&work, request, searching)?;
                interval_of(&mut proposal, &work, request, searching)?;
                Ok(ProposedTopology {
                    proposal,
                    spread: Spread::default(),
                    others: self.as_given(&work, request, &bill, searching)?,
                    work,
                })
            }
        }
    }

    /// Checks that a kept parallelism fits into memory.
    fn check_room(&self, source: &Source) -> Result<(), CliError> {
        let checked = match &source.kind {
            Kind::Operators { model, timings, .. } => {
                let search = self.operators(model, timings)?;
                let splits = model.data_parallel(timings, self.ports.hosts);
                let splits = splits.map_err(|error| source.bad_operators(error))?;
                search.kept(splits).map(|_| ())
            }
            Kind::Preset(job) => self.presets(job)?.kept().map(|_| ()),
        };
        checked.map_err(CliError::Topology)
    }

    fn operators<'s>(
        &self,
        model: &'s Model,
        timings: &'s Timings,
    ) -> Result<operators::Search<'s>, CliError> {
        Ok(operators::Search {
            model,
            timings,
            servers: self.ports.hosts,
            memory: self.ports.memory()?,
            seed: self.ports.seed,
            tries: self.tries,
        })
    }

    fn presets(&self, job: &PresetJob) -> Result<presets::Search, CliError> {
        let own = Bytes::new(job.preset.gpu.memory_gb * 1_000_000_000);
        let memory = self.ports.memory()?.unwrap_or(own);
        let hosts = self.ports.hosts;
        Ok(presets::Search::new(&job.preset, hosts, Some(memory)))
    }

    /// Splits operators over servers that the search chooses.
    fn split(
        &self,
        inputs: TopologyInputs<'_>,
        model: &Model,
        timings: &Timings,
    ) -> Result<ProposedTopology, CliError> {
        let search = self.operators(model, timings)?;
        let start = model.data_parallel(timings, self.ports.hosts);
        let start = start.map_err(|error| inputs.source.bad_operators(error))?;
        let start = search.with_room(start);
        let start = start.map_err(|crowded| CliError::Topology(TopologyError::Crowded(crowded)))?;
        let deal = |splits: &Vec<_>| Deal::Splits(splits.clone());
        let best = self.searched(inputs, &search, start, deal)?;
        Ok(ProposedTopology {
            others: of_each(best.others, |_| None),
            spread: Spread::of_operators(model, &best.found),
            work: best.work,
            proposal: best.found.proposal,
        })
    }

    /// Searches the parallelism of a preset over all GPUs.
    fn spread(
        &self,
        inputs: TopologyInputs<'_>,
        job: &PresetJob,
    ) -> Result<ProposedTopology, CliError> {
        let search = self.presets(job)?;
        let start = search.start().map_err(CliError::Topology)?;
        let deal = |spread: &Parallelism| Deal::Spread(*spread);
        let best = self.searched(inputs, &search, start, deal)?;
        let words = |spread: &Parallelism| Some(presets::Words(*spread).to_string());
        Ok(ProposedTopology {
            others: of_each(best.others, words),
            spread: Spread::of_preset(&search, &best.found),
            work: best.work,
            proposal: best.found.proposal,
        })
    }

    /// Returns the best distribution of the job, its interval, and alternatives.
    fn searched<M: Dealing>(
        &self,
        inputs: TopologyInputs<'_>,
        model: &M,
        start: M::Deal,
        deal: impl Fn(&M::Deal) -> Deal,
    ) -> Result<Searched<M::Deal>, CliError> {
        let TopologyInputs {
            source,
            request,
            bill,
            searching,
        } = inputs;
        let settings = source.settings();
        let (go_on, in_time) = (|it: &_| searching.go_on(it), || searching.in_time());
        let help = Help {
            crew: &Cores,
            go_on: &go_on,
            in_time: &in_time,
        };
        let found = together::search(model, start, &settings, request, help);
        let mut found = found.map_err(CliError::Topology)?;
        let work = source.dealt(hosts(self.ports.hosts), &deal(&found.deal))?;
        interval_of(&mut found.proposal, &work, request, searching)?;
        let fat_tree = bill.times(bill.fat_tree);
        let others = self.others(searching, || {
            others::at_their_best(model, &found.deal, &settings, request, fat_tree, help)
        })?;
        Ok(Searched {
            found,
            work,
            others,
        })
    }

    /// Returns the alternatives if --explain asks for them.
    fn others<D>(
        &self,
        searching: &Searching,
        find: impl FnOnce() -> Result<Vec<others::Other<D>>, TopologyError>,
    ) -> Result<Vec<others::Other<D>>, CliError> {
        if self.explain && searching.in_time() {
            find().map_err(CliError::Topology)
        } else {
            Ok(Vec::new())
        }
    }

    /// Same as `searched`, for a job that keeps the parallelism of its file.
    fn as_given(
        &self,
        work: &Work,
        request: &Request,
        bill: &Bill,
        searching: &Searching,
    ) -> Result<Vec<Other>, CliError> {
        if !self.explain || !searching.in_time() {
            return Ok(Vec::new());
        }
        let job = Job {
            iteration: &work.iteration,
            place: &place(work),
            settings: &work.settings,
        };
        others_as_given(&job, request, bill, &|| searching.in_time())
    }

    fn searching(&self) -> Searching {
        Searching::begin(self.within)
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

/// Inputs of every step of the search.
#[derive(Clone, Copy)]
struct TopologyInputs<'i> {
    source: &'i Source,
    request: &'i Request,
    bill: Bill,
    searching: &'i Searching,
}

/// A proposal, with the job in its parallelism.
struct ProposedTopology {
    proposal: Proposal,
    spread: Spread,
    /// Iteration times on other fabrics; empty without --explain.
    others: Vec<Other>,
    work: Work,
}

/// Result of a search.
struct Searched<D> {
    found: Pairing<D>,
    work: Work,
    others: Vec<others::Other<D>>,
}

fn of_each<D>(others: Vec<others::Other<D>>, words: impl Fn(&D) -> Option<String>) -> Vec<Other> {
    others
        .into_iter()
        .map(|it| match it.best {
            Some((deal, ms)) => Other::new(it.rival, Some(ms), words(&deal)),
            None => Other::new(it.rival, None, None),
        })
        .collect()
}

/// Returns the alternatives for a job with a fixed distribution.
pub(super) fn others_as_given(
    job: &Job<'_>,
    request: &Request,
    bill: &Bill,
    in_time: InTime<'_>,
) -> Result<Vec<Other>, CliError> {
    let rivals = topology::rivals(job, request, bill.times(bill.fat_tree), &Cores, in_time);
    let rivals = rivals.map_err(CliError::Topology)?.into_iter();
    let other = |(rival, ms)| Other::new(rival, ms, None);
    Ok(rivals.map(other).collect())
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

fn plan(work: &Work, request: &Request, searching: &Searching) -> Result<Proposal, CliError> {
    let place = place(work);
    let job = Job {
        iteration: &work.iteration,
        place: &place,
        settings: &work.settings,
    };
    let found = topology::plan_until(&job, request, &Cores, &|| searching.in_time());
    found.map_err(CliError::Topology)
}

/// Returns the interval of the iteration time, if there is time to simulate it.
fn interval_of(
    proposal: &mut Proposal,
    work: &Work,
    request: &Request,
    searching: &Searching,
) -> Result<(), CliError> {
    if !searching.in_time() {
        return Ok(());
    }
    let job = Job {
        iteration: &work.iteration,
        place: &place(work),
        settings: &work.settings,
    };
    let interval = proposal.interval_of(&job, request, &mut |it| searching.weighs(it));
    interval.map_err(CliError::Topology)
}
