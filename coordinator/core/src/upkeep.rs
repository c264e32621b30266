//! Work on a switch or an optical switch while jobs run around it: nothing is sent over its links
//! meanwhile, whoever leads, and nobody may begin before that is proven.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::moment::Moment;
use reweave_common::operator::{MaintenanceStage, MaintenanceStatus};
use reweave_common::plan::Generation;
use reweave_common::snapshot::Hop;
use serde::{Deserialize, Serialize};

use crate::carrying::crossed;
use crate::command::Author;
use crate::model::{Known, Picture};
use crate::pace::Pace;
use crate::places::Place;
use crate::reason::Reason;
use crate::rollout::{Port, Quietness};
use crate::state::State;

/// What is under maintenance, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    pub place: Place,
    pub stage: MaintenanceStage,
    /// Who has brought it to this stage, and when.
    pub by: Author,
    pub since: Moment,
    /// Links of it that were drained before: they stay so afterwards.
    pub kept: BTreeSet<LinkId>,
}

impl Maintenance {
    /// Whether nothing shall pass its links.
    pub(crate) fn is_closed(&self) -> bool {
        self.stage != MaintenanceStage::Returning
    }
}

/// All links that shall carry nothing for it.
pub(crate) fn closed(fabric: &Fabric, state: &State) -> BTreeSet<LinkId> {
    let closed = state.maintenance().iter().filter(|it| it.is_closed());
    closed.flat_map(|it| it.place.links(fabric)).collect()
}

/// What the leader has seen of the ports of what is under maintenance, by the routes that were in force.
#[derive(Debug, Clone, Default)]
pub(crate) struct Upkeep {
    looks: Pace,
    watched: BTreeMap<Place, (Generation, Quietness)>,
}

impl Upkeep {
    pub(crate) fn handle_time(&mut self, known: Known<'_>, state: &State) {
        let is_there = |place: &Place| state.maintenance().iter().any(|it| it.place == *place);
        self.watched.retain(|place, _| is_there(place));
        let any = !state.maintenance().is_empty();
        if !any || !self.looks.is_due(known.now, known.policy.look_every) {
            return;
        }
        let picture = known.picture();
        let generation = state.in_force().generation;
        for maintenance in state.maintenance() {
            let place = maintenance.place;
            let anew = || (generation, Quietness::new(known.now));
            let watched = self.watched.entry(place).or_insert_with(anew);
            if watched.0 != generation {
                *watched = anew();
            }
            let ends = ends(&picture, state, place).into_iter();
            let ports = ends.flat_map(|(_, ports)| ports);
            watched.1.handle_observations(known, ports);
        }
    }

    /// Why it is not proven that nothing passes it.
    pub(crate) fn objections(
        &self,
        picture: &Picture<'_>,
        state: &State,
        place: Place,
    ) -> Vec<Reason> {
        let fabric = picture.fabric();
        let led = crossed(
            picture,
            state,
            &state.in_force().tables,
            &place.links(fabric),
        );
        if !led.is_empty() {
            let led = led.into_iter();
            return led.map(|link| Reason::NotAround { link }).collect();
        }
        let ends = ends(picture, state, place);
        // While it is worked on, it need not speak to its neighbours.
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
                let known = picture.known;
                let proof = quietness.proof(known.now, known.policy.most_age());
                proof.err().unwrap_or_default()
            }
            None => vec![Reason::NotWatched],
        };
        unseen.into_iter().chain(loud).collect()
    }

    pub(crate) fn status(&self, known: Known<'_>, state: &State) -> Vec<MaintenanceStatus> {
        if state.maintenance().is_empty() {
            return Vec::new();
        }
        let (picture, fabric) = (known.picture(), known.fabric);
        let status = |it: &Maintenance| {
            let objections = self.objections(&picture, state, it.place);
            let links = lit(fabric, state, it.place).into_iter();
            MaintenanceStatus {
                name: it.place.name(fabric).to_owned(),
                stage: it.stage,
                by: it.by.to_string(),
                age_ms: crate::operator::millis(known.now.since(it.since)),
                links: links.map(|link| fabric.link_name(link)).collect(),
                not_empty: crate::reasons::told(&objections, fabric),
            }
        };
        state.maintenance().iter().map(status).collect()
    }
}

/// The links of a place that there are, by the circuits in force.
fn lit(fabric: &Fabric, state: &State, place: Place) -> BTreeSet<LinkId> {
    let dark = fabric.dark(&state.in_force().circuits_of(fabric));
    place.links(fabric).difference(&dark).copied().collect()
}

/// By link, its ends at nodes that report.
fn ends(picture: &Picture<'_>, state: &State, place: Place) -> Vec<(LinkId, Vec<Port>)> {
    let fabric = picture.fabric();
    let port = |from, link| {
        let fibre = fabric.fibre_of(from, link);
        let fibre = fibre.map(|fibre| fibre.interface.clone());
        let cable = || Some(picture.wiring.end(Hop { from, link })?.interface.clone());
        let interface = fibre.or_else(cable)?;
        picture.known.is_fresh(from).then_some((from, interface))
    };
    let ports = |link| {
        let ends = fabric.link(link).ports().map(|end| port(end.node, link));
        (link, ends.into_iter().flatten().collect())
    };
    lit(fabric, state, place).into_iter().map(ports).collect()
}
