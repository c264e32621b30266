//! `reweave plan topology`: circuits and routes for a job.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_common::ids::NodeId;
use reweave_common::units::Rate;
use reweave_planner::topology::{self, Limits, Request};

use super::show;
use crate::error::CliError;
use crate::sim::MOST_WORK;
use crate::sim::replay::rate;
use crate::work::Source;
use crate::{Output, print};

/// Which hosts to wire to which for a job, and how its traffic goes there
#[derive(Debug, Args)]
pub(crate) struct Topology {
    /// The job file: a preset, or operators with their profile
    #[arg(long)]
    job: PathBuf,
    /// How many hosts the job has, called h0, h1, ...
    #[arg(long, value_name = "N")]
    hosts: usize,
    /// How many ports of a host are for its circuits
    #[arg(long, value_name = "D")]
    degree: usize,
    /// The rate of a port
    #[arg(long, value_name = "B", value_parser = rate)]
    gbps: Rate,
    /// Another seed may find another topology that is as good
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Also what was weighed, the length of ways and the load of links
    #[arg(long)]
    explain: bool,
}

impl Topology {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let source = Source::read(&self.job)?;
        let work = source.work((0..self.hosts).map(NodeId::from_index).collect())?;
        let place: Vec<_> = work
            .placement
            .iter()
            .map(|host| host.index() as u32)
            .collect();
        let job = topology::Job {
            iteration: &work.iteration,
            place: &place,
            settings: &work.settings,
        };
        let request = Request {
            limits: Limits::plain(self.hosts, self.degree),
            degree: self.degree,
            rate: self.gbps,
            seed: self.seed,
            work: MOST_WORK,
        };
        let proposal = topology::plan(&job, &request).map_err(CliError::Topology)?;
        let answer = show::Answer::new(&proposal, self.explain);
        print(output, &answer, |page| show::proposal(page, &answer))
    }
}
