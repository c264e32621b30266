//! The plan that restores the state before a kept change, as far as the history goes.

use reweave_common::operator::RollbackRefused;
use reweave_common::plan::{Generation, Plan, RankOrder};

use crate::log::state::{Ended, InForce, Outcome, State};
use crate::model::world::World;

/// The plan that restores the state before that change, or before the last kept change that was not rolled back. Flows
/// that have ended need no pins.
pub(crate) fn plan(
    world: &World<'_>,
    state: &State,
    which: Option<Generation>,
) -> Result<Plan, RollbackRefused> {
    let taken = taken(state, which)?;
    let generation = taken.generation;
    let before = before(state, taken).ok_or(RollbackRefused::Forgotten { generation })?;
    let (in_force, all) = (state.in_force(), before.circuits_of(world.fabric()));
    let moved = in_force.circuits.keys();
    let circuits = moved.filter_map(|optical| Some((*optical, all.get(optical)?.clone())));
    let pins = before.pins.iter().copied();
    let pins = pins.filter(|pin| !world.known.has_ended(&pin.flow));
    Ok(Plan {
        takes_back: Some(generation),
        pins: pins.collect(),
        circuits: circuits.collect(),
        tables: before.tables,
        orders: orders_back(state, taken),
        ..Plan::empty(state.next_generation(), in_force.generation)
    })
}

/// The orders to restore. Jobs that are over, or have another order by now, need none.
fn orders_back(state: &State, taken: &Plan) -> Vec<RankOrder> {
    let back = taken.orders.iter().map(|order| RankOrder {
        job: order.job.clone(),
        before: order.after.clone(),
        after: order.before.clone(),
        ring: None,
    });
    back.filter(|order| state.fits(order)).collect()
}

/// The state in force when this plan was made.
pub(crate) fn before(state: &State, plan: &Plan) -> Option<InForce> {
    at(state, plan.parent)
}

/// The state of that generation. A generation of a failed rollback has the state before it.
fn at(state: &State, generation: Generation) -> Option<InForce> {
    if generation == state.in_force().generation {
        return Some(state.in_force().clone());
    }
    if generation == Generation::default() {
        return Some(InForce::default());
    }
    let mut history = state.history().rev();
    history.find_map(|ended| match ended.outcome {
        Outcome::Committed if ended.plan.generation == generation => Some(held(&ended.plan)),
        Outcome::RolledBack { generation: it, .. } if it == generation => {
            at(state, ended.plan.parent)
        }
        _ => None,
    })
}

fn held(plan: &Plan) -> InForce {
    InForce {
        generation: plan.generation,
        pins: plan.pins.clone(),
        tables: plan.tables.clone(),
        circuits: plan.circuits.clone(),
        ..InForce::default()
    }
}

/// The plan to roll back, if no later plan depends on it.
fn taken(state: &State, which: Option<Generation>) -> Result<&Plan, RollbackRefused> {
    let (top, undone) = standing(state);
    match (which, top) {
        (None, Some(top)) => Ok(top),
        (None, None) => Err(RollbackRefused::NothingKept),
        (Some(which), Some(top)) if which == top.generation => Ok(top),
        (Some(generation), top) => Err(why_not(state, generation, top, &undone)),
    }
}

/// The last kept change, and which changes were rolled back by which.
fn standing(state: &State) -> (Option<&Plan>, Vec<[Generation; 2]>) {
    let (mut standing, mut undone) = (Vec::new(), Vec::new());
    for plan in kept(state) {
        match plan.takes_back {
            Some(taken) => {
                undone.push([taken, plan.generation]);
                standing.retain(|it: &&Plan| it.generation != taken);
            }
            None => standing.push(plan),
        }
    }
    (standing.pop(), undone)
}

fn kept(state: &State) -> impl Iterator<Item = &Plan> {
    let kept = |ended: &&Ended| ended.outcome == Outcome::Committed;
    state.history().filter(kept).map(|ended| &ended.plan)
}

fn why_not(
    state: &State,
    generation: Generation,
    top: Option<&Plan>,
    undone: &[[Generation; 2]],
) -> RollbackRefused {
    let found = kept(state).find(|plan| plan.generation == generation);
    let mut undone = undone.iter();
    match (found, top, undone.find(|[taken, _]| *taken == generation)) {
        (Some(_), _, Some([_, by])) => RollbackRefused::Undone {
            generation,
            by: *by,
        },
        (Some(plan), ..) if plan.takes_back.is_some() => {
            RollbackRefused::IsOneItself { generation }
        }
        (Some(_), Some(top), None) => RollbackRefused::BuiltUpon {
            generation,
            by: top.generation,
        },
        _ => RollbackRefused::NotKept { generation },
    }
}
