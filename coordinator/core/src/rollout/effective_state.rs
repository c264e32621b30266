//! The network from the view of one of several plans: its own changes, combined with every state that the other plans
//! may be in. The checker judges the others' next steps against this state, too.

use reweave_common::circuit::CircuitSet;
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::migration_plan::{Round, Tables};
use reweave_common::plan::Generation;

use crate::log::migration_steps::leads_alike;
use crate::log::state::{Migration, Rollout, Stage, State};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct EffectiveState {
    pub(super) tables: Tables,
    /// Tables that the plan's own nodes may hold instead, and those of all nodes.
    pub(super) own_unsure: Round,
    pub(super) unsure: Round,
    pub(super) circuits: Circuits,
}

impl EffectiveState {
    /// The state just before a plan starts, or during it.
    pub(super) fn new(state: &State, fabric: &Fabric, plan: Generation) -> Self {
        let in_force = state.in_force();
        let migration = state.rollout(plan).and_then(|it| it.phase.migration());
        let mut around = Self {
            tables: in_force.tables.clone(),
            own_unsure: migration.map(|it| it.unsure.clone()).unwrap_or_default(),
            unsure: Round::new(),
            circuits: in_force.circuits_of(fabric),
        };
        around.unsure.clone_from(&around.own_unsure);
        if let (Some(rollout), Some(migration)) = (state.rollout(plan), migration) {
            around.take(rollout, migration, &migration.circuits);
        }
        for other in state.beside(plan) {
            if let Some(migration) = other.phase.migration() {
                around.take(other, migration, &certain(migration));
                around.unsure.extend(migration.unsure_now());
            }
        }
        // In a round of pins, nodes hold the same table before and after.
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

    fn take(&mut self, rollout: &Rollout, migration: &Migration, circuits: &Circuits) {
        for &node in &rollout.claims.nodes {
            match migration.tables.get(&node) {
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

/// The circuits before a move and after it, while they may be moving.
fn certain(migration: &Migration) -> Circuits {
    let mut circuits = migration.circuits.clone();
    if let Stage::Switching(moving) = &migration.stage {
        for (optical, target) in &moving.targets {
            let [expected, desired] = [&target.moved.expected, &target.moved.desired];
            let both = expected.iter().filter(|&circuit| desired.contains(circuit));
            circuits.insert(*optical, both.collect::<CircuitSet>());
        }
    }
    circuits
}
