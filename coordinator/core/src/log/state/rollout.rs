//! A rollout: a plan from proposal to end.
//!
//! ```text
//! Proposed -> Approved -> Unconfirmed -> Confirming -> Verifying -> committed
//!     |           |            |             |             |
//!     +-----------+            +-------------+-------------+-> RollingBack -> rolled back
//!     refused or withdrawn                                         |              |
//!                                                                  +--> Held -----+
//! ```
//! A plan that begins in a cluster of version 1.0 is Applying in place of Unconfirmed and Confirming. One that changes
//! tables or circuits is Travelling in place of these and all that follows.

use std::collections::BTreeSet;
use std::mem;

use reweave_common::ids::NodeId;
use reweave_common::instruction::{Ack, Install, Token};
use reweave_common::migration_plan::Tables;
use reweave_common::moment::Moment;
use reweave_common::plan::{Generation, Plan};
use reweave_common::resource_set::ResourceSet;
use serde::{Deserialize, Serialize};

use super::migration::Migration;
use super::plan_control::Steered;
use super::step::Step;
use crate::log::command::{Author, Before, Departure};
use crate::log::reason::Reason;
use crate::log::verdict::Verdict;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// What it does not claim is as others have left it.
    pub plan: Plan,
    /// What it needs for itself alone.
    pub claims: ResourceSet,
    pub proposed: Signed,
    pub approved: Option<Signed>,
    /// The approval forces it even if flows become slower.
    pub anyway: bool,
    /// The rates of the flows just before anything was installed.
    pub before: Vec<Before>,
    pub verdict: Option<Verdict>,
    pub steered: Steered,
    pub phase: Phase,
}

/// Who did it, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    pub at: Moment,
    pub by: Author,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    Proposed,
    Approved,
    Applying(Step),
    Verifying(Step),
    RollingBack(Undo),
    /// Taking it back could not be confirmed in time; it is tried on.
    Held(Undo),
    /// Tables and circuits in their migration, there or back.
    Travelling(Box<Migration>),
    // What came with 1.1 follows.
    /// Switches apply it, and roll back unless it is confirmed.
    Unconfirmed(Step),
    /// All of them have applied it, and get the confirmation.
    Confirming(Step),
}

/// The rollback of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Undo {
    pub reasons: Vec<Reason>,
    /// All that may hold the plan's rules.
    pub switches: BTreeSet<NodeId>,
    /// Switches that are known to hold the parent's rules, regardless of later refusals.
    clean: BTreeSet<NodeId>,
    /// Absent until the intent is in the log.
    pub step: Option<Step>,
}

/// A plan that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub plan: Plan,
    pub proposed: Signed,
    pub approved: Option<Signed>,
    pub verdict: Option<Verdict>,
    pub at: Moment,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// Found wrong before anything was installed.
    Refused {
        reasons: Vec<Reason>,
    },
    /// No longer wanted before anything was installed.
    Withdrawn {
        reasons: Vec<Reason>,
    },
    Committed,
    /// The parent's pins are in force again, under this generation.
    RolledBack {
        generation: Generation,
        reasons: Vec<Reason>,
    },
}

impl Outcome {
    /// Whether any switch got an instruction.
    pub(crate) fn changed_something(&self) -> bool {
        matches!(self, Self::Committed | Self::RolledBack { .. })
    }

    /// Forgets the reasons that came after this minor version.
    pub(super) fn keep_reasons_of(&mut self, minor: u16) {
        if let Self::Refused { reasons } = self {
            reasons.retain(|reason| reason.since() <= minor);
        }
    }
}

impl Rollout {
    pub(super) fn new(plan: Plan, claims: ResourceSet, proposed: Signed) -> Self {
        let phase = Phase::Proposed;
        Self {
            plan,
            claims,
            proposed,
            approved: None,
            anyway: false,
            before: Vec::new(),
            verdict: None,
            steered: Steered::default(),
            phase,
        }
    }

