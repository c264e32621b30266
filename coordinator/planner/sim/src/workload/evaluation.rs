//! The time of an iteration, its breakdown, and its lower bounds.

use reweave_common::iteration::Iteration;
use reweave_common::units::Rate;
use serde::Serialize;

use super::choice::Chosen;
use super::effects::ROUND_TRIP_US;
use super::lowering::{Lowered, SimulationError};
use super::network::Network;
use super::risks::Risk;
use super::{account, critical};
use crate::engine::{self, Outcome, Problem, Progress, SimTime, Work, loads};

/// Cost of an iteration. All times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    pub iteration_ms: f64,
    pub bounds: Bounds,
    /// Number of events of the simulation.
    pub events: u64,
    /// The mean over all ranks.
    pub mean: RankTime,
    /// By rank.
    pub ranks: Vec<RankTime>,
    /// Communication that ranks wait for while they do not compute, by name, longest first. Mean over all ranks;
    /// simultaneous waits are shared evenly.
    pub exposed: Vec<Exposed>,
    /// Critical path of the iteration, summed up by name.
    pub critical: Vec<Segment>,
    /// Algorithms of collectives, if any were requested.
    pub collectives: Vec<Chosen>,
    /// Every lane that carries something, the most used first.
    pub lanes: Vec<LaneLoad>,
}

/// No fabric of this speed and no order makes the iteration shorter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// The processor that computes longest.
    pub compute_ms: f64,
    /// The lane that carries most for its rate, without headers.
    pub communication_ms: f64,
    /// The longest chain of tasks, if each had all processors and lanes to itself.
    pub chain_ms: f64,
}

impl Bounds {
    pub fn most_ms(&self) -> f64 {
        self.compute_ms
            .max(self.communication_ms)
            .max(self.chain_ms)
    }
}

