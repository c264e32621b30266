//! Makes, checks and proposes a plan of circuits: those that an operator names, those that suit the traffic, or a
//! rollback.

use std::collections::BTreeMap;

use reweave_common::circuit::{CircuitSet, OpticalName};
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::operator::{Refused, Response};
use reweave_common::plan::{Generation, Plan};
use reweave_repair::Unsuited;

use crate::log::command::Author;
use crate::log::state::State;
use crate::model::fibre_macs;
use crate::model::world::World;
use crate::plan::prediction::promising;
use crate::plan::{rewire, rollback_plan};
use crate::rollout::{DecisionContext, Hindrance, first_step, is_needed};

pub(super) fn rewire(
    turn: &mut DecisionContext<'_>,
    principal: String,
    wanted: BTreeMap<OpticalName, CircuitSet>,
) -> Response {
    let world = turn.world();
    let plan = if wanted.is_empty() {
        rewire::suiting(world, turn.state).map_err(unsuited)
    } else {
        let wanted = resolve(turn.known.fabric, wanted);
        wanted.map(|wanted| rewire::wanted(world, turn.state, &wanted))
    };
    let plan = plan.and_then(|plan| like(world, turn.state, plan));
    match plan {
        Ok(plan) => offer(turn, principal, plan),
        Err(refused) => Response::Refused(refused),
    }
}

/// Checks that the fibres of the moved optical switches have one hardware address.
fn like(world: &World<'_>, state: &State, plan: Plan) -> Result<Plan, Refused> {
    let before = state.in_force().circuits_of(world.fabric());
    let mut moved = plan.circuits.clone();
    moved.retain(|optical, circuits| before.get(optical) != Some(circuits));
    match fibre_macs::unlike(world, &moved) {
        Some(why) => Err(Refused::Unfit { reasons: vec![why] }),
        None => Ok(plan),
    }
}

fn unsuited(why: Unsuited) -> Refused {
    let why = why.to_string();
    Refused::NoBetterCircuits { why }
}

/// A plan that restores everything that a kept change replaced.
pub(super) fn take_back(
    turn: &mut DecisionContext<'_>,
    principal: String,
    which: Option<Generation>,
) -> Response {
    match rollback_plan::plan(turn.world(), turn.state, which) {
        Ok(plan) => offer(turn, principal, plan),
        Err(why) => Response::Refused(Refused::NoWayBack(why)),
    }
}

/// Proposes the plan, even if it is not ready yet, unless it is unsound.
pub(super) fn offer(turn: &mut DecisionContext<'_>, principal: String, plan: Plan) -> Response {
    let not_seen = turn.world().not_seen();
    let in_force = turn.state.in_force();
    let is_network_same = plan.pins == in_force.pins && !is_needed(turn.known, in_force, &plan);
    if is_network_same && plan.orders.is_empty() {
        return Response::Refused(Refused::NothingToChange);
    }
    let plan = promising(turn.world(), turn.state, plan);
    if let Some(shown) = turn.shown_already(&plan, &not_seen) {
        return shown;
    }
    if let Some((running, _)) = turn.in_the_way(&plan) {
        return Response::Refused(Refused::Busy { running });
    }
    if let Err(Hindrance::Wrong(reasons)) = first_step(turn, &plan) {
        let reasons = turn.words(&reasons);
        return Response::Refused(Refused::Unfit { reasons });
    }
    let shown = turn.shown(&plan, not_seen);
    let proposal = turn.proposal(plan, Author::Operator(principal));
    turn.decide(proposal);
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
