//! Maintenance of a switch: logs its stage, and proposes the routes that it needs.

use std::collections::BTreeSet;

use reweave_common::fabric::Fabric;
use reweave_common::operator::{MaintenanceStage, Refused, Response};
use reweave_common::plan::Generation;

use super::LeaderView;
use super::drain::{Wished, wish};
use crate::log::command::{Author, Change};
use crate::log::device::Device;
use crate::log::maintenance::Maintenance;
use crate::plan::drain_routes::LinkIntent;
use crate::rollout::DecisionContext;

/// Starts or ends maintenance; no stage ends it. Refused while another operator has the device under maintenance.
pub(super) fn maintain(
    turn: &mut DecisionContext<'_>,
    principal: String,
    name: String,
    stage: Option<MaintenanceStage>,
    seen: LeaderView<'_>,
) -> Response {
    let Some(mut work) = Work::find(turn, &name, principal) else {
        return Response::Refused(Refused::NotToMaintain { name });
    };
    match work.now {
        None if stage != Some(MaintenanceStage::Draining) => {
            return Response::Refused(Refused::NotUnderMaintenance { name });
        }
        Some(held) if !work.may_reach(held, stage) => {
            return Response::Refused(under_maintenance(turn, held, name));
        }
        _ => {}
    }
    match stage {
        Some(MaintenanceStage::Draining) => work.drain(turn),
        Some(MaintenanceStage::Working) => work.begin(turn, seen),
        Some(MaintenanceStage::Returning) => work.give_back(turn),
        None => work.note(turn, None),
    }
}

/// Makes the requester the operator of the maintenance. Its stage stays, and so do all routes.
pub(super) fn take_over(
    turn: &mut DecisionContext<'_>,
    principal: String,
    name: String,
) -> Response {
    let Some(work) = Work::find(turn, &name, principal) else {
        return Response::Refused(Refused::NotToMaintain { name });
    };
    match work.now {
        Some(held) => work.note(turn, Some(held.stage)),
        None => Response::Refused(Refused::NotUnderMaintenance { name }),
    }
}

fn under_maintenance(turn: &DecisionContext<'_>, held: &Maintenance, name: String) -> Refused {
    Refused::UnderMaintenance {
        name,
        by: held.by.to_string(),
        stage: held.stage,
        age_s: turn.known.now.since(held.since).as_secs(),
    }
}

/// A host forwards no packets, so there is nothing to drain.
fn is_host(fabric: &Fabric, place: Device) -> bool {
    matches!(place, Device::Node(node) if !fabric.node(node).role.forwards())
}

struct Work<'s> {
    place: Device,
    now: Option<&'s Maintenance>,
    by: String,
}

impl<'s> Work<'s> {
    /// Returns nothing for a name that no switch has.
    fn find(turn: &DecisionContext<'s>, name: &str, by: String) -> Option<Self> {
        let (fabric, state) = (turn.known.fabric, turn.state);
        let place = Device::find(fabric, name).filter(|place| !is_host(fabric, *place))?;
        let now = state.maintenance().iter().find(|it| it.place == place);
        Some(Self { place, now, by })
    }

    /// Whether the requester may change the stage without taking over. The stage `working` is reached once: a command
    /// may run since then, from another shell of the same operator.
    fn may_reach(&self, held: &Maintenance, stage: Option<MaintenanceStage>) -> bool {
        let is_own = held.by == Author::Operator(self.by.clone());
        let works = Some(MaintenanceStage::Working);
        is_own && !(stage == works && Some(held.stage) == works)
    }

    fn drain(&mut self, turn: &mut DecisionContext<'_>) -> Response {
        let links = self.place.links(turn.known.fabric);
        let drained = |now: LinkIntent| {
            let drained = now.drained.union(&links).copied().collect();
            LinkIntent { drained, ..now }
        };
        let response = wish(turn, self.by.clone(), Wished::Drained, drained);
        self.note_if_done(turn, MaintenanceStage::Draining, response)
    }

    /// Ends the drain of the device's links. All other drained links stay drained.
    fn give_back(&mut self, turn: &mut DecisionContext<'_>) -> Response {
        let fabric = turn.known.fabric;
        let kept = self.now.map(|it| it.kept.clone()).unwrap_or_default();
        let others = turn.state.maintenance().iter();
        let others = others.filter(|it| it.place != self.place && it.is_closed());
        let others = others.flat_map(|it| it.place.links(fabric));
        let kept: BTreeSet<_> = kept.into_iter().chain(others).collect();
        let links = self.place.links(fabric);
        let without = |now: LinkIntent| {
            let stays = |link: &_| !links.contains(link) || kept.contains(link);
            let drained = now.drained.into_iter().filter(stays).collect();
            LinkIntent { drained, ..now }
        };
        let response = wish(turn, self.by.clone(), Wished::Drained, without);
        self.note_if_done(turn, MaintenanceStage::Returning, response)
    }

    fn begin(&mut self, turn: &mut DecisionContext<'_>, seen: LeaderView<'_>) -> Response {
        if let Some(running) = self.changed_by(turn) {
            return Response::Refused(Refused::Busy { running });
        }
        let world = turn.world();
        let objections = seen.upkeep.objections(world, turn.state, self.place);
        match objections.as_slice() {
            [] => self.note(turn, Some(MaintenanceStage::Working)),
            loud => Response::Refused(Refused::NotEmpty {
                reasons: turn.words(loud),
            }),
        }
    }

    /// The running plan that changes the paths through the device.
    fn changed_by(&self, turn: &DecisionContext<'_>) -> Option<Generation> {
        let links = self.place.links(turn.known.fabric);
        let mut under_way = turn.state.under_way();
        let found = under_way.find(|it| !it.claims.links.is_disjoint(&links));
        found.map(|it| it.plan.generation)
    }

    /// If the routes are already in force, only the stage is recorded.
    fn note_if_done(
        &self,
        turn: &mut DecisionContext<'_>,
        stage: MaintenanceStage,
        response: Response,
    ) -> Response {
        match response {
            Response::Plan { .. } => {
                self.note(turn, Some(stage));
                response
            }
            Response::Refused(Refused::NothingToChange) => self.note(turn, Some(stage)),
            other => other,
        }
    }

    fn note(&self, turn: &mut DecisionContext<'_>, stage: Option<MaintenanceStage>) -> Response {
        let before = || {
            let drained = LinkIntent::in_force(turn.known.fabric, turn.state).drained;
            let links = self.place.links(turn.known.fabric);
            drained.intersection(&links).copied().collect()
        };
        let kept = self.now.map_or_else(before, |it| it.kept.clone());
        turn.decide(Change::Maintained {
            place: self.place,
            stage,
            by: Author::Operator(self.by.clone()),
            kept,
        });
        Response::Plan {
            plan: None,
            not_seen: turn.world().not_seen(),
        }
    }
}
