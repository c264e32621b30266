//! `reweave plan`: what would mend the cluster, or what to build for a job.

mod crew;
mod explained;
mod repair;
mod request;
mod searching;
mod shard;
mod show;
mod topology;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_common::operator::Request;

use crate::Output;
use crate::ask::Reach;
use crate::error::CliError;

/// What would mend the cluster; with a subcommand, what to build for a job, whatever cluster there is
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Plan {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Which hosts to wire to which for a job, and how its traffic goes there
    Topology(Box<topology::Topology>),
    /// Other routes at once, when something of a topology fails
    Repair(repair::Repair),
    /// Which servers and circuits each job of a shared cluster has, who waits, what is changed
    Shard(shard::Shard),
}

impl Plan {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        match &self.what {
            None => crate::show(reach, output, &Request::Plan),
            Some(What::Topology(topology)) => topology.run(output),
            Some(What::Repair(repair)) => repair.run(output),
            Some(What::Shard(shard)) => shard.run(output),
        }
    }
}
