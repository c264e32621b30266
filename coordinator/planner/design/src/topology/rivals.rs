//! Alternative fabrics for a job, with iteration times.

use std::time::Duration;

use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::fabric::{Fabric, FabricBuilder, Role, WiringError};
use reweave_common::ids::NodeId;
use reweave_common::units::Rate;
use reweave_sim::workload::{self, Network};

use super::error::TopologyError;
use super::families;
use super::plan::{Job, Request};
use super::wiring::{Wiring, ideal_switch};
use crate::crew::{self, Crew, InTime};

/// Hosts under one switch of a fat tree.
const HOSTS_PER_LEAF: usize = 16;

/// Another fabric for the same hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rival {
    /// One switch that gives each host all of its ports' rates at once.
    IdealSwitch,
    /// A fat tree that costs as much as patch panels: slower by as much as it costs more.
    EqualCost,
    /// A fat tree with half of the uplinks.
    TwoToOne,
    /// As many cables as the topology, at random. Traffic takes shortest paths, and rings follow the rank order.
    Expander,
}

impl Rival {
    pub const ALL: [Self; 4] = [
        Self::IdealSwitch,
        Self::EqualCost,
        Self::TwoToOne,
        Self::Expander,
    ];

    /// Returns none if there is no such fabric for this number of ports. A non-blocking fat tree costs `fat_tree` times
    /// as much as patch panels.
    pub(crate) fn fabric(
        self,
        request: &Request,
        fat_tree: f64,
    ) -> Result<Option<Fabric>, WiringError> {
        let (hosts, whole) = (request.limits.hosts(), request.whole_rate());
        match self {
            Self::IdealSwitch => ideal_switch(hosts, whole).map(Some),
            Self::EqualCost => ideal_switch(hosts, scaled(whole, 1.0 / fat_tree)).map(Some),
            Self::TwoToOne => two_to_one(hosts, whole).map(Some),
            Self::Expander => {
                let rings = request.degree / 2;
                let design = families::random(hosts, rings, &request.limits, request.seed);
                let wiring = design.map(|it| it.wiring).filter(Wiring::is_connected);
                let fabric = |it: Wiring| it.fabric(request.rate, Duration::ZERO);
                wiring.map(fabric).transpose()
            }
        }
    }
}

fn scaled(rate: Rate, part: f64) -> Rate {
    Rate::from_bits_per_s(((rate.bits_per_s() as f64 * part) as u64).max(1))
}

/// Leaves of a few hosts under one switch.
fn two_to_one(hosts: usize, rate: Rate) -> Result<Fabric, WiringError> {
    let mut builder = FabricBuilder::new();
    let above = builder.add_node("above", Role::Switch)?;
    for leaf in 0..hosts.div_ceil(HOSTS_PER_LEAF) {
        let under = leaf * HOSTS_PER_LEAF..((leaf + 1) * HOSTS_PER_LEAF).min(hosts);
        let switch = builder.add_node(&format!("leaf{leaf}"), Role::Switch)?;
        let upwards = scaled(rate, under.len() as f64 / 2.0);
        builder.connect([switch, above], 1, upwards, Duration::ZERO)?;
        for host in under {
            let host = builder.add_node(&format!("h{host}"), Role::Host)?;
            builder.connect([host, switch], 1, rate, Duration::ZERO)?;
        }
    }
    Ok(builder.build())
}

/// Returns the iteration time on each fabric with this distribution; none if there is no such fabric, or the time is
/// up.
pub fn rivals(
    job: &Job<'_>,
    request: &Request,
    fat_tree: f64,
    crew: &dyn Crew,
    in_time: InTime<'_>,
) -> Result<Vec<(Rival, Option<f64>)>, TopologyError> {
    let time = |rival: Rival| -> Result<_, TopologyError> {
        let fabric = in_time().then(|| rival.fabric(request, fat_tree));
        let Some(fabric) = fabric.transpose()?.flatten() else {
            return Ok((rival, None));
        };
        let hosts: Vec<NodeId> = fabric.endpoints().collect();
        let placement: Vec<_> = job.place.iter().map(|&host| hosts[host as usize]).collect();
        let carriage = ExplicitPaths::default();
        let network = Network::new(&fabric, &placement, &carriage, job.settings.clone());
        let go_on = &mut || in_time();
        let timeline = workload::simulate_while(job.iteration, &network, request.work, go_on);
        let timeline = TopologyError::unless_stopped(timeline.map_err(TopologyError::from))?;
        Ok((rival, timeline.map(|it| it.end.millis())))
    };
    crew::each(crew, Rival::ALL.to_vec(), time)
        .into_iter()
        .collect()
}
