//! The rollback over exactly the completed steps. A sound step is sound in reverse: a round is checked in all
//! mixtures of before and after, and no packet passes circuits while they move, in either direction. The capacity
//! that nodes keep meanwhile is checked again.

use reweave_common::fabric::Circuits;
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Round, Tables, Wave};

use super::held_state::Held;

/// The steps back from the state after `completed` steps to the start of the migration, at these tables and circuits.
pub(crate) fn retraced(
    migration_plan: &MigrationPlan,
    completed: usize,
    tables: &Tables,
    circuits: &Circuits,
) -> MigrationPlan {
    let mut held = Held::first(tables, circuits);
    let mut undone = Vec::new();
    for (_, step) in migration_plan.steps().take(completed) {
        undone.push(Undone::of(step, &held));
        held.pass(step);
    }
    let mut waves = Vec::new();
    for step in undone.into_iter().rev() {
        step.follow(&mut waves);
    }
    MigrationPlan { waves }
}

/// What a step replaced.
enum Undone {
    Round(Round),
    Switch(Circuits),
}

impl Undone {
    fn of(step: MigrationStep<'_>, held: &Held) -> Self {
        match step {
            MigrationStep::Round(round) => Self::Round(held.tables_of(round.keys().copied())),
            MigrationStep::Switch(moved) => Self::Switch(held.circuits_of(moved)),
        }
    }

    /// Appends this to the waves.
    fn follow(self, waves: &mut Vec<Wave>) {
        if waves.is_empty() || matches!(self, Self::Switch(_)) {
            waves.push(Wave::default());
        }
        if let Some(wave) = waves.last_mut() {
            match self {
                Self::Round(round) => wave.undrain.push(round),
                Self::Switch(circuits) => wave.circuits = circuits,
            }
        }
    }
}
