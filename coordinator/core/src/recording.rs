//! A recorded run: its start state and every input, for replay.

use std::sync::Arc;

use reweave_common::fabric::Fabric;
use reweave_common::moment::Moment;
use serde::{Deserialize, Serialize};

use crate::core::Core;
use crate::log::command::Command;
use crate::log::effect::{Effect, Input};
use crate::log::policy::Policy;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    pub policy: Policy,
    /// The log at the start of the run.
    pub log: Vec<Command>,
    pub inputs: Vec<Recorded>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    pub at: Moment,
    pub input: Input,
}

impl Recording {
    /// The effects of the run, in order. They are those of the recorded run if each log entry was applied before the
    /// next input, as it is with a single coordinator.
    pub fn replay(&self, fabric: Arc<Fabric>) -> Vec<Effect> {
        let mut core = Core::new(self.policy.clone(), fabric);
        self.log
            .iter()
            .cloned()
            .for_each(|command| core.apply(command));
        let mut effects = Vec::new();
        for Recorded { at, input } in &self.inputs {
            core.handle(*at, input.clone());
            while let Some(effect) = core.poll_effect() {
                if let Effect::Append(command) = &effect {
                    core.apply(command.clone());
                }
                effects.push(effect);
            }
        }
        effects
    }
}
