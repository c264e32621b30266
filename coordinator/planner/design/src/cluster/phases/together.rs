//! Jobs that share links of a packet fabric: when each sends, and the gain of shifting them.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::{Iteration, IterationBuilder, IterationError, TaskId, TaskWork};
use reweave_sim::workload::candidates::{Candidate, Jobs, Judge, Seat};
use reweave_sim::workload::{Evaluation, Network, Settings, SimulationError, evaluate, simulate};
use serde::Serialize;

use super::{PeriodicDemand, Phases, Piece, shift};

/// A job on hosts of a fabric.
#[derive(Debug, Clone, Copy)]
pub struct Player<'p> {
    pub iteration: &'p Iteration,
    /// A host for each rank.
    pub placement: &'p [NodeId],
}

/// Interference of jobs, and shifts that avoid it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Together {
    /// Iteration time of each job without the others.
    pub alone_ms: Vec<f64>,
    /// When all begin at once, and when each begins by its shift; means over a few iterations.
    pub at_once_ms: Vec<f64>,
    pub shifted_ms: Vec<f64>,
    /// None if the periods have no suitable common multiple.
    pub phases: Option<Phases>,
    /// Links that more than one of them uses.
    pub shared: Vec<String>,
}

/// Number of iterations of each job that are simulated to measure interference.
const SIMULATED_ITERATIONS: u32 = 4;

