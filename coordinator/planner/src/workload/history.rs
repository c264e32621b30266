//! What if: traffic that was, on another fabric, with other ways, or between other hosts.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{IterationBuilder, IterationError, Work};
use reweave_common::units::Bytes;

use super::lowering::{SimulationError, simulate};
use super::network::Network;
use crate::sim::SimTime;

/// A flow that was seen. Its ends are counted as ranks are, so that a placement says where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Since the beginning of the time span.
    pub at: Duration,
    pub from: Rank,
    pub to: Rank,
    pub bytes: Bytes,
}

/// How the same flows fare.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// By flow, how long it takes.
    pub times: Vec<SimTime>,
    /// When the last of them has ended.
    pub end: SimTime,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ReplayError {
    Flows(IterationError),
    Simulation(SimulationError),
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flows(error) => error.fmt(f),
            Self::Simulation(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Plays flows that were seen between `ranks` ends. More than `limit` units of work is an error.
pub fn replay(
    ranks: usize,
    seen: &[Seen],
    network: &Network<'_>,
    limit: u64,
) -> Result<Replayed, ReplayError> {
    let mut builder = IterationBuilder::new(ranks);
    let (waiting, name) = (builder.name("waiting"), builder.name("flow"));
    let mut flows = Vec::with_capacity(seen.len());
    for &Seen {
        at,
        from,
        to,
        bytes,
    } in seen
    {
        let begins = builder.add(waiting, Work::Delay { time: at });
        let flow = builder.add(name, Work::Transfer { from, to, bytes });
        builder.then(begins, flow);
        flows.push(flow);
    }
    let iteration = builder.build().map_err(ReplayError::Flows)?;
    let timeline = simulate(&iteration, network, limit).map_err(ReplayError::Simulation)?;
    let time = |flow: &reweave_common::iteration::TaskId| {
        timeline.finish[flow.index()].since(timeline.ready[flow.index()])
    };
    Ok(Replayed {
        times: flows.iter().map(time).collect(),
        end: timeline.end,
    })
}
