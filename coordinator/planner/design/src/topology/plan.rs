//! The choice among candidates.

use std::cmp::Ordering;
use std::time::Duration;

use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Iteration;
use reweave_common::units::Rate;
use reweave_sim::engine::Progress;
use reweave_sim::workload::effects::{Effects, Interval, Purse, Setting};
use reweave_sim::workload::{self, Evaluation, Network, Settings};

use super::carry::{Known, MAX_SPREAD_PAIRS, Wired, carriage};
use super::demand::Demand;
use super::distances::Distances;
use super::error::TopologyError;
use super::families::{self, Design, Family};
use super::limits::Limits;
use super::wiring::{Wiring, ideal_switch};
use crate::crew::{self, Alone, Crew, InTime, NO_DEADLINE};
use crate::gain::Estimate;
use crate::routing::{self, Effort, Routes};

/// A job as the planner sees it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'j> {
    pub iteration: &'j Iteration,
    /// On which host each rank runs.
    pub place: &'j [u32],
    pub settings: &'j Settings,
}

/// Hosts, ports and limits of a topology.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub limits: Limits,
    /// Maximum number of ports of a host, working or not.
    pub degree: usize,
    pub rate: Rate,
    pub seed: u64,
    /// Units of work that one simulation may take.
    pub work: u64,
    /// Maximum forwarding rate of a host; the rate of its ports if unknown.
    pub relay: Option<Rate>,
    /// Whether to compute an interval of the iteration time.
    pub interval: bool,
}

impl Request {
    pub(super) fn effort(&self, wiring: &Wiring) -> Effort {
        let lanes = |relay: Rate| relay.gbps() / self.rate.gbps();
        Effort {
            relay: self.relay.map(lanes),
            ..Effort::for_size(wiring)
        }
    }

    /// All ports of a host together.
    pub fn whole_rate(&self) -> Rate {
        Rate::from_bits_per_s(self.rate.bits_per_s() * self.degree as u64)
    }

    /// Returns the settings of a job, with the forwarding limit of hosts.
    pub(crate) fn settings(&self, settings: &Settings) -> Settings {
        let mut settings = settings.clone();
        settings.costs.relay_rate = self.relay.or(settings.costs.relay_rate);
        settings
    }
}

/// A wiring with its routes, and what an iteration takes on it.
#[derive(Debug)]
pub struct Proposal {
    pub design: Design,
    pub fabric: Fabric,
    pub routes: Routes,
    pub carriage: ExplicitPaths,
    pub distances: Distances,
    pub evaluation: Evaluation,
    /// On one switch that gives each host all its ports' rates at one.
    pub ideal: Evaluation,
    pub interval: Option<Interval>,
    /// Lower bound over every wiring of these ports and every reduction, with this parallelism.
    pub bound_ms: f64,
    pub bandwidth_tax: f64,
    /// Number of working ports of each host, used or not.
    pub ports: Vec<usize>,
    /// The best first.
    pub lost: Vec<Lost>,
}

/// A wiring that was weighed and lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Lost {
    /// Description of the final design, including changes by limits and remaining ports.
    pub what: String,
    /// Time of the fullest lane.
    pub screened_ms: f64,
    pub mean_hops: f64,
    /// None when the screening was enough to decide.
    pub iteration_ms: Option<f64>,
}

/// Maximum number of screened candidates that are simulated.
const MAX_SIMULATED: usize = 4;
/// Number of sending pairs above which simulations are slow and the load of lanes predicts well: candidates that are
/// worse by this ratio are not simulated.
const MIN_DENSE_PAIRS: usize = 1 << 12;
const MAX_SIMULATED_DENSE: usize = 2;
const MAX_SCREENED_RATIO: f64 = 1.02;
/// Maximum relative difference of equal iteration times.
const MAX_EQUAL_DIFFERENCE: f64 = 1e-3;

/// The best topology for a job.
pub fn plan(job: &Job<'_>, request: &Request) -> Result<Proposal, TopologyError> {
    plan_with(job, request, &Alone)
}

