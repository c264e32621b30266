//! The rollback over exactly the completed steps. A sound step is sound in reverse: a round is checked in all
//! mixtures of before and after, and no packet passes circuits while they move, in either direction. The capacity
//! that nodes keep meanwhile is checked again.

use reweave_common::fabric::Circuits;
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Round, Tables, Wave};

use super::held_state::Held;

/// From behind this many steps to where the migration began, at these tables and circuits.
pub(crate) fn retraced(
    course: &MigrationPlan,
    legs: usize,
    (tables, circuits): (&Tables, &Circuits),
) -> MigrationPlan {
    let mut held = Held::first(tables, circuits);
    let mut undone = Vec::new();
    for (_, leg) in course.legs().take(legs) {
        undone.push(Undone::of(leg, &held));
        held.pass(leg);
    }
    let mut waves = Vec::new();
    for leg in undone.into_iter().rev() {
        leg.follow(&mut waves);
    }
    MigrationPlan { waves }
}

/// What was there before a step, of all that it changes.
enum Undone {
    Round(Round),
    Switch(Circuits),
}

impl Undone {
    fn of(leg: MigrationStep<'_>, held: &Held) -> Self {
        match leg {
            MigrationStep::Round(round) => Self::Round(held.tables_of(round.keys().copied())),
            MigrationStep::Switch(moved) => Self::Switch(held.circuits_of(moved)),
        }
    }

    /// After all that is there already.
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
