//! The fabric and the job on which splits of a model are tried.

use std::time::Duration;

use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Iteration;
use reweave_sim::workload::{
    Network, Settings, SimulationError, Timeline, simulate_while, simulate_within,
};

use crate::crew::{Crew, InTime};
use crate::routing::{self, Effort, Routes};
use crate::topology::{
    self, Demand, Design, Distances, Known, Proposal, Request, TopologyError, Wired, ideal_switch,
};

/// Workers and progress report of a search.
#[derive(Clone, Copy)]
pub struct Help<'h> {
    pub crew: &'h dyn Crew,
    /// Gets how far it is now and then, and says whether to go on. A function that always says yes
    /// gets the same answer every time.
    pub go_on: &'h (dyn Fn(&Progress) -> bool + Sync),
    /// Checks whether there is time, without reporting progress.
    pub in_time: InTime<'h>,
}

/// Progress of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Number of candidates simulated in this turn.
    pub tried: u32,
    /// The best iteration that was met.
    pub best_ms: f64,
}

/// A topology that was found, with routes for anything that may be sent.
struct RoutedDesign {
    design: Design,
    routes: Routes,
    known: Known,
}

impl RoutedDesign {
    fn wired(&self) -> Wired<'_> {
        Wired {
            design: &self.design,
            routes: &self.routes,
            known: &self.known,
        }
    }
}

/// At first the ideal switch, as any topology is still open, and then the topology that was found.
pub struct Ground<'g> {
    found: Option<RoutedDesign>,
    fabric: Fabric,
    placement: Vec<NodeId>,
    place: Vec<u32>,
    settings: &'g Settings,
    request: &'g Request,
    pub(super) help: Help<'g>,
}

impl<'g> Ground<'g> {
    /// Returns a network with all ports of a host on one switch without contention.
    pub fn ideal(
        place: Vec<u32>,
        settings: &'g Settings,
        request: &'g Request,
        help: Help<'g>,
    ) -> Result<Self, TopologyError> {
        let fabric = ideal_switch(request.limits.hosts(), request.whole_rate())?;
        Ok(Self::on(None, fabric, place, settings, request, help))
    }

    pub fn found(
        proposal: &Proposal,
        place: Vec<u32>,
        settings: &'g Settings,
        request: &'g Request,
        help: Help<'g>,
    ) -> Result<Self, TopologyError> {
        let design = proposal.design.clone();
        let fabric = design.wiring.fabric(request.rate, Duration::ZERO)?;
        let found = RoutedDesign {
            routes: to_all(&design, help.in_time),
            known: Known::nothing(&design),
            design,
        };
        Ok(Self::on(
            Some(found),
            fabric,
            place,
            settings,
            request,
            help,
        ))
    }

    /// Returns a network without routes: traffic takes shortest paths.
    pub fn bare(
        fabric: Fabric,
        place: Vec<u32>,
        settings: &'g Settings,
        request: &'g Request,
        help: Help<'g>,
    ) -> Self {
        Self::on(None, fabric, place, settings, request, help)
    }

    fn on(
        found: Option<RoutedDesign>,
        fabric: Fabric,
        place: Vec<u32>,
        settings: &'g Settings,
        request: &'g Request,
        help: Help<'g>,
    ) -> Self {
        let hosts: Vec<_> = fabric.endpoints().collect();
        Self {
            found,
            placement: place.iter().map(|&host| hosts[host as usize]).collect(),
            fabric,
            place,
            settings,
            request,
            help,
        }
    }

    /// The milliseconds of an iteration; stops when time is up.
    pub fn time(&self, iteration: &Iteration) -> Result<f64, TopologyError> {
        Ok(self.course(iteration)?.end.millis())
    }

    /// Stops when time is up.
    pub fn course(&self, iteration: &Iteration) -> Result<Timeline, TopologyError> {
        self.on_network(iteration, |network, work, go_on| {
            simulate_while(iteration, network, work, go_on)
        })
    }

    /// The same, unless it is more than this.
    pub fn time_within(
        &self,
        iteration: &Iteration,
        most_ms: f64,
    ) -> Result<Option<f64>, TopologyError> {
        let course = self.on_network(iteration, |network, work, go_on| {
            simulate_within(iteration, network, work, most_ms, go_on)
        })?;
        Ok(course.map(|it| it.end.millis()))
    }

    fn on_network<R>(
        &self,
        iteration: &Iteration,
        simulate: impl FnOnce(&Network<'_>, u64, &mut dyn FnMut() -> bool) -> Result<R, SimulationError>,
    ) -> Result<R, TopologyError> {
        let carriage = match &self.found {
            None => ExplicitPaths::default(),
            Some(found) => {
                let demand = self.demand(iteration);
                topology::carriage(found.wired(), iteration, &self.place, &demand, 0)
            }
        };
        let settings = self.request.settings(self.settings);
        let network = Network::new(&self.fabric, &self.placement, &carriage, settings);
        let go_on = &mut || (self.help.in_time)();
        simulate(&network, self.request.work, go_on).map_err(TopologyError::from)
    }

    /// Returns a lower bound of the iteration time with these ports: the computation of the busiest processor, or the
    /// sending time of the busiest host over all its ports.
    pub fn bound_ms(&self, iteration: &Iteration) -> f64 {
        let busiest = self.demand(iteration).busiest_host();
        let sending_ms = busiest * 8.0 / self.request.whole_rate().bits_per_s() as f64 * 1e3;
        computing_ms(iteration).max(sending_ms)
    }

    fn demand(&self, iteration: &Iteration) -> Demand {
        Demand::of(iteration, &self.place, self.request.limits.hosts())
    }
}

/// Returns the computation time of the busiest processor.
pub(super) fn computing_ms(iteration: &Iteration) -> f64 {
    let longest = iteration.compute_times().into_iter().max();
    longest.unwrap_or_default().as_secs_f64() * 1e3
}

/// Routes for any pairs that may send.
fn to_all(design: &Design, in_time: InTime<'_>) -> Routes {
    let wiring = &design.wiring;
    let hosts = wiring.hosts() as u32;
    let pairs = (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b)));
    let all = pairs.filter(|(a, b)| a != b).map(|pair| (pair, 1.0));
    let (all, distances) = (all.collect(), Distances::of(wiring));
    routing::balanced_until(wiring, &distances, &all, Effort::default(), in_time)
}
