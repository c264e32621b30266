//! The choice among candidates.

use std::cmp::Ordering;
use std::time::Duration;

use reweave_common::carriage::Carriage;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Iteration;
use reweave_common::units::Rate;

use super::candidates::{self, Design, Family};
use super::carry::{MOST_SPREAD_PAIRS, carriage};
use super::demand::Demand;
use super::distances::Distances;
use super::error::TopologyError;
use super::limits::Limits;
use super::wiring::{Wiring, ideal_switch};
use crate::routing::{self, Effort, Routes};
use crate::workload::effects::{Effects, Interval, Setting};
use crate::workload::{self, Evaluation, Network, Settings};

/// A job as the planner sees it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'j> {
    pub iteration: &'j Iteration,
    /// On which host each rank runs.
    pub place: &'j [u32],
    pub settings: &'j Settings,
}

/// What a topology may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub limits: Limits,
    /// What the busiest host has, working or not.
    pub degree: usize,
    pub rate: Rate,
    pub seed: u64,
    /// Units of work that one simulation may take.
    pub work: u64,
    /// What a host can forward for others in all; all that its ports carry when there is no figure.
    pub relay: Option<Rate>,
    /// Whether to tell between which times an iteration lies.
    pub interval: bool,
}

impl Request {
    fn effort(&self, wiring: &Wiring) -> Effort {
        let lanes = |relay: Rate| relay.gbps() / self.rate.gbps();
        Effort {
            relay: self.relay.map(lanes),
            ..Effort::for_size(wiring)
        }
    }

    /// Those of the job, where hosts forward no more than they can.
    fn settings(&self, job: &Job<'_>) -> Settings {
        let mut settings = job.settings.clone();
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
    pub carriage: Carriage,
    pub distances: Distances,
    pub evaluation: Evaluation,
    /// On one switch that gives each host all its ports' rates at one.
    pub ideal: Evaluation,
    pub interval: Option<Interval>,
    pub bandwidth_tax: f64,
    /// The best first.
    pub lost: Vec<Lost>,
}

/// A wiring that was weighed and lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Lost {
    pub family: Family,
    /// What its fullest lane carries takes so long.
    pub screened_ms: f64,
    pub mean_hops: f64,
    /// Nothing when the screening was enough to tell.
    pub iteration_ms: Option<f64>,
}

/// So many of the screened candidates are simulated.
const SIMULATED: usize = 4;
/// Two iterations that differ by no more than this part are alike.
const ALIKE: f64 = 1e-3;

/// The best topology for a job.
pub fn plan(job: &Job<'_>, request: &Request) -> Result<Proposal, TopologyError> {
    let demand = Demand::of(job.iteration, job.place, request.limits.hosts());
    let mut drafts = drafts(job, request)?;
    let rest = drafts.split_off(SIMULATED.min(drafts.len()));
    let mut played = Vec::new();
    for draft in drafts {
        played.push(draft.play(job, &demand, request)?);
    }
    choose(job, request, &demand, played, &rest)
}

/// Candidates with their routes, the most promising first. None of them is simulated yet.
pub fn drafts(job: &Job<'_>, request: &Request) -> Result<Vec<Draft>, TopologyError> {
    check(job, request)?;
    let demand = Demand::of(job.iteration, job.place, request.limits.hosts());
    let designs = candidates::all(&demand, &request.limits, request.seed);
    let parts = designs.first().map(|design| design.wiring.parts());
    let mut drafts = Vec::new();
    for design in designs.into_iter().filter(|it| it.wiring.is_connected()) {
        drafts.push(Draft::of(design, &demand, request));
        drafts.sort_by(|a, b| a.rank().partial_cmp(&b.rank()).unwrap_or(Ordering::Equal));
        if demand.hosts > MANY_HOSTS {
            drafts.truncate(KEPT_OF_MANY);
        }
    }
    match (drafts.is_empty(), parts) {
        (true, Some(parts)) => Err(apart(&parts, demand.hosts)),
        _ => Ok(drafts),
    }
}

/// Of more hosts than these, only so many candidates fit into memory with their routes.
const MANY_HOSTS: usize = 1024;
const KEPT_OF_MANY: usize = 1;