    /// Whether the step was due and is the plan's.
    pub(super) fn begin(
        &mut self,
        step: Step,
        before: Vec<Before>,
        is_confirmed_later: bool,
    ) -> bool {
        let due = self.phase == Phase::Approved && step.generation == self.plan.generation;
        if due {
            self.before = before;
            self.phase = match is_confirmed_later && !step.targets.is_empty() {
                true => Phase::Unconfirmed(step),
                false => Phase::applying(step),
            };
        }
        due
    }

    /// What all nodes of the step under way hold is to stay.
    pub(super) fn confirm(&mut self, token: Token) {
        match &mut self.phase {
            Phase::Unconfirmed(step) if step.all_done() => {
                self.phase = Phase::Confirming(step.clone().again(token));
            }
            Phase::Travelling(journey) => journey.confirm(token),
            _ => {}
        }
    }

    /// Whether there was anything to undo. A step that only confirms what switches hold already proves nothing by
    /// a refusal.
    pub(super) fn undo(&mut self, next: Step, reasons: Vec<Reason>) -> bool {
        match mem::replace(&mut self.phase, Phase::Proposed) {
            Phase::Confirming(step) => {
                let undo = Undo::of_done(&step, reasons);
                self.phase = Phase::RollingBack(undo.again(next));
            }
            Phase::Unconfirmed(step) | Phase::Applying(step) | Phase::Verifying(step) => {
                self.phase = Phase::RollingBack(Undo::of(&step, reasons).again(next));
            }
            Phase::RollingBack(undo) => self.phase = Phase::RollingBack(undo.again(next)),
            Phase::Held(undo) => self.phase = Phase::Held(undo.again(next)),
            other => {
                self.phase = other;
                return false;
            }
        }
        true
    }

    /// If it was due.
    pub(super) fn depart(&mut self, departure: Departure, tables: Tables) {
        if self.phase == Phase::Approved {
            self.before.clone_from(&departure.before);
            self.phase = Phase::Travelling(Box::new(Migration::forth(departure, tables)));
        }
    }

    /// Its last instruction to this node.
    pub(super) fn last_install(&self, node: NodeId) -> Option<Install> {
        let now = self.phase.step().and_then(|step| step.install(node));
        now.or_else(|| self.phase.journey()?.installs.get(&node).cloned())
    }

    /// Whether this was an answer that was waited for.
    pub(super) fn acknowledge(&mut self, node: NodeId, ack: &Ack) -> bool {
        if let Phase::Travelling(journey) = &mut self.phase {
            return journey.acknowledge(node, ack);
        }
        let Some(step) = self.phase.step_mut() else {
            return false;
        };
        let heard = step.acknowledge(node, ack);
        if let Phase::Applying(step) | Phase::Confirming(step) = &self.phase
            && step.all_done()
        {
            self.phase = Phase::Verifying(step.clone());
        }
        heard
    }

    pub(super) fn turn_back(&mut self, reasons: Vec<Reason>) {
        if let Phase::Verifying(step) = &self.phase {
            self.phase = Phase::RollingBack(Undo::of(step, reasons));
        }
    }

    /// For these reasons it cannot be rolled back, besides those it is rolled back for.
    pub(super) fn hold(&mut self, reasons: Vec<Reason>) {
        if let Phase::RollingBack(undo) = &self.phase {
            let mut undo = undo.clone();
            let news = reasons.into_iter().filter(|it| !undo.reasons.contains(it));
            let news: Vec<_> = news.collect();
            undo.reasons.extend(news);
            self.phase = Phase::Held(undo);
        }
    }

    pub(super) fn ended(self, at: Moment, outcome: Outcome) -> Ended {
        let Self {
            plan,
            proposed,
            approved,
            verdict,
            ..
        } = self;
        Ended {
            plan,
            proposed,
            approved,
            verdict,
            at,
            outcome,
        }
    }
}

impl Phase {
    /// With every switch done there is nothing left to apply.
    fn applying(step: Step) -> Self {
        if step.all_done() {
            Self::Verifying(step)
        } else {
            Self::Applying(step)
        }
    }

    pub(crate) fn undo(&self) -> Option<&Undo> {
        match self {
            Self::RollingBack(undo) | Self::Held(undo) => Some(undo),
            _ => None,
        }
    }

    pub fn journey(&self) -> Option<&Migration> {
        match self {
            Self::Travelling(journey) => Some(journey),
            _ => None,
        }
    }

