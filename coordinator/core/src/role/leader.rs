//! State that exists only while this coordinator leads.

use reweave_common::moment::Moment;
use reweave_common::operator::Imbalances;

use crate::core::Core;
use crate::log::command::Command;
use crate::log::effect::{AuditRecord, Effect, Input};
use crate::log::state::State;

#[derive(Debug, Clone)]
pub(super) struct Leader {
    core: Core,
    term: u64,
    /// In this term.
    proposed: u64,
    /// Of these, one after the other.
    applied: u64,
}

impl Leader {
    pub(super) fn new(core: Core, term: u64) -> Self {
        Self {
            core,
            term,
            proposed: 0,
            applied: 0,
        }
    }

    pub(super) fn handle(&mut self, at: Moment, input: Input) {
        self.core.handle(at, input);
    }

    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        self.core.poll_effect()
    }

    pub(super) fn is_amid_tick(&self) -> bool {
        self.core.is_amid_tick()
    }

    pub(super) fn is_judging(&self) -> bool {
        self.core.is_judging()
    }

    pub(super) fn poll_evenness(&mut self) -> Option<(Moment, Imbalances)> {
        self.core.poll_evenness()
    }

    pub(super) fn poll_record(&mut self) -> Option<AuditRecord> {
        self.core.poll_record()
    }

    pub(super) fn take_seal(&mut self, id: u64) -> Option<String> {
        self.core.take_seal(id)
    }

    pub(super) fn apply(&mut self, command: Command) {
        self.applied = self.proposed;
        self.core.apply(command);
    }

    /// Terms have one leader each.
    pub(super) fn name_proposal(&mut self) -> u64 {
        self.proposed += 1;
        (self.term << 32) + self.proposed
    }

    pub(super) fn is_proposing(&self) -> bool {
        self.applied < self.proposed
    }

    /// How many commands it has proposed in this term.
    pub(super) fn proposed(&self) -> u64 {
        self.proposed
    }

    /// How many of them are agreed on.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    pub(super) fn state(&self) -> &State {
        self.core.state()
    }

    pub(super) fn into_state(self) -> State {
        self.core.into_state()
    }
}