/// Nothing joined all hosts.
fn apart(parts: &[Vec<u32>], hosts: usize) -> TopologyError {
    let smallest = parts.iter().min_by_key(|part| part.len());
    TopologyError::Apart {
        host: smallest.and_then(|part| part.first().copied()).unwrap_or(0),
        reached: smallest.map_or(0, Vec::len),
        hosts,
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
    /// What its fullest lane carries takes so long.
    pub screened_ms: f64,
}

impl Draft {
    fn of(design: Design, demand: &Demand, request: &Request) -> Self {
        let routes = match &design.family {
            Family::Totient { strides } if demand.pairs.is_empty() => {
                let change = routing::Change::of(demand.hosts, strides);
                routing::by_coins(routing::Lanes::of(&design.wiring), &change)
            }
            _ => routing::balanced(
                &design.wiring,
                &demand.pairs,
                request.effort(&design.wiring),
            ),
        };
        Self {
            screened_ms: screen(&design, &routes, demand, request.rate),
            distances: Distances::of(&design.wiring),
            design,
            routes,
        }
    }

    /// Fast first; of those that are alike, the nearer hosts.
    fn rank(&self) -> (f64, f64) {
        (self.screened_ms, self.distances.mean())
    }

    fn play(
        self,
        job: &Job<'_>,
        demand: &Demand,
        request: &Request,
    ) -> Result<Played, TopologyError> {
        let fabric = self.design.wiring.fabric(request.rate, Duration::ZERO)?;
        let carriage = carriage(
            &self.design,
            &self.routes,
            job.iteration,
            job.place,
            demand,
            MOST_SPREAD_PAIRS,
        );
        let end = {
            let placement = places(job.place);
            let network = Network::new(&fabric, &placement, &carriage, request.settings(job));
            workload::simulate(job.iteration, &network, request.work)?.end
        };
        Ok(Played {
            draft: self,
            fabric,
            carriage,
            iteration_ms: end.millis(),
        })
    }
}

struct Played {
    draft: Draft,
    fabric: Fabric,
    carriage: Carriage,
    iteration_ms: f64,
}

pub(super) fn places(place: &[u32]) -> Vec<NodeId> {
    place
        .iter()
        .map(|&host| NodeId::from_index(host as usize))
        .collect()
}

/// How long the fullest lane takes for what it carries, when what groups reduce fills all lanes.
fn screen(design: &Design, routes: &Routes, demand: &Demand, rate: Rate) -> f64 {
    let loads = routes.loads(demand.pairs.iter());
    let fullest = loads.iter().copied().fold(0.0, f64::max);
    let reduced = demand.groups.iter().map(|group| {
        let ports = group
            .members
            .iter()
            .map(|&member| design.wiring.degree(member));
        group.bytes / ports.min().unwrap_or(1).max(1) as f64
    });
    let bytes = fullest + reduced.sum::<f64>();
    bytes * 8.0 / rate.bits_per_s() as f64 * 1e3
}

fn choose(
    job: &Job<'_>,
    request: &Request,
    demand: &Demand,
    mut played: Vec<Played>,
    rest: &[Draft],
) -> Result<Proposal, TopologyError> {
    let fastest = played
        .iter()
        .map(|it| it.iteration_ms)
        .fold(f64::INFINITY, f64::min);
    // Where only groups reduce, hops do not matter, and what is simplest comes first.
    let hops = |it: &Played| match demand.pairs.is_empty() {
        true => it.draft.design.family.intricacy(),
        false => it.draft.distances.mean(),
    };
    let merit = |it: &Played| {
        let slower = it.iteration_ms > fastest * (1.0 + ALIKE);
        (slower, if slower { it.iteration_ms } else { hops(it) })
    };
    played.sort_by(|a, b| merit(a).partial_cmp(&merit(b)).unwrap_or(Ordering::Equal));
    let mut played = played.into_iter();
    let Some(best) = played.next() else {
        return Err(TopologyError::NoPorts {
            hosts: demand.hosts,
            least: request.degree + 1,
        });
    };
    let lost = |draft: &Draft, iteration_ms| Lost {
        family: draft.design.family.clone(),
        screened_ms: draft.screened_ms,
        mean_hops: draft.distances.mean(),
        iteration_ms,
    };
    let lost = played
        .map(|it| lost(&it.draft, Some(it.iteration_ms)))
        .chain(rest.iter().map(|draft| lost(draft, None)));
    let lost = lost.collect();
    best.propose(job, request, demand, lost)
}

impl Played {
    fn propose(
        self,
        job: &Job<'_>,
        request: &Request,
        demand: &Demand,
        lost: Vec<Lost>,
    ) -> Result<Proposal, TopologyError> {
        let placement = places(job.place);
        let evaluate = |fabric: &Fabric, placement: &[NodeId], carriage: &Carriage| {
            let network = Network::new(fabric, placement, carriage, request.settings(job));
            workload::evaluate(job.iteration, &network, request.work, &mut |_| {})
        };
        let evaluation = evaluate(&self.fabric, &placement, &self.carriage)?;
        let whole = Rate::from_bits_per_s(request.rate.bits_per_s() * request.degree as u64);
        let switch = ideal_switch(demand.hosts, whole)?;
        let behind: Vec<_> = job
            .place
            .iter()
            .map(|&host| NodeId::from_index(host as usize + 1))
            .collect();
        let ideal = evaluate(&switch, &behind, &Carriage::default())?;
        let setting = Setting {
            iteration: job.iteration,
            fabric: &self.fabric,
            placement: &placement,
            carriage: &self.carriage,
        };
        let interval = || {
            setting.interval(
                &request.settings(job),
                &Effects::default(),
                request.work,
                &mut |_| {},
            )
        };
        let interval = request.interval.then(interval).transpose()?;
        Ok(Proposal {
            interval,
            bandwidth_tax: tax(&self.draft, demand),
            design: self.draft.design,
            routes: self.draft.routes,
            distances: self.draft.distances,
            fabric: self.fabric,
            carriage: self.carriage,
            evaluation,
            ideal,
            lost,
        })
    }
}

/// Bytes on cables for each byte that is to be sent.
fn tax(draft: &Draft, demand: &Demand) -> f64 {
    let crossing: f64 = draft.routes.loads(demand.pairs.iter()).iter().sum();
    let (pairs, groups) = (demand.pair_bytes(), demand.group_bytes());
    match pairs + groups > 0.0 {
        true => (crossing + groups) / (pairs + groups),
        false => 1.0,
    }
}
