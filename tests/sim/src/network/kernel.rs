//! The pins that the kernel of a switch holds, and how they change: one operation after the other.

use std::collections::VecDeque;

use reweave_agent_core::reconcile::{RuleOp, reconcile};
use reweave_common::flow::FlowKey;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::sample::PinRule;

use crate::shell::Holds;

/// Survives its agent.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// The oldest first: of two for one flow, it is followed.
    rules: Vec<PinRule>,
    /// While set, the kernel accepts no rule.
    pub(super) refuses: bool,
    /// Another program removed its rules, and its agent has not put them back yet.
    is_robbed: bool,
}

impl Kernel {
    pub fn holding(rules: Vec<PinRule>) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    pub fn rules(&self) -> &[PinRule] {
        &self.rules
    }

    pub fn is_robbed(&self) -> bool {
        self.is_robbed
    }

    pub(super) fn followed(&self, flow: &FlowKey) -> Option<&PinRule> {
        self.rules.iter().find(|rule| rule.flow == *flow)
    }

    /// One change at a time, as a kernel takes them.
    pub(super) fn change(&mut self, op: &RuleOp) -> Result<(), String> {
        self.is_robbed = false;
        match op {
            RuleOp::Add(_) if self.refuses => Err("no space left for rules".to_owned()),
            RuleOp::Add(rule) if self.rules.contains(rule) => Ok(()),
            RuleOp::Add(rule) => {
                self.rules.push(rule.clone());
                Ok(())
            }
            RuleOp::Remove(rule) => {
                self.rules.retain(|held| held != rule);
                Ok(())
            }
        }
    }

    pub(super) fn flush(&mut self) {
        self.is_robbed |= !self.rules.is_empty();
        self.rules.clear();
    }
}

impl Holds for Kernel {
    type Op = RuleOp;

    fn ops_to_hold(&self, desired: &ForwardingState) -> VecDeque<RuleOp> {
        reconcile(&desired.rules, &self.rules).into()
    }

    fn held(&self) -> ForwardingState {
        ForwardingState::of_pins(self.rules.clone())
    }
}