    pub(super) fn journey_mut(&mut self) -> Option<&mut Migration> {
        match self {
            Self::Travelling(journey) => Some(journey),
            _ => None,
        }
    }

    /// The instructions that switches are to follow in this phase.
    pub fn step(&self) -> Option<&Step> {
        match self {
            Self::Proposed | Self::Approved => None,
            Self::Unconfirmed(step)
            | Self::Confirming(step)
            | Self::Applying(step)
            | Self::Verifying(step) => Some(step),
            Self::RollingBack(undo) | Self::Held(undo) => undo.step.as_ref(),
            Self::Travelling(journey) => journey.step(),
        }
    }

    /// Whether it is uncertain that a node holds its last instruction.
    pub(crate) fn is_unsure_of(&self, node: NodeId) -> bool {
        let may_go_back = match self {
            Self::Unconfirmed(step) => step.targets.contains_key(&node),
            _ => false,
        };
        let is_awaited = |step: &Step| step.unanswered().any(|it| it == node);
        let journey = self.journey();
        may_go_back
            || self.step().is_some_and(is_awaited)
            || journey.is_some_and(|it| it.unsure_now().contains_key(&node))
    }

    /// Whether nodes roll back the present instruction without a confirmation.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        match self {
            Self::Unconfirmed(_) => true,
            Self::Travelling(journey) => journey.is_unconfirmed(),
            _ => false,
        }
    }

    fn step_mut(&mut self) -> Option<&mut Step> {
        match self {
            Self::Proposed | Self::Approved | Self::Travelling(_) => None,
            Self::Unconfirmed(step)
            | Self::Confirming(step)
            | Self::Applying(step)
            | Self::Verifying(step) => Some(step),
            Self::RollingBack(undo) | Self::Held(undo) => undo.step.as_mut(),
        }
    }
}

impl Undo {
    /// Switches that could not do the plan's step hold the parent's rules still.
    fn of(plan: &Step, reasons: Vec<Reason>) -> Self {
        let mut undo = Self::of_done(plan, reasons);
        let switches = undo.switches.iter().copied();
        undo.clean = switches.filter(|&node| plan.is_unchanged(node)).collect();
        undo
    }

    /// No switch is known to hold the parent's rules.
    fn of_done(plan: &Step, reasons: Vec<Reason>) -> Self {
        Self {
            reasons,
            switches: plan.targets.keys().copied().collect(),
            clean: BTreeSet::new(),
            step: None,
        }
    }

    /// Those that did it the last time hold the parent's rules too.
    fn again(mut self, next: Step) -> Self {
        if let Some(step) = &self.step {
            let done = |node: &NodeId| step.is_done(*node);
            self.clean.extend(step.targets.keys().copied().filter(done));
        }
        Self {
            step: Some(next),
            ..self
        }
    }

    /// Whether every switch is known to hold the parent's rules.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.step.is_some() && self.unconfirmed().next().is_none()
    }

    /// The switches that may hold the plan's rules still.
    pub(crate) fn unconfirmed(&self) -> impl Iterator<Item = NodeId> {
        let unsure = |node: &NodeId| {
            self.step
                .as_ref()
                .is_none_or(|step| !self.holds_parents_rules(step, *node))
        };
        self.switches.iter().copied().filter(unsure)
    }

    /// Whether a switch has answered, and not with what was hoped for.
    pub(crate) fn has_failed(&self) -> bool {
        self.step.as_ref().is_some_and(|step| {
            step.failures()
                .any(|(node, _)| !self.holds_parents_rules(step, node))
        })
    }

    /// Switches with rules that refused, and so are only believed to hold what they held before.
    pub(crate) fn on_their_word<'a>(&'a self, step: &'a Step) -> impl Iterator<Item = NodeId> + 'a {
        self.switches
            .iter()
            .copied()
            .filter(|&node| !step.is_done(node) && step.may_hold_rules(node))
    }

    fn holds_parents_rules(&self, step: &Step, node: NodeId) -> bool {
        step.is_done(node) || step.is_unchanged(node) && self.clean.contains(&node)
    }
}