/// Breakdown of the time of one rank; the three parts add up to the iteration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct RankTime {
    pub compute_ms: f64,
    /// No computation, but communication of its own.
    pub exposed_ms: f64,
    /// Neither computation nor communication: the rank waits for others.
    pub stalled_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exposed {
    pub name: String,
    pub ms: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stretch {
    Compute,
    Communication,
    Delay,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Segment {
    pub stretch: Stretch,
    pub name: String,
    pub ms: f64,
    /// Number of tasks of this name on the path.
    pub tasks: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneLoad {
    /// `h0>leaf1`
    pub lane: String,
    pub bytes: f64,
    /// Share of the bits that it could have carried during the iteration.
    pub utilization: f64,
    /// Maximum number of simultaneous flows.
    pub flows_at_once: u32,
    /// Wait of the last flow if each has one round trip of data in flight: the queue that builds up, or is lost in a
    /// smaller buffer.
    pub queue_us: f64,
    /// The part of the iteration in which several share it, so that there is a queue.
    pub shared: f64,
    /// Absent unless requested.
    pub risk: Option<Risk>,
    #[serde(skip)]
    pub(crate) index: usize,
}

/// Simulates an iteration and gives account of its time. More than `limit` units of work is an
/// error; `watch` gets now and then how far it is, and says whether to go on.
pub fn evaluate(
    iteration: &Iteration,
    network: &Network<'_>,
    limit: u64,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Evaluation, SimulationError> {
    let lowered = Lowered::of(iteration, network)?;
    let outcome = engine::watched(&lowered.problem, limit, watch)?;
    let timeline = lowered.timeline(iteration, &outcome);
    let loads = loads(&lowered.problem);
    let (ranks, exposed) = account::of_ranks(iteration, &timeline);
    Ok(Evaluation {
        iteration_ms: timeline.end.millis(),
        bounds: Bounds {
            compute_ms: longest_computation(iteration).millis(),
            communication_ms: fullest_lane_ms(network, &lowered.problem, &loads),
            chain_ms: engine::longest_chain(&lowered.problem).millis(),
        },
        events: timeline.events,
        mean: mean(&ranks),
        ranks,
        exposed,
        critical: critical::critical_path(iteration, &timeline),
        collectives: network.chosen(),
        lanes: lane_loads(network, &lowered.problem, &loads, &outcome),
    })
}

fn longest_computation(iteration: &Iteration) -> SimTime {
    let times = iteration.compute_times().into_iter();
    let longest = times.max().unwrap_or_default();
    SimTime::from_duration(longest)
}

/// Links that are fuller than this have the queue of one this full: without a bound, theirs has none.
const MAX_QUEUE_LOAD: f64 = 0.9;

/// Returns the mean number of messages that wait before each link while several share it, as in a queue with one server
/// and equal customers.
pub(super) fn queues(problem: &Problem, outcome: &Outcome) -> Vec<f64> {
    let end = outcome.makespan().max(SimTime::from_ticks(1)).seconds();
    let sharing = sharing(problem, outcome).into_iter();
    let lanes = problem.capacities().iter().zip(loads(problem)).zip(sharing);
    let queue = |((rate, bits), sharing): ((&Rate, f64), Sharing)| {
        let full = (bits / (rate.bits_per_s() as f64 * end)).min(MAX_QUEUE_LOAD);
        sharing.time.seconds() / end * full / (1.0 - full) / 2.0
    };
    lanes.map(queue).collect()
}

fn fullest_lane_ms(network: &Network<'_>, problem: &Problem, loads: &[f64]) -> f64 {
    let wire_per_byte = network.settings.costs.wire_per_byte;
    let lanes = problem.capacities().iter().zip(loads);
    let times = lanes.map(|(rate, bits)| bits / wire_per_byte / rate.bits_per_s() as f64 * 1e3);
    times.fold(0.0, f64::max)
}

fn lane_loads(
    network: &Network<'_>,
    problem: &Problem,
    loads: &[f64],
    outcome: &Outcome,
) -> Vec<LaneLoad> {
    let (end, sharing) = (outcome.makespan(), sharing(problem, outcome));
    let lanes = problem.capacities().iter().zip(loads).enumerate();
    let used = lanes.filter(|(_, (_, bits))| **bits > 0.0);
    let mut loads: Vec<_> = used
        .map(|(lane, (rate, &bits))| LaneLoad {
            lane: network.lane_name(lane),
            bytes: bits / 8.0,
            utilization: bits / (rate.bits_per_s() as f64 * end.seconds()),
            flows_at_once: sharing[lane].most,
            queue_us: f64::from(sharing[lane].most.saturating_sub(1)) * ROUND_TRIP_US,
            shared: sharing[lane].time.seconds() / end.seconds(),
            risk: None,
            index: lane,
        })
        .collect();
    loads.sort_by(|a, b| b.utilization.total_cmp(&a.utilization));
    loads
}

/// Sharing of a link by flows.
#[derive(Debug, Clone, Copy, Default)]
struct Sharing {
    now: u32,
    /// At once.
    most: u32,
    /// Since when there are several.
    since: SimTime,
    /// Time with several flows.
    time: SimTime,
}

impl Sharing {
    fn begins(&mut self, at: SimTime) {
        self.now += 1;
        self.most = self.most.max(self.now);
        if self.now == 2 {
            self.since = at;
        }
    }

    fn ends(&mut self, at: SimTime) {
        self.now -= 1;
        if self.now == 1 {
            self.time = self.time.plus(at.since(self.since));
        }
    }
}

/// Returns the sharing of each link.
fn sharing(problem: &Problem, outcome: &Outcome) -> Vec<Sharing> {
    let mut changes = Vec::new();
    for task in 0..problem.tasks() as u32 {
        if let Work::Transfer { path, bits } = problem.work(task)
            && bits > 0.0
        {
            // Ends come before starts at the same time.
            changes.push((outcome.starts[task as usize], true, path));
            changes.push((outcome.finishes[task as usize], false, path));
        }
    }
    changes.sort_unstable();
    let mut sharing = vec![Sharing::default(); problem.capacities().len()];
    for (at, begins, path) in changes {
        for &link in problem.path(path) {
            if begins {
                sharing[link as usize].begins(at);
            } else {
                sharing[link as usize].ends(at);
            }
        }
    }
    sharing
}

fn mean(ranks: &[RankTime]) -> RankTime {
    let mean =
        |of: fn(&RankTime) -> f64| ranks.iter().map(of).sum::<f64>() / ranks.len().max(1) as f64;
    RankTime {
        compute_ms: mean(|rank| rank.compute_ms),
        exposed_ms: mean(|rank| rank.exposed_ms),
        stalled_ms: mean(|rank| rank.stalled_ms),
    }
}
