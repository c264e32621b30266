//! Requests of operators about running plans, and their fulfilment.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::operator::Steering;
use reweave_common::plan::Generation;
use reweave_core::{Change, Decision, Move};

use super::laws::Breach;

#[derive(Debug, Clone, Default)]
pub(super) struct Wishes {
    stopped: BTreeSet<Generation>,
    aborted: BTreeSet<Generation>,
    /// The last instructions of each plan: they may be sent again.
    instructed: BTreeMap<Generation, InstructedState>,
}

#[derive(Debug, Clone, PartialEq)]
enum InstructedState {
    Round(BTreeMap<NodeId, ForwardingState>),
    Moves(BTreeMap<OpticalId, Move>),
}

impl Wishes {
    pub(super) fn look_at(&mut self, change: &Change) -> Option<Breach> {
        match change {
            Change::Steered {
                generation, how, ..
            } => {
                self.take(*generation, *how);
                None
            }
            Change::Departed(departure) => self.begun(departure.generation),
            Change::StepIntent(intent) => {
                let instructed = InstructedState::Round(intent.targets.clone());
                self.note_instruction(intent.plan, instructed)
            }
            Change::CircuitIntent { plan, moves, .. } => {
                self.note_instruction(*plan, InstructedState::Moves(moves.clone()))
            }
            Change::Verified {
                generation,
                verdict,
            } if verdict.decision == Decision::Commit => {
                let is_kept = self.aborted.contains(generation);
                let is_kept = is_kept.then_some(Breach::KeptThoughAborted(*generation));
                is_kept.or_else(|| self.begun(*generation))
            }
            _ => None,
        }
    }

    fn take(&mut self, plan: Generation, how: Steering) {
        match how {
            Steering::Hold => self.stopped.insert(plan),
            Steering::Resume => self.stopped.remove(&plan),
            Steering::Abort => {
                self.stopped.remove(&plan);
                self.aborted.insert(plan)
            }
        };
    }

    fn note_instruction(
        &mut self,
        plan: Generation,
        instructed: InstructedState,
    ) -> Option<Breach> {
        let is_again = self.instructed.get(&plan) == Some(&instructed);
        self.instructed.insert(plan, instructed);
        if is_again { None } else { self.begun(plan) }
    }

    fn begun(&self, plan: Generation) -> Option<Breach> {
        let is_stopped = self.stopped.contains(&plan);
        is_stopped.then_some(Breach::BegunThoughStopped(plan))
    }
}