/// The same, by as many hands as there are.
pub fn plan_with(
    job: &Job<'_>,
    request: &Request,
    crew: &dyn Crew,
) -> Result<Proposal, TopologyError> {
    plan_until(job, request, crew, NO_DEADLINE)
}

/// The best that is known when time is up, and one in any case.
pub fn plan_until(
    job: &Job<'_>,
    request: &Request,
    crew: &dyn Crew,
    in_time: InTime<'_>,
) -> Result<Proposal, TopologyError> {
    let patience = Patience {
        first: NO_DEADLINE,
        others: in_time,
        most_of_many: MAX_SIMULATED_DENSE,
    };
    Ok(plan_by(job, request, crew, patience)?.0)
}

/// Returns the best proposal by the time limit; none if there is none yet.
pub fn plan_in_time(
    job: &Job<'_>,
    request: &Request,
    crew: &dyn Crew,
    in_time: InTime<'_>,
) -> Result<Option<Proposal>, TopologyError> {
    let patience = Patience {
        first: in_time,
        others: in_time,
        most_of_many: MAX_SIMULATED_DENSE,
    };
    let found = TopologyError::unless_stopped(plan_by(job, request, crew, patience))?;
    Ok(found.map(|(proposal, _)| proposal))
}

/// The most promising topology, whenever that is known; of few pairs, the best. Says whether it is
/// that: where many pairs send, each simulation takes long, and one is enough to begin with.
pub fn plan_first(
    job: &Job<'_>,
    request: &Request,
    crew: &dyn Crew,
    in_time: InTime<'_>,
) -> Result<(Proposal, bool), TopologyError> {
    let patience = Patience {
        first: NO_DEADLINE,
        others: in_time,
        most_of_many: 1,
    };
    plan_by(job, request, crew, patience)
}

/// Time limits for the most promising candidate, and for the rest.
#[derive(Clone, Copy)]
struct Patience<'p> {
    first: InTime<'p>,
    others: InTime<'p>,
    /// Maximum number of simulated candidates if many pairs send.
    most_of_many: usize,
}

/// Also returns whether all promising candidates were simulated.
fn plan_by(
    job: &Job<'_>,
    request: &Request,
    crew: &dyn Crew,
    patience: Patience<'_>,
) -> Result<(Proposal, bool), TopologyError> {
    check(job, request)?;
    let demand = Demand::of(job.iteration, job.place, request.limits.hosts());
    let ideal = on_ideal_switch(job, request, patience.first)?;
    let (mut drafts, mut lost) = drafts_until(&demand, request, crew, patience.others)?;
    let worth = worth_simulating(&drafts, &demand, MAX_SIMULATED_DENSE);
    let simulated = worth_simulating(&drafts, &demand, patience.most_of_many);
    let rest = drafts.split_off(simulated);
    lost.splice(0..0, rest.iter().map(|draft| draft.lost(None)));
    let drafts = drafts.into_iter().enumerate().collect();
    let played = crew::each(crew, drafts, |(nth, draft): (usize, Draft)| {
        let late = draft.lost(None);
        if nth == 0 {
            return draft.play(job, &demand, request, patience.first).map(Ok);
        }
        if !(patience.others)() {
            return Ok(Err(late));
        }
        let played = draft.play(job, &demand, request, patience.others);
        Ok(TopologyError::unless_stopped(played)?.ok_or(late))
    });
    let mut best = Vec::new();
    for played in played {
        match played? {
            Ok(played) => best.push(played),
            Err(late) => lost.push(late),
        }
    }
    let best = choose(request, &demand, best, &mut lost)?;
    let proposal = best.propose(job, request, &demand, ideal, lost, patience.others)?;
    Ok((proposal, simulated == worth))
}

