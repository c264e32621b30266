//! Circuits that a person wants, or everything as it was: made into a plan, judged, and put on offer.

use std::collections::BTreeMap;

use reweave_common::circuit::{CircuitSet, OpticalName};
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::operator::{Refused, Response};
use reweave_common::plan::{Generation, Plan};

use super::running;
use crate::back;
use crate::command::{Author, Change};
use crate::planning;
use crate::rewiring;
use crate::rollout::{Hindrance, Turn, first_step, is_needed};

pub(super) fn rewire(
    turn: &mut Turn<'_>,
    principal: String,
    wanted: BTreeMap<OpticalName, CircuitSet>,
) -> Response {
    if let Some(running) = running(turn) {
        return Response::Refused(Refused::Busy { running });
    }
    let wanted = match resolve(turn.known.fabric, wanted) {
        Ok(wanted) => wanted,
        Err(refused) => return Response::Refused(refused),
    };
    let plan = rewiring::plan(&turn.known.picture(), turn.state, &wanted);
    offer(turn, principal, plan)
}

/// Everything as it was before a change that was kept.
pub(super) fn take_back(
    turn: &mut Turn<'_>,
    principal: String,
    which: Option<Generation>,
) -> Response {
    if let Some(running) = running(turn) {
        return Response::Refused(Refused::Busy { running });
    }
    match back::plan(&turn.known.picture(), turn.state, which) {
        Ok(plan) => offer(turn, principal, plan),
        Err(why) => Response::Refused(Refused::NoWayBack(why)),
    }
}

/// What is not ready yet is put on offer all the same; what is wrong is not.
pub(super) fn offer(turn: &mut Turn<'_>, principal: String, plan: Plan) -> Response {
    let not_seen = turn.known.picture().not_seen();
    let in_force = turn.state.in_force();
    if plan.pins == in_force.pins && !is_needed(turn.known, in_force, &plan) {
        return Response::Refused(Refused::NothingToChange);
    }
    let proposed = turn.state.rollout().map(|rollout| &rollout.plan);
    if let Some(same) = proposed.filter(|proposed| planning::do_the_same(proposed, &plan)) {
        return turn.shown(same, not_seen);
    }
    if let Err(Hindrance::Wrong(reasons)) = first_step(turn, &plan) {
        let reasons = turn.words(&reasons);
        return Response::Refused(Refused::Unfit { reasons });
    }
    let shown = turn.shown(&plan, not_seen);
    turn.decide(Change::PlanProposed {
        plan: Box::new(plan),
        by: Author::Operator(principal),
    });
    shown
}

fn resolve(
    fabric: &Fabric,
    wanted: BTreeMap<OpticalName, CircuitSet>,
) -> Result<Circuits, Refused> {
    let find = |(name, set): (OpticalName, CircuitSet)| {
        let found = fabric.find_optical(&name.0);
        let name = name.0;
        found
            .map(|optical| (optical, set))
            .ok_or(Refused::NoSuchSwitch { name })
    };
    wanted.into_iter().map(find).collect()
}
