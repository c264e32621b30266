//! `reweave plan`: plans for the cluster, or for flows and jobs from files.

mod balance;
mod circuits;
mod crew;
mod drain;
mod explained;
pub(crate) mod measured;
mod order;
mod prices;
mod probes;
mod ranks;
mod recorded;
mod repair;
mod request;
mod searching;
mod shard;
mod show;
mod summary;
mod tables;
mod topology;
pub(crate) mod tuner;
mod weights;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_common::operator::Request;

pub(crate) use recorded::Diff;

use crate::Output;
use crate::ask::Reach;
use crate::error::CliError;
use crate::exit::ExitOption;
use crate::kept::Keep;

/// Plan improvements for the cluster, or plan from files
///
/// Plan improvements for the cluster; with a subcommand, plan for flows or a job from files
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Plan {
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    exit: ExitOption,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    Create(Create),
    /// Choose flows of a table to move so that no link is fuller than necessary
    Balance(balance::Balance),
    Show(recorded::Show),
    /// The same as `reweave diff`
    #[command(hide = true)]
    Diff(recorded::Diff),
    Circuits(circuits::Circuits),
    Drain(drain::Drain),
    Weights(weights::Weights),
    Order(order::Order),
    /// Assign the hosts of a job to ranks
    Ranks(ranks::Ranks),
    /// Best algorithm and protocol per collective size, as a table for NCCL's tuner plugins
    Tuner(tuner::Tuner),
    /// Choose probe flows that cross every link in both directions, if the hash of the switches is known
    Probes(probes::Probes),
    /// Design the links between the hosts of a job, and its routes
    Topology(Box<topology::Topology>),
    /// Reroute at once when part of a topology fails
    Repair(repair::Repair),
    /// Allocate servers and circuits of a shared cluster to jobs: allocations, queue and changes
    Shard(shard::Shard),
}

/// Plan improvements for the cluster; the same as `reweave plan` by itself
#[derive(Debug, Args)]
struct Create {
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    exit: ExitOption,
}

impl Plan {
    pub(crate) fn is_of_ranks(&self) -> bool {
        matches!(self.what, Some(What::Ranks(_)))
    }

    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        match &self.what {
            None => create(reach, output, &self.keep, self.exit),
            Some(What::Create(Create { keep, exit })) => create(reach, output, keep, *exit),
            Some(What::Balance(balance)) => balance.run(output),
            Some(What::Show(show)) => show.run(reach, output),
            Some(What::Diff(diff)) => diff.run(reach, output),
            Some(What::Circuits(circuits)) => circuits.run(reach, output),
            Some(What::Drain(drain)) => drain.run(reach, output),
            Some(What::Weights(weights)) => weights.run(reach, output),
            Some(What::Order(order)) => order.run(reach, output),
            Some(What::Ranks(ranks)) => ranks.run(reach, output),
            Some(What::Tuner(tuner)) => tuner.run(reach, output),
            Some(What::Probes(probes)) => probes.run(output),
            Some(What::Topology(topology)) => topology.run(output),
            Some(What::Repair(repair)) => repair.run(output),
            Some(What::Shard(shard)) => shard.run(output),
        }
    }
}

fn create(
    reach: &Reach,
    output: Output,
    keep: &Keep,
    exit: ExitOption,
) -> Result<ExitCode, CliError> {
    let found = crate::show_found(reach, output, &Request::Plan, keep)?;
    Ok(exit.code(found))
}