/// Returns the iteration time on a switch that gives each host the rate of all its ports.
fn on_ideal_switch(
    job: &Job<'_>,
    request: &Request,
    in_time: InTime<'_>,
) -> Result<Evaluation, TopologyError> {
    let switch = ideal_switch(request.limits.hosts(), request.whole_rate())?;
    let hosts: Vec<_> = switch.endpoints().collect();
    let place = job.place.iter().map(|&host| hosts[host as usize]);
    let (placement, carriage) = (place.collect::<Vec<_>>(), ExplicitPaths::default());
    let settings = request.settings(job.settings);
    let network = Network::new(&switch, &placement, &carriage, settings);
    let watch = &mut |_| in_time();
    Ok(workload::evaluate(
        job.iteration,
        &network,
        request.work,
        watch,
    )?)
}

/// Returns the number of candidates to simulate; the first is the most promising.
fn worth_simulating(drafts: &[Draft], demand: &Demand, most_of_many: usize) -> usize {
    if demand.pairs.len() < MIN_DENSE_PAIRS {
        return MAX_SIMULATED.min(drafts.len());
    }
    let nearly = |it: &&Draft| it.screened_ms <= drafts[0].screened_ms * MAX_SCREENED_RATIO;
    drafts.iter().take(most_of_many).take_while(nearly).count()
}

/// Candidates with their routes, the most promising first. None of them is simulated yet.
pub fn drafts(job: &Job<'_>, request: &Request) -> Result<Vec<Draft>, TopologyError> {
    check(job, request)?;
    let demand = Demand::of(job.iteration, job.place, request.limits.hosts());
    Ok(drafts_until(&demand, request, &Alone, NO_DEADLINE)?.0)
}

/// Includes designs that were not worth routes, or came too late for them.
fn drafts_until(
    demand: &Demand,
    request: &Request,
    crew: &dyn Crew,
    in_time: InTime<'_>,
) -> Result<(Vec<Draft>, Vec<Lost>), TopologyError> {
    let designs = families::all_with(demand, &request.limits, request.seed, crew, in_time);
    let parts = designs.first().map(|design| design.wiring.parts());
    let whole = designs.into_iter().filter(|it| it.wiring.is_connected());
    let sketch = |design| Sketch::of(design, demand, request.rate);
    let mut sketches = crew::each(crew, whole.collect(), sketch);
    sketches.sort_by(|a, b| a.rank().partial_cmp(&b.rank()).unwrap_or(Ordering::Equal));
    let most = if demand.hosts > MAX_FULLY_ROUTED_HOSTS {
        MAX_ROUTED_LARGE
    } else {
        MAX_ROUTED
    };
    let rest = sketches.split_off(most.min(sketches.len()));
    let mut lost: Vec<_> = rest.into_iter().map(Sketch::lost).collect();
    let sketches = sketches.into_iter().enumerate().collect();
    let routed = crew::each(crew, sketches, |(nth, it): (usize, Sketch)| {
        if nth == 0 || in_time() {
            Ok(Draft::of(it.design, demand, request, in_time))
        } else {
            Err(it.lost())
        }
    });
    let mut drafts = Vec::new();
    for routed in routed {
        match routed {
            Ok(draft) => drafts.push(draft),
            Err(late) => lost.push(late),
        }
    }
    drafts.sort_by(|a, b| a.rank().partial_cmp(&b.rank()).unwrap_or(Ordering::Equal));
    match (drafts.is_empty(), parts) {
        (true, Some(parts)) => Err(apart(&parts, demand.hosts)),
        _ => Ok((drafts, lost)),
    }
}

/// Maximum number of candidates for which routes are searched.
const MAX_ROUTED: usize = 7;
/// Above this number of hosts, memory limits the number of candidates with routes.
const MAX_FULLY_ROUTED_HOSTS: usize = 1024;
const MAX_ROUTED_LARGE: usize = 2;

/// A candidate before it has routes.
struct Sketch {
    design: Design,
    mean_hops: f64,
    /// Time of all bytes if all lanes could be filled evenly.
    least_ms: f64,
}

