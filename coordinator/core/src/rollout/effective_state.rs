//! The network as one plan of several finds it: its own changes, combined with any state that the other plans may be
//! in now. The checker judges each next step of the others against this state, too.

use reweave_common::circuit::CircuitSet;
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::migration_plan::{Round, Tables};
use reweave_common::plan::Generation;

use crate::log::migration_steps::leads_alike;
use crate::log::state::{Migration, Rollout, Stage, State};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct EffectiveState {
    pub(super) tables: Tables,
    /// Nodes of its own that may hold these instead, and nodes of all.
    pub(super) own_unsure: Round,
    pub(super) unsure: Round,
    pub(super) circuits: Circuits,
}

impl EffectiveState {
    /// Just before a plan departs, or wherever it is.
    pub(super) fn new(state: &State, fabric: &Fabric, plan: Generation) -> Self {
        let in_force = state.in_force();
        let journey = state.rollout(plan).and_then(|it| it.phase.journey());
        let mut around = Self {
            tables: in_force.tables.clone(),
            own_unsure: journey.map(|it| it.unsure.clone()).unwrap_or_default(),
            unsure: Round::new(),
            circuits: in_force.circuits_of(fabric),
        };
        around.unsure.clone_from(&around.own_unsure);
        if let (Some(rollout), Some(journey)) = (state.rollout(plan), journey) {
            around.take(rollout, journey, &journey.circuits);
        }
        for other in state.beside(plan) {
            if let Some(journey) = other.phase.journey() {
                around.take(other, journey, &certain(journey));
                around.unsure.extend(journey.unsure_now());
            }
        }
        // Of a round of pins, nodes hold the same table either way.
        let Self {
            tables,
            own_unsure,
            unsure,
            ..
        } = &mut around;
        for unsure in [own_unsure, unsure] {
            unsure.retain(|node, table| !leads_alike(tables.get(node), Some(&*table)));
        }
        around
    }

    fn take(&mut self, rollout: &Rollout, journey: &Migration, circuits: &Circuits) {
        for &node in &rollout.claims.nodes {
            match journey.tables.get(&node) {
                Some(table) => self.tables.insert(node, table.clone()),
                None => self.tables.remove(&node),
            };
        }
        for optical in &rollout.claims.opticals {
            let set = circuits.get(optical).cloned();
            self.circuits.extend(set.map(|set| (*optical, set)));
        }
    }
}

/// While circuits may be moving, those that are there before and after.
fn certain(journey: &Migration) -> Circuits {
    let mut circuits = journey.circuits.clone();
    if let Stage::Switching(moving) = &journey.stage {
        for (optical, target) in &moving.targets {
            let [expected, desired] = [&target.moved.expected, &target.moved.desired];
            let both = expected.iter().filter(|&circuit| desired.contains(circuit));
            circuits.insert(*optical, both.collect::<CircuitSet>());
        }
    }
    circuits
}
