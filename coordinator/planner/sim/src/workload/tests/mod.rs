use std::time::Duration;

use reweave_common::explicit_paths::{ExplicitPaths, GroupRing, NodePath};
use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, Rank};
use reweave_common::iteration::{Iteration, IterationBuilder, Operation, TaskId, TaskWork};
use reweave_common::units::{Bytes, Rate};
use reweave_repair::paths::ecmp::Ecmp;

use super::*;
use crate::engine::SimTime;
use crate::engine::network::Costs;

mod algorithms;
mod bounds;
mod breakdown;
mod candidates;
mod effects;
mod jobs;
mod losses;
mod networks;
mod operators;
mod packets;
mod presets;
mod rails;
mod records;

const MAX_SIMULATION_WORK: u64 = 1 << 40;

fn ideal(hosts: usize, gbps: u32) -> Fabric {
    fabric(&format!(
        "kind = \"ideal\"\nhosts = {hosts}\nnic_gbps = {gbps}"
    ))
}

fn fabric(text: &str) -> Fabric {
    Fabric::parse("fabric.toml", text).unwrap()
}

fn hosts(fabric: &Fabric) -> Vec<NodeId> {
    fabric.endpoints().collect()
}

/// Wires carry payload only, so that figures are round.
fn bare() -> Settings {
    Settings {
        costs: Costs::default(),
        ..Settings::default()
    }
}

fn rank(index: usize) -> Rank {
    Rank::from_index(index)
}

/// Iterations by few words.
struct Sketch(IterationBuilder);

impl Sketch {
    fn of(ranks: usize) -> Self {
        Self(IterationBuilder::new(ranks))
    }

    fn add(&mut self, name: &str, work: TaskWork, after: &[TaskId]) -> TaskId {
        let name = self.0.name(name);
        let task = self.0.add(name, work);
        after.iter().for_each(|&before| self.0.then(before, task));
        task
    }

    fn compute(&mut self, at: usize, ms: u64, after: &[TaskId]) -> TaskId {
        let work = TaskWork::Compute {
            rank: rank(at),
            time: Duration::from_millis(ms),
        };
        self.add("compute", work, after)
    }

    fn transfer(&mut self, [from, to]: [usize; 2], bytes: u64, after: &[TaskId]) -> TaskId {
        let work = TaskWork::Transfer {
            from: rank(from),
            to: rank(to),
            bytes: Bytes::new(bytes),
        };
        self.add("transfer", work, after)
    }

    fn all(&mut self, operation: Operation, bytes: u64, after: &[TaskId]) -> TaskId {
        let ranks: Vec<_> = (0..self.0.ranks()).map(rank).collect();
        let group = self.0.group(&ranks);
        let work = TaskWork::Collective {
            operation,
            group,
            bytes: Bytes::new(bytes),
            local: Duration::ZERO,
        };
        self.add(operation.name(), work, after)
    }

    fn done(self) -> Iteration {
        self.0.build().unwrap()
    }
}

fn evaluated(iteration: &Iteration, fabric: &Fabric, settings: Settings) -> Evaluation {
    let (placement, carriage) = (hosts(fabric), ExplicitPaths::default());
    let network = Network::new(fabric, &placement, &carriage, settings);
    evaluate(iteration, &network, MAX_SIMULATION_WORK, &mut |_| true).unwrap()
}

#[track_caller]
fn near(value: f64, expected: f64) {
    let error = (value - expected).abs() / expected.abs().max(1e-12);
    assert!(error < 1e-6, "{value} is not {expected}");
}