impl Sketch {
    fn of(design: Design, demand: &Demand, rate: Rate) -> Self {
        let distances = Distances::of(&design.wiring);
        let crossing = demand.pairs.iter().map(|(&(from, to), bytes)| {
            let hops = distances.hops(from, to).unwrap_or(0);
            bytes * f64::from(hops)
        });
        let lanes = 2 * design.wiring.cables();
        let even = crossing.sum::<f64>() / lanes.max(1) as f64;
        Self {
            least_ms: lane_ms(even, &design, demand, rate),
            mean_hops: distances.mean(),
            design,
        }
    }

    fn rank(&self) -> (f64, f64) {
        (self.least_ms, self.mean_hops)
    }

    fn lost(self) -> Lost {
        Lost {
            what: self.design.words(),
            screened_ms: self.least_ms,
            mean_hops: self.mean_hops,
            iteration_ms: None,
        }
    }
}

/// Nothing joined all hosts.
fn apart(parts: &[Vec<u32>], hosts: usize) -> TopologyError {
    let smallest = parts.iter().min_by_key(|part| part.len());
    TopologyError::Apart {
        host: smallest.and_then(|part| part.first().copied()).unwrap_or(0),
        reached: smallest.map_or(0, Vec::len),
        hosts,
        largest: parts.iter().map(Vec::len).max().unwrap_or(0),
    }
}

fn check(job: &Job<'_>, request: &Request) -> Result<(), TopologyError> {
    let (hosts, degree) = (request.limits.hosts(), request.degree);
    if hosts < 2 {
        return Err(TopologyError::FewHosts { hosts });
    }
    if degree >= hosts {
        return Err(TopologyError::ManyPorts { hosts, degree });
    }
    let least = if hosts > 2 { 2 } else { 1 };
    if degree < least {
        return Err(TopologyError::NoPorts { hosts, least });
    }
    let stranger = job.place.iter().find(|host| **host as usize >= hosts);
    match stranger {
        Some(&host) => Err(TopologyError::UnknownHost { host, hosts }),
        None => Ok(()),
    }
}

/// A candidate with its routes.
#[derive(Debug)]
pub struct Draft {
    pub design: Design,
    pub routes: Routes,
    pub distances: Distances,
    /// Time of the fullest lane.
    pub screened_ms: f64,
}

impl Draft {
    /// Returns a draft with routes as balanced as the time allows.
    pub(super) fn of(
        design: Design,
        demand: &Demand,
        request: &Request,
        in_time: InTime<'_>,
    ) -> Self {
        let distances = Distances::of(&design.wiring);
        let routes = match &design.family {
            // Change counts on every cable of the strides being there.
            Family::Totient { strides } if demand.pairs.is_empty() && design.is_as_named() => {
                let change = routing::Change::of(demand.hosts, strides);
                routing::by_coins(routing::Lanes::of(&design.wiring), &change)
            }
            _ => {
                let effort = request.effort(&design.wiring);
                let (wiring, pairs) = (&design.wiring, &demand.pairs);
                routing::balanced_until(wiring, &distances, pairs, effort, in_time)
            }
        };
        Self::along(design, routes, distances, demand, request)
    }

    /// Returns a draft with the given routes.
    pub(super) fn along(
        design: Design,
        routes: Routes,
        distances: Distances,
        demand: &Demand,
        request: &Request,
    ) -> Self {
        let loads = routes.loads_by(&distances, demand.pairs.iter());
        let fullest = loads.into_iter().fold(0.0, f64::max);
        Self {
            screened_ms: lane_ms(fullest, &design, demand, request.rate),
            distances,
            design,
            routes,
        }
    }

    fn lost(&self, iteration_ms: Option<f64>) -> Lost {
        Lost {
            what: self.design.words(),
            screened_ms: self.screened_ms,
            mean_hops: self.distances.mean(),
            iteration_ms,
        }
    }

    /// Sorts by speed. Equally fast designs are ordered by how near their hosts are.
    fn rank(&self) -> (f64, f64) {
        (self.screened_ms, self.distances.mean())
    }

