//! Operators' requests to hold, resume or abort a running plan. They are in the log, so a new leader follows them.

use reweave_common::operator::Steering;
use reweave_common::plan::Generation;
use serde::{Deserialize, Serialize};

use super::{Migration, Phase, Rollout, Signed, State};
use crate::log::command::Author;
use crate::log::reason::Reason;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steered {
    /// An operator holds the plan: it begins no further step.
    pub stopped: Option<Signed>,
    /// An operator aborted the plan: it is rolled back and never kept.
    pub aborted: Option<Author>,
    /// The number of requests to retry at once.
    pub urged: u32,
}

impl Rollout {
    pub fn is_stopped(&self) -> bool {
        self.steered.stopped.is_some()
    }

    /// The reason of a rollback that an operator requested and that may be done now.
    pub(crate) fn aborted(&self) -> Option<Reason> {
        let by = self.steered.aborted.clone().filter(|_| !self.is_stopped());
        by.map(|by| Reason::Aborted { by })
    }

    /// Whether it is rolling back, or waits for a rollback.
    pub(crate) fn leads_back(&self) -> bool {
        self.phase.migration().is_some_and(Migration::leads_back)
    }

    /// Whether it is blocked and being retried.
    pub(crate) fn is_held(&self) -> bool {
        self.phase.migration().is_some_and(Migration::is_held)
    }
}

impl State {
    pub(super) fn steer(&mut self, generation: Generation, how: Steering, signed: Signed) {
        let under_way = |it: &&mut Rollout| it.phase != Phase::Proposed;
        let Some(rollout) = self.rollout_mut(generation).filter(under_way) else {
            return;
        };
        let steered = &mut rollout.steered;
        match how {
            Steering::Hold => steered.stopped = Some(signed),
            Steering::Resume => {
                steered.stopped = None;
                steered.urged = steered.urged.wrapping_add(1);
            }
            Steering::Abort => {
                steered.stopped = None;
                steered.aborted.get_or_insert(signed.by);
            }
        }
    }
}
