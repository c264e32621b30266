//! Maintenance mode: drains a switch or an optical switch and reports ready once counters prove its links idle.
//! Survives a leader change.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::operator::{MaintenanceStage, MaintenanceStatus};
use reweave_common::plan::Generation;
use reweave_common::snapshot::Hop;

use crate::estimate::interval_timer::IntervalTimer;
use crate::log::device::Device;
use crate::log::maintenance::Maintenance;
use crate::log::reason::Reason;
use crate::log::state::State;
use crate::model::world::{DecisionWorld, World};
use crate::plan::drain_routes::crossed;
use crate::rollout::{IdleTracker, Port};

/// Port readings of devices under maintenance, under the routes in force.
#[derive(Debug, Clone, Default)]
pub(crate) struct MaintenanceMonitor {
    looks: IntervalTimer,
    watched: BTreeMap<Device, (Generation, IdleTracker)>,
}

impl MaintenanceMonitor {
    pub(crate) fn handle_time(&mut self, world: &DecisionWorld<'_>, state: &State) {
        let known = world.known;
        let is_there = |place: &Device| state.maintenance().iter().any(|it| it.place == *place);
        self.watched.retain(|place, _| is_there(place));
        let any = !state.maintenance().is_empty();
        if !any || !self.looks.is_due(known.now, known.policy.look_every) {
            return;
        }
        let world = world.get();
        let generation = state.in_force().generation;
        for maintenance in state.maintenance() {
            let place = maintenance.place;
            let restarted = || (generation, IdleTracker::new(known.now));
            let watched = self.watched.entry(place).or_insert_with(restarted);
            if watched.0 != generation {
                *watched = restarted();
            }
            let ends = ends(world, state, place).into_iter();
            let ports = ends.flat_map(|(_, ports)| ports);
            watched.1.handle_observations(known, ports);
        }
    }

    /// Why it is not proven that the device carries nothing.
    pub(crate) fn objections(
        &self,
        world: &World<'_>,
        state: &State,
        place: Device,
    ) -> Vec<Reason> {
        let fabric = world.fabric();
        let led = crossed(world, state, &state.in_force().tables, &place.links(fabric));
        if !led.is_empty() {
            let led = led.into_iter();
            return led.map(|link| Reason::NotAround { link }).collect();
        }
        let ends = ends(world, state, place);
        // A device under maintenance may be silent.
        let is_open = |it: &Maintenance| it.place == place && it.stage == MaintenanceStage::Working;
        let is_open = state.maintenance().iter().any(is_open);
        let unseen = ends
            .iter()
            .filter(|(_, ports)| ports.is_empty() && !is_open);
        let unseen: Vec<_> = unseen
            .map(|(link, _)| Reason::Unwatched { link: *link })
            .collect();
        let watched = self.watched.get(&place);
        let watched = watched.filter(|(generation, _)| *generation == state.in_force().generation);
        let loud = match watched {
            Some((_, quietness)) => {
                let known = world.known;
                let proof = quietness.proof(known.now, known.policy.most_age());
                proof.err().unwrap_or_default()
            }
            None => vec![Reason::NotWatched],
        };
        unseen.into_iter().chain(loud).collect()
    }

    pub(crate) fn status(&self, world: &World<'_>, state: &State) -> Vec<MaintenanceStatus> {
        if state.maintenance().is_empty() {
            return Vec::new();
        }
        let (known, fabric) = (world.known, world.fabric());
        let status = |it: &Maintenance| {
            let objections = self.objections(world, state, it.place);
            let links = lit(fabric, state, it.place).into_iter();
            MaintenanceStatus {
                name: it.place.name(fabric).to_owned(),
                stage: it.stage,
                by: it.by.to_string(),
                age_ms: crate::log::millis::millis(known.now.since(it.since)),
                links: links.map(|link| fabric.link_name(link)).collect(),
                not_empty: crate::log::reason_list::texts(&objections, fabric),
            }
        };
        state.maintenance().iter().map(status).collect()
    }
}

/// The device's links that exist with the circuits in force.
fn lit(fabric: &Fabric, state: &State, place: Device) -> BTreeSet<LinkId> {
    let dark = fabric.dark(&state.in_force().circuits_of(fabric));
    place.links(fabric).difference(&dark).copied().collect()
}

/// The ports of each link at nodes that report.
fn ends(world: &World<'_>, state: &State, place: Device) -> Vec<(LinkId, Vec<Port>)> {
    let fabric = world.fabric();
    let port = |from, link| {
        let fibre = fabric.fibre_of(from, link);
        let fibre = fibre.map(|fibre| fibre.interface.clone());
        let cable = || Some(world.wiring.end(Hop { from, link })?.interface.clone());
        let interface = fibre.or_else(cable)?;
        world.known.is_fresh(from).then_some((from, interface))
    };
    let ports = |link| {
        let ends = fabric.link(link).ports().map(|end| port(end.node, link));
        (link, ends.into_iter().flatten().collect())
    };
    lit(fabric, state, place).into_iter().map(ports).collect()
}