    /// Returns the proposal for a job, without alternatives.
    pub(super) fn proposed(
        self,
        job: &Job<'_>,
        demand: &Demand,
        request: &Request,
    ) -> Result<Proposal, TopologyError> {
        let ideal = on_ideal_switch(job, request, NO_DEADLINE)?;
        let played = self.play(job, demand, request, NO_DEADLINE)?;
        played.propose(job, request, demand, ideal, Vec::new(), NO_DEADLINE)
    }

    fn play(
        self,
        job: &Job<'_>,
        demand: &Demand,
        request: &Request,
        in_time: InTime<'_>,
    ) -> Result<Played, TopologyError> {
        let fabric = self.design.wiring.fabric(request.rate, Duration::ZERO)?;
        let wired = Wired {
            design: &self.design,
            routes: &self.routes,
            known: &Known::nothing(&self.design),
        };
        let carriage = carriage(wired, job.iteration, job.place, demand, MAX_SPREAD_PAIRS);
        let evaluation = {
            let placement = places(job.place);
            let network = Network::new(
                &fabric,
                &placement,
                &carriage,
                request.settings(job.settings),
            );
            workload::evaluate(job.iteration, &network, request.work, &mut |_| in_time())?
        };
        Ok(Played {
            draft: self,
            fabric,
            carriage,
            evaluation,
        })
    }
}

struct Played {
    draft: Draft,
    fabric: Fabric,
    carriage: ExplicitPaths,
    evaluation: Evaluation,
}

impl Played {
    fn iteration_ms(&self) -> f64 {
        self.evaluation.iteration_ms
    }
}

pub(super) fn places(place: &[u32]) -> Vec<NodeId> {
    place
        .iter()
        .map(|&host| NodeId::from_index(host as usize))
        .collect()
}

/// Returns the time of a lane with this load from pairs, plus that of reductions.
fn lane_ms(bytes: f64, design: &Design, demand: &Demand, rate: Rate) -> f64 {
    let mut reduced = vec![0.0; demand.hosts];
    for group in &demand.groups {
        let each = group.bytes * detour(&design.wiring, &group.members);
        let members = group.members.iter();
        members.for_each(|&host| reduced[host as usize] += each);
    }
    let bytes = bytes + reduced.into_iter().fold(0.0, f64::max);
    bytes * 8.0 / rate.bits_per_s() as f64 * 1e3
}

/// Returns the load of a lane within a group, relative to a member's bytes: trees load all lanes evenly.
fn detour(wiring: &Wiring, members: &[u32]) -> f64 {
    let is_member = |host: &&u32| members.binary_search(host).is_ok();
    let inside = members
        .iter()
        .map(|&host| wiring.neighbours(host).iter().filter(is_member).count());
    let lanes: usize = inside.sum();
    if lanes / 2 + 1 >= members.len() {
        members.len() as f64 / lanes.max(1) as f64
    } else {
        // They must go through others.
        UNJOINED_HOPS
    }
}

/// Assumed hops between unjoined hosts of a group, whose traffic loads other lanes.
const UNJOINED_HOPS: f64 = 2.0;

/// The fastest design. Of equally fast ones, it is the one in which hosts are nearest.
fn choose(
    request: &Request,
    demand: &Demand,
    mut played: Vec<Played>,
    lost: &mut Vec<Lost>,
) -> Result<Played, TopologyError> {
    let times = played.iter().map(Played::iteration_ms);
    let fastest = times.fold(f64::INFINITY, f64::min);
    // If only groups reduce, hops do not matter, and the simplest design wins.
    let hops = |it: &Played| {
        if demand.pairs.is_empty() {
            it.draft.design.intricacy(&it.draft.distances)
        } else {
            it.draft.distances.mean()
        }
    };
    let merit = |it: &Played| {
        let slower = it.iteration_ms() > fastest * (1.0 + MAX_EQUAL_DIFFERENCE);
        (slower, if slower { it.iteration_ms() } else { hops(it) })
    };
    played.sort_by(|a, b| merit(a).partial_cmp(&merit(b)).unwrap_or(Ordering::Equal));
    let mut played = played.into_iter();
    let Some(best) = played.next() else {
        return Err(TopologyError::NoPorts {
            hosts: demand.hosts,
            least: request.degree + 1,
        });
    };
    let others = played.map(|it| it.draft.lost(Some(it.iteration_ms())));
    lost.splice(0..0, others);
    Ok(best)
}

