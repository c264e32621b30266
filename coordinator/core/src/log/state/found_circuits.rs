//! Circuits that an optical switch holds without an instruction: a circuit has failed, or an operator has changed it on
//! the device. They are in force, since packets follow them. What was ordered is kept until a plan moves circuits of the
//! switch, so that an alarm can name the difference.

use reweave_common::circuit::{CircuitSet, NotSwitched};
use reweave_common::fabric::Fabric;
use reweave_common::ids::OpticalId;
use reweave_common::moment::Moment;

use super::{Outcome, Phase, Rollout, State, TAIL_SINCE_MINOR};
use crate::log::reason::Reason;

impl State {
    /// Whether this report changes the circuits in force. A switch of the fabric can hold them.
    pub(crate) fn is_changed_by(
        &self,
        fabric: &Fabric,
        optical: OpticalId,
        found: &CircuitSet,
    ) -> bool {
        let Some(first) = fabric.first_circuits().get(&optical) else {
            return false;
        };
        let held = self.in_force.circuits.get(&optical).unwrap_or(first);
        held != found && found.fits(fabric.optical(optical).ports) && self.may_find(optical)
    }

    /// While a plan moves circuits of a switch, only answers to its instructions say what the switch holds.
    pub(crate) fn is_moving(&self, optical: OpticalId) -> bool {
        let mut rollouts = self.rollouts.iter();
        rollouts.any(|it| claims(it, optical) && matches!(it.phase, Phase::Migrating(_)))
    }

    fn may_find(&self, optical: OpticalId) -> bool {
        self.cluster_version >= TAIL_SINCE_MINOR && !self.is_moving(optical)
    }

    /// Puts the circuits in force. Plans that would move circuits of the switch, and have not started, were made for
    /// others.
    pub(super) fn find_circuits(&mut self, at: Moment, optical: OpticalId, found: &CircuitSet) {
        if !self.may_find(optical) {
            return;
        }
        let held = self.in_force.circuits.insert(optical, found.clone());
        let ordered = self.tail.ordered.entry(optical).or_insert(held);
        if ordered.as_ref() == Some(found) {
            self.tail.ordered.remove(&optical);
        }
        self.withdraw_movers(at, optical, found);
        for rollout in &mut self.rollouts {
            if let Some(migration) = rollout.phase.migration_mut() {
                migration.find_circuits(optical, found);
            }
        }
        self.rebase();
    }

    fn withdraw_movers(&mut self, at: Moment, optical: OpticalId, found: &CircuitSet) {
        let movers = self.rollouts.iter().filter(|it| claims(it, optical));
        let movers: Vec<_> = movers.map(|it| it.plan.generation).collect();
        for generation in movers {
            let why = NotSwitched::Mismatch {
                found: found.clone(),
            };
            let reasons = vec![Reason::NotSwitched { optical, why }];
            self.drop_plan(at, generation, Outcome::Withdrawn { reasons });
        }
    }
}

fn claims(rollout: &Rollout, optical: OpticalId) -> bool {
    rollout.claims.opticals.contains(&optical)
}
