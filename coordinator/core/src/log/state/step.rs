//! One round of instructions to switches, and the answer of each.

use std::collections::BTreeMap;

use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::NodeId;
use reweave_common::instruction::{Ack, Install, InstallRefusal, Token};
use reweave_common::plan::Generation;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub generation: Generation,
    pub token: Token,
    pub targets: BTreeMap<NodeId, Target>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub holding: ForwardingState,
    /// The switch's first answer; later ones are ignored.
    pub answer: Option<StepAnswer>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Answer")]
pub enum StepAnswer {
    /// The switch read back exactly the instructed state.
    Done,
    Refused(InstallRefusal),
    /// The switch read back another state.
    HoldsOtherRules,
}

impl Step {
    pub(super) fn new(
        generation: Generation,
        token: Token,
        targets: BTreeMap<NodeId, ForwardingState>,
    ) -> Self {
        let target = |(node, holding)| {
            let answer = None;
            (node, Target { holding, answer })
        };
        Self {
            generation,
            token,
            targets: targets.into_iter().map(target).collect(),
        }
    }

    /// The same step under another token, with no answer yet.
    pub(super) fn again(mut self, token: Token) -> Self {
        self.token = token;
        for target in self.targets.values_mut() {
            target.answer = None;
        }
        self
    }

    pub(crate) fn install(&self, node: NodeId) -> Option<Install> {
        let target = self.targets.get(&node)?;
        let (generation, token) = (self.generation, self.token);
        Some(Install {
            generation,
            token,
            holding: target.holding.clone(),
        })
    }

    /// The instruction to every switch of the step.
    pub(super) fn installs(&self) -> impl Iterator<Item = (NodeId, Install)> {
        self.targets
            .keys()
            .filter_map(|&node| Some((node, self.install(node)?)))
    }

    /// The instructions that were acknowledged with success.
    pub(super) fn confirmed_installs(&self) -> impl Iterator<Item = (NodeId, Install)> {
        self.installs().filter(|(node, _)| self.is_done(*node))
    }

    /// Whether this ack is the first answer of a switch to this step.
    pub(crate) fn awaits(&self, node: NodeId, ack: &Ack) -> bool {
        let is_ours = ack.token == self.token && ack.generation == self.generation;
        is_ours
            && self
                .targets
                .get(&node)
                .is_some_and(|target| target.answer.is_none())
    }

    pub(super) fn acknowledge(&mut self, node: NodeId, ack: &Ack) -> bool {
        let awaited = self.awaits(node, ack);
        if let Some(target) = self.targets.get_mut(&node).filter(|_| awaited) {
            target.answer = Some(answer(&target.holding, ack.outcome.clone()));
        }
        awaited
    }

    pub(crate) fn unanswered(&self) -> impl Iterator<Item = NodeId> {
        self.targets
            .iter()
            .filter(|(_, target)| target.answer.is_none())
            .map(|(&node, _)| node)
    }

    /// The switches that failed, with their answers.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (NodeId, &StepAnswer)> {
        let answered = self
            .targets
            .iter()
            .filter_map(|(&node, t)| Some((node, t.answer.as_ref()?)));
        answered.filter(|(_, answer)| **answer != StepAnswer::Done)
    }

    pub(crate) fn all_done(&self) -> bool {
        self.targets.keys().all(|&node| self.is_done(node))
    }

    pub(super) fn is_done(&self, node: NodeId) -> bool {
        self.answer(node) == Some(&StepAnswer::Done)
    }

    /// Whether the node refused in a way that proves its state unchanged.
    pub(super) fn is_unchanged(&self, node: NodeId) -> bool {
        use InstallRefusal::{Kernel, NotASwitch, NotDurable};
        let answer = self.answer(node);
        matches!(
            answer,
            Some(StepAnswer::Refused(
                Kernel { .. } | NotDurable { .. } | NotASwitch
            ))
        )
    }

    /// Nodes with rules that refused, whose state is therefore only assumed to be unchanged.
    pub(crate) fn on_their_word(&self) -> impl Iterator<Item = (NodeId, &Target)> {
        let not_a_switch = StepAnswer::Refused(InstallRefusal::NotASwitch);
        let targets = self.targets.iter().map(|(&node, target)| (node, target));
        targets.filter(move |(node, target)| {
            !self.is_done(*node) && target.answer.as_ref() != Some(&not_a_switch)
        })
    }

    fn answer(&self, node: NodeId) -> Option<&StepAnswer> {
        self.targets.get(&node)?.answer.as_ref()
    }
}

fn answer(
    instructed: &ForwardingState,
    outcome: Result<ForwardingState, InstallRefusal>,
) -> StepAnswer {
    match outcome {
        Ok(held) if held.is_same_as(instructed) => StepAnswer::Done,
        Ok(_) => StepAnswer::HoldsOtherRules,
        Err(refusal) => StepAnswer::Refused(refusal),
    }
}