/// Simulates jobs alone, at once, and shifted. Each simulation may take `limit` units of work.
pub fn together(
    fabric: &Fabric,
    players: &[Player<'_>],
    settings: &Settings,
    limit: u64,
) -> Result<Together, SimulationError> {
    let carriage = ExplicitPaths::default();
    let mut alone = Vec::new();
    for player in players {
        let network = Network::new(fabric, player.placement, &carriage, settings.clone());
        let evaluation = evaluate(player.iteration, &network, limit, &mut |_| true)?;
        let sending = sending(player.iteration, &network, limit)?;
        alone.push((evaluation, sending));
    }
    let shared = shared(&alone);
    let beats: Vec<_> = alone
        .iter()
        .map(|(of, sending)| beat(of, sending, &shared))
        .collect();
    // A full window has no room for other jobs.
    let links_gbps = vec![1.0; shared.len()];
    let phases = shift(&beats, &links_gbps);
    let played = |shifts: &[u64]| play(fabric, players, settings, limit, shifts);
    let at_once_ms = played(&vec![0; players.len()])?;
    let shifted_ms = match &phases {
        Some(phases) => played(&phases.shifts_us)?,
        None => at_once_ms.clone(),
    };
    Ok(Together {
        alone_ms: alone.iter().map(|(of, _)| of.iteration_ms).collect(),
        at_once_ms,
        shifted_ms,
        phases,
        shared,
    })
}

/// When a job sends how many bytes, in milliseconds.
type Sending = Vec<([f64; 2], f64)>;

fn sending(
    iteration: &Iteration,
    network: &Network<'_>,
    limit: u64,
) -> Result<Sending, SimulationError> {
    let timeline = simulate(iteration, network, limit)?;
    let stretch =
        |id: TaskId| [&timeline.ready, &timeline.finish].map(|at| at[id.index()].millis());
    let sent = iteration.tasks().filter_map(|(id, task)| match task.work {
        TaskWork::Transfer { bytes, .. } | TaskWork::Collective { bytes, .. } => {
            Some((stretch(id), bytes.count() as f64))
        }
        TaskWork::Compute { .. } | TaskWork::Delay { .. } => None,
    });
    Ok(sent.filter(|([from, to], _)| to > from).collect())
}

/// Lanes that several jobs use.
fn shared(alone: &[(Evaluation, Sending)]) -> Vec<String> {
    let mut users = BTreeMap::<&str, usize>::new();
    for lane in alone.iter().flat_map(|(of, _)| &of.lanes) {
        *users.entry(&lane.lane).or_default() += 1;
    }
    let shared = users.into_iter().filter(|(_, users)| *users > 1);
    shared.map(|(lane, _)| lane.to_owned()).collect()
}

/// Returns the demand of a job: the load of each lane is spread evenly over the time in which the job sends, in units
/// of full lanes.
fn beat(of: &Evaluation, sending: &Sending, shared: &[String]) -> PeriodicDemand {
    let period_us = (of.iteration_ms * 1e3).ceil().max(1.0) as u64;
    let all: f64 = sending.iter().map(|(_, bytes)| bytes).sum();
    let mut demand = BTreeMap::new();
    for (link, name) in shared.iter().enumerate() {
        let Some(lane) = of.lanes.iter().find(|lane| lane.lane == *name) else {
            continue;
        };
        let busy_ms = lane.utilization * of.iteration_ms;
        let pieces = sending.iter().map(|&([from, to], bytes)| Piece {
            from_us: (from * 1e3) as u64,
            to_us: ((to * 1e3).ceil() as u64).min(period_us),
            gbps: busy_ms * bytes / all / (to - from),
        });
        demand.insert(link, pieces.collect());
    }
    PeriodicDemand { period_us, demand }
}

/// The mean iteration of each job when it begins after its shift.
fn play(
    fabric: &Fabric,
    players: &[Player<'_>],
    settings: &Settings,
    limit: u64,
    shifts_us: &[u64],
) -> Result<Vec<f64>, SimulationError> {
    let again = |(player, &shift): (&Player<'_>, &u64)| repeated(player.iteration, shift);
    let iterations = players.iter().zip(shifts_us).map(again);
    let Ok(iterations) = iterations.collect::<Result<Vec<_>, IterationError>>() else {
        return Ok(Vec::new());
    };
    let seat = |player: &Player<'_>| Seat {
        placement: player.placement.to_vec(),
        carriage: ExplicitPaths::default(),
    };
    let mut judge = Judge::new(Jobs {
        iterations: &iterations,
        settings,
        limit,
    });
    let seats = players.iter().map(seat).collect();
    let ends = judge.times(&Candidate { fabric, seats })?;
    Ok(ends
        .iter()
        .zip(shifts_us)
        .map(|(end, &shift)| (end.millis() - shift as f64 / 1e3) / f64::from(SIMULATED_ITERATIONS))
        .collect())
}

/// Several iterations one after another, after a while.
fn repeated(iteration: &Iteration, shift_us: u64) -> Result<Iteration, IterationError> {
    let mut builder = IterationBuilder::new(iteration.ranks());
    let name = builder.name("wait");
    let wait = |time| TaskWork::Delay { time };
    let mut gate = builder.add(name, wait(Duration::from_micros(shift_us)));
    for _ in 0..SIMULATED_ITERATIONS {
        let tasks = copied(iteration, &mut builder);
        let end = builder.add(name, wait(Duration::ZERO));
        let waits = iteration.waits();
        for ((id, task), waits) in iteration.tasks().zip(waits) {
            if waits == 0 {
                builder.then(gate, tasks[id.index()]);
            }
            for next in &task.then {
                builder.then(tasks[id.index()], tasks[next.index()]);
            }
            if task.then.is_empty() {
                builder.then(tasks[id.index()], end);
            }
        }
        gate = end;
    }
    builder.build()
}

fn copied(iteration: &Iteration, builder: &mut IterationBuilder) -> Vec<TaskId> {
    let mut tasks = Vec::with_capacity(iteration.tasks().len());
    for (_, task) in iteration.tasks() {
        let name = builder.name(iteration.name(task.name));
        let work = match task.work {
            TaskWork::Collective {
                operation,
                group,
                bytes,
                local,
            } => TaskWork::Collective {
                operation,
                group: builder.group(iteration.group(group)),
                bytes,
                local,
            },
            other => other,
        };
        tasks.push(builder.add(name, work));
    }
    tasks
}
