//! Parallelization and topology in turn.

use std::cell::OnceCell;
use std::time::Duration;

use reweave_common::carriage::Carriage;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Iteration;
use reweave_common::units::Rate;

use super::operators::Search;
use crate::routing::{self, Effort, Routes};
use crate::topology::{self, Demand, Design, Job, Proposal, Request, TopologyError, ideal_switch};
use crate::workload::job::operators::Split;
use crate::workload::{Network, Settings, simulate};

/// A topology, and the splits that it was made for.
#[derive(Debug)]
pub struct Pairing {
    pub proposal: Proposal,
    pub splits: Vec<Split>,
    /// What an iteration took before anything was searched, by turns.
    pub course: Vec<f64>,
    pub tried: u32,
}

/// So often topology and splits take turns at most.
const TURNS: usize = 3;
/// What a turn must gain to be worth another.
const WORTHWHILE: f64 = 0.998;

/// From these splits on, the best splits with the best topology for them. Never slower than these.
pub fn search(
    search: &Search<'_>,
    start: Vec<Split>,
    settings: &Settings,
    request: &Request,
) -> Result<Pairing, TopologyError> {
    let place: Vec<_> = (0..search.servers as u32).collect();
    let planned = |iteration: &Iteration| {
        let job = Job {
            iteration,
            place: &place,
            settings,
        };
        topology::plan(&job, request)
    };
    let first = search
        .model
        .iteration(search.timings, &start, search.servers);
    let proposal = planned(&first.map_err(TopologyError::Operators)?)?;
    let mut pairing = Pairing {
        course: vec![proposal.evaluation.iteration_ms],
        proposal,
        splits: start,
        tried: 0,
    };
    for turn in 0..TURNS {
        let stage = Stage::new(&pairing.proposal, turn, settings, request)?;
        let start = pairing.splits.clone();
        let found = search.improve(start, &mut |iteration| stage.time(iteration))?;
        let Some(found) = found else { break };
        pairing.tried += found.tried;
        let iteration = search
            .model
            .iteration(search.timings, &found.splits, search.servers);
        let next = planned(&iteration.map_err(TopologyError::Operators)?)?;
        let (before, after) = (
            pairing.course[pairing.course.len() - 1],
            next.evaluation.iteration_ms,
        );
        if after < before {
            pairing.splits = found.splits;
            pairing.proposal = next;
            pairing.course.push(after);
        }
        // The first turn is on the switch, and the next may still gain on the topology.
        if turn > 0 && after >= before * WORTHWHILE {
            break;
        }
    }
    Ok(pairing)
}

/// What splits are tried on: first the ideal switch, as any topology is still open, and then the
/// topology that was found.
struct Stage<'s> {
    design: Option<Design>,
    fabric: Fabric,
    placement: Vec<NodeId>,
    place: Vec<u32>,
    routes: OnceCell<Routes>,
    settings: &'s Settings,
    work: u64,
}

impl<'s> Stage<'s> {
    fn new(
        proposal: &Proposal,
        turn: usize,
        settings: &'s Settings,
        request: &Request,
    ) -> Result<Self, TopologyError> {
        let hosts = request.limits.hosts();
        let whole = Rate::from_bits_per_s(request.rate.bits_per_s() * request.degree as u64);
        let (design, fabric) = match turn {
            0 => (None, ideal_switch(hosts, whole)?),
            _ => {
                let design = proposal.design.clone();
                let fabric = design.wiring.fabric(request.rate, Duration::ZERO)?;
                (Some(design), fabric)
            }
        };
        Ok(Self {
            design,
            placement: fabric.endpoints().collect(),
            fabric,
            place: (0..hosts as u32).collect(),
            routes: OnceCell::new(),
            settings,
            work: request.work,
        })
    }

    fn time(&self, iteration: &Iteration) -> Result<f64, TopologyError> {
        let carriage = match &self.design {
            None => Carriage::default(),
            Some(design) => {
                let demand = Demand::of(iteration, &self.place, self.place.len());
                let routes = self.routes.get_or_init(|| to_all(design));
                topology::carriage(design, routes, iteration, &self.place, &demand, 0)
            }
        };
        let settings = self.settings.clone();
        let network = Network::new(&self.fabric, &self.placement, &carriage, settings);
        Ok(simulate(iteration, &network, self.work)?.end.millis())
    }
}

/// Routes for whatever pairs may send.
fn to_all(design: &Design) -> Routes {
    let hosts = design.wiring.hosts() as u32;
    let pairs = (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b)));
    let all = pairs.filter(|(a, b)| a != b).map(|pair| (pair, 1.0));
    routing::balanced(&design.wiring, &all.collect(), Effort::default())
}
