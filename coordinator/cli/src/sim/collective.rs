//! `reweave sim collective`: time of a collective between the hosts of a fabric, and its lower bound.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, ValueEnum};
use reweave_common::iteration::Operation;
use reweave_common::units::Rate;
use reweave_sim::collectives::{
    self, Algorithm as Known, Collective, CollectiveError, bound, bus_factor,
};
use reweave_sim::engine::network::Network;
use reweave_sim::workload;
use serde::Serialize;

use super::costs::{Costs, Hashing};
use super::effort::Effort;
use super::input;
use super::progress::{self, Progress};
use crate::error::CliError;
use crate::page::{Page, micros};
use crate::report::Report;
use crate::{Output, print_report};

/// Time of a collective between the hosts of a fabric, and its lower bound
#[derive(Debug, Args)]
pub(crate) struct Exchange {
    /// Collective
    #[arg(long, value_enum)]
    op: Op,
    /// Size as nccl-tests counts: the reduced data, the result per rank, or the data that each rank sends
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    bytes: f64,
    /// Fabric file; all its hosts take part, in their order
    #[arg(long, value_name = "FABRIC")]
    fabric: PathBuf,
    /// Algorithm [default: ring; all-to-all: direct]
    #[arg(long, value_enum)]
    algorithm: Option<Algorithm>,
    /// Hosts of a group, for the hierarchical algorithm [default: the hosts behind one switch]
    #[arg(long, value_name = "HOSTS")]
    group: Option<usize>,
    #[command(flatten)]
    costs: Costs,
    #[command(flatten)]
    hashing: Hashing,
    #[command(flatten)]
    effort: Effort,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Op {
    #[value(name = "allreduce", alias = "all-reduce")]
    AllReduce,
    #[value(name = "reducescatter", alias = "reduce-scatter")]
    ReduceScatter,
    #[value(name = "allgather", alias = "all-gather")]
    AllGather,
    #[value(name = "alltoall", alias = "all-to-all")]
    AllToAll,
    Broadcast,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Algorithm {
    /// Around one ring, in the order of the hosts
    Ring,
    /// Around one ring per way that the hosts are wired
    MultiRing,
    /// Up and down two binary trees
    Tree,
    /// Recursive halving and doubling
    #[value(alias = "halving-doubling")]
    Recursive,
    /// Inside groups, between them, and inside again
    Hierarchical,
    /// All-to-all, all at once
    Direct,
    /// All-to-all in steps, each host to the next in distance
    Shifted,
    /// Spanning trees packed into the fabric, as fast as it allows
    Optimal,
    /// The fastest algorithm for the collective
    Auto,
}

#[derive(Serialize)]
struct Answer {
    time_us: f64,
    busbw_gbps: f64,
    optimum_us: f64,
    algorithm: String,
    /// Latency and start-up time, in us: the time of an empty exchange.
    latency_us: f64,
    events: u64,
    wall_ms: f64,
}

impl From<Op> for Operation {
    fn from(op: Op) -> Self {
        match op {
            Op::AllReduce => Self::AllReduce,
            Op::ReduceScatter => Self::ReduceScatter,
            Op::AllGather => Self::AllGather,
            Op::AllToAll => Self::AllToAll,
            Op::Broadcast => Self::Broadcast,
        }
    }
}

impl Exchange {
    pub(super) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let answer = self.answer();
        let answer = answer.map_err(|error| error.on(&self.fabric))?;
        print_report(output, &answer)
    }

    fn answer(&self) -> Result<Answer, CliError> {
        let began = Instant::now();
        let fabric = input::lit(&self.fabric)?;
        let network = Network::of(&fabric, self.costs.known().ok_or(CliError::NoPayload)?);
        let collective = Collective {
            fabric: &fabric,
            members: None,
            operation: self.op.into(),
            bytes: self.bytes,
        };
        let limit = self.effort.limit();
        let mut progress = Progress::begin("sends");
        let mut fastest = |collective: &Collective<'_>, algorithms: &[Known]| {
            let ecmp = self.hashing.ecmp();
            let watch = &mut |at| {
                progress.see(at);
                true
            };
            collectives::fastest(collective, algorithms, &network, &ecmp, limit, watch)
                .map_err(CliError::Collective)
        };
        let (algorithm, played) = fastest(&collective, &self.algorithms())?;
        let empty = Collective {
            bytes: 0.0,
            ..collective
        };
        let latency = fastest(&empty, &[algorithm])?.1.time;
        progress.end();
        let wire_per_byte = network.costs().wire_per_byte;
        let optimum_us = bound::optimum_us(&collective, wire_per_byte, limit);
        let time_us = played.time.micros();
        Ok(Answer {
            time_us,
            busbw_gbps: self.bus_gbps(&collective, time_us)?,
            // An algorithm with uneven shares may be faster than the bound for even shares.
            optimum_us: optimum_us.map_err(CliError::Collective)?.min(time_us),
            algorithm: algorithm.to_string(),
            latency_us: latency.micros(),
            events: played.events,
            wall_ms: progress::millis(began),
        })
    }

    fn bus_gbps(&self, collective: &Collective<'_>, time_us: f64) -> Result<f64, CliError> {
        let hosts = collective.hosts().map_err(CliError::Collective)?.len();
        let factor = bus_factor(collective.operation, hosts);
        let gbps = self.bytes * 8.0 * factor / (time_us * 1e3);
        Ok(if gbps.is_finite() { gbps } else { 0.0 })
    }

    /// Returns the algorithms to try.
    fn algorithms(&self) -> Vec<Known> {
        let group = self.group.unwrap_or(0);
        vec![match (self.algorithm, self.op) {
            (Some(Algorithm::Auto), op) => return workload::algorithms(op.into(), group),
            (None, Op::AllToAll) => Known::Direct,
            (None | Some(Algorithm::Ring), _) => Known::Ring,
            (Some(Algorithm::MultiRing), _) => Known::MultiRing,
            (Some(Algorithm::Tree), _) => Known::Tree,
            (Some(Algorithm::Recursive), _) => Known::Recursive,
            (Some(Algorithm::Hierarchical), _) => Known::Hierarchical { group },
            (Some(Algorithm::Direct), _) => Known::Direct,
            (Some(Algorithm::Shifted), _) => Known::Shifted,
            (Some(Algorithm::Optimal), _) => Known::Optimal,
        }]
    }
}

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        let row = |name: &str, figure: String| [name.to_owned(), figure];
        // An empty exchange has no share.
        let share = if self.time_us > 0.0 {
            self.optimum_us / self.time_us * 100.0
        } else {
            100.0
        };
        let rows = [
            row("takes", micros(self.time_us)),
            row("of which latency and start-up", micros(self.latency_us)),
            row(
                "cannot take less than",
                format!("{} ({share:.1} %)", micros(self.optimum_us)),
            ),
            row(
                "bus bandwidth",
                Rate::from_bits_per_s((self.busbw_gbps * 1e9) as u64).to_string(),
            ),
        ];
        page.table([&self.algorithm, ""], rows);
    }
}

/// Whether the error is in the input.
pub(crate) fn is_bad_input(error: &CollectiveError) -> bool {
    !matches!(
        error,
        CollectiveError::TooMuchWork { .. } | CollectiveError::Course(_)
    )
}