impl Played {
    fn propose(
        self,
        job: &Job<'_>,
        request: &Request,
        demand: &Demand,
        ideal: Evaluation,
        lost: Vec<Lost>,
        in_time: InTime<'_>,
    ) -> Result<Proposal, TopologyError> {
        let mut proposal = Proposal {
            interval: None,
            bound_ms: bound_ms(job, &ideal, demand, request),
            bandwidth_tax: tax(&self.draft, demand),
            ports: request.limits.ports.clone(),
            design: self.draft.design,
            routes: self.draft.routes,
            distances: self.draft.distances,
            fabric: self.fabric,
            carriage: self.carriage,
            evaluation: self.evaluation,
            ideal,
            lost,
        };
        if request.interval {
            proposal.interval_of(job, request, &mut |_| in_time())?;
        }
        Ok(proposal)
    }
}

impl Proposal {
    /// Returns the iteration time with its uncertainty.
    pub fn estimate(&self) -> Estimate {
        let ms = self.evaluation.iteration_ms;
        let interval = self.interval.as_ref();
        Estimate {
            ms,
            low_ms: interval.map_or(ms, |it| it.low_ms),
            high_ms: interval.map_or(ms, |it| it.high_ms),
            samples: 1.0,
        }
    }

    /// Returns the interval of an iteration time, unless the time is up or it takes too much work. `watch` gets the
    /// number of completed simulations, and returns whether there is time.
    pub fn interval_of(
        &mut self,
        job: &Job<'_>,
        request: &Request,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), TopologyError> {
        let (placement, settings) = (places(job.place), request.settings(job.settings));
        let network = Network::new(&self.fabric, &placement, &self.carriage, settings);
        let setting = Setting {
            iteration: job.iteration,
            network: &network,
        };
        let demand = Demand::of(job.iteration, job.place, request.limits.hosts());
        let effects = Effects {
            seeds: seeds_of_an_interval(&demand),
            ..Effects::default()
        };
        let purse = Purse {
            each: request.work,
            left: MAX_INTERVAL_WORK,
        };
        self.interval = match setting.interval_for(&effects, purse, watch) {
            Err(error) if error.is_stop() || error.is_of_work() => None,
            interval => Some(interval?),
        };
        Ok(())
    }
}

/// Simulations that find out how sure a prediction is take no more than this together: less than a minute
/// of a core.
const MAX_INTERVAL_WORK: u64 = 3 << 30;
/// Paths are given, so hashes have little effect, least of all if many pairs send.
fn seeds_of_an_interval(demand: &Demand) -> u32 {
    if demand.pairs.len() < MIN_DENSE_PAIRS {
        2
    } else {
        1
    }
}

/// If a host has several ranks, they may reduce among themselves first. Then the bound uses only the bytes between
/// hosts, and dependency chains are ignored.
fn bound_ms(job: &Job<'_>, ideal: &Evaluation, demand: &Demand, request: &Request) -> f64 {
    let rate = request.whole_rate().bits_per_s() as f64;
    let sending_ms = demand.busiest_host() * 8.0 / rate * 1e3;
    let least = ideal.bounds.compute_ms.max(sending_ms);
    if job.iteration.ranks() > demand.hosts {
        least
    } else {
        least.max(ideal.bounds.chain_ms)
    }
}

/// Bytes on cables for each byte that is to be sent.
fn tax(draft: &Draft, demand: &Demand) -> f64 {
    let crossing: f64 = draft.routes.loads(demand.pairs.iter()).iter().sum();
    let (pairs, groups) = (demand.pair_bytes(), demand.group_bytes());
    if pairs + groups > 0.0 {
        (crossing + groups) / (pairs + groups)
    } else {
        1.0
    }
}
