//! A rollout: a plan of any kind, from proposal to end.
//!
//! ```text
//! Proposed --> Approved --> Migrating forth --> Migrating forth, over --> committed
//!     |            |              |                    |         verified
//!     +------------+              +---------+----------+
//!     | refused or withdrawn                | failed, aborted, or worse than before
//!     v                                     v
//!   ended                             Migrating back --> Migrating back, over --> rolled back
//! ```
//! A plan of pins is a migration of one round, which is sent with its first log entry. In a plan that also changes
//! tables or circuits, pins are removed in the first round, and set in the last. For the steps of a migration, see the
//! diagram of [`Migration`].

use reweave_common::fabric::Circuits;
use reweave_common::ids::NodeId;
use reweave_common::instruction::{Ack, Install};
use reweave_common::migration_plan::Tables;
use reweave_common::moment::Moment;
use reweave_common::operator;
use reweave_common::plan::{Generation, Plan};
use reweave_common::resource_set::ResourceSet;
use serde::{Deserialize, Serialize};

use super::InForce;
use super::migration::Migration;
use super::plan_control::Steered;
use super::step::Step;
use crate::log::command::{Author, Before, Departure};
use crate::log::migration_steps::{one_round, tables_of};
use crate::log::reason::Reason;
use crate::log::verdict::Verdict;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// The plan. Whatever it does not claim stays as other plans leave it.
    pub plan: Plan,
    /// The resources that it needs exclusively.
    pub claims: ResourceSet,
    pub proposed: Signed,
    pub approved: Option<Signed>,
    /// The approval forces it even if flows become slower.
    pub anyway: bool,
    /// The rates of the flows just before the first instruction.
    pub before: Vec<Before>,
    pub verdict: Option<Verdict>,
    pub steered: Steered,
    pub phase: Phase,
}

/// Who acted, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    pub at: Moment,
    pub by: Author,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    Proposed,
    Approved,
    /// Migrating forward or back, or waiting for its verdict.
    Migrating(Box<Migration>),
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
    /// Found unsound before anything was installed.
    Refused {
        reasons: Vec<Reason>,
    },
    /// No longer needed before anything was installed.
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
    /// Whether any switch was instructed.
    pub(crate) fn changed_something(&self) -> bool {
        matches!(self, Self::Committed | Self::RolledBack { .. })
    }

    /// Drops the reasons that are newer than this minor version.
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

    /// Begins a plan of pins. Returns whether the plan was due and the step belongs to it.
    pub(super) fn begin(
        &mut self,
        step: Step,
        before: Vec<Before>,
        in_force: &InForce,
        is_confirmed_later: bool,
    ) -> bool {
        let generation = self.plan.generation;
        if self.phase != Phase::Approved || step.generation != generation {
            return false;
        }
        let nodes = step.targets.keys().copied();
        let departure = Departure {
            generation,
            migration_plan: one_round(tables_of(&in_force.tables, nodes)),
            circuits: Circuits::new(),
            before,
        };
        self.depart(departure, &in_force.tables);
        if let Some(migration) = self.phase.migration_mut() {
            migration.begin_round(step, is_confirmed_later);
        }
        true
    }

    /// Begins the migration from these tables, if the plan was due.
    pub(super) fn depart(&mut self, departure: Departure, tables: &Tables) {
        if self.phase == Phase::Approved {
            self.before.clone_from(&departure.before);
            let claimed = tables
                .iter()
                .filter(|(node, _)| self.claims.nodes.contains(node));
            let tables = claimed
                .map(|(&node, table)| (node, table.clone()))
                .collect();
            self.phase = Phase::Migrating(Box::new(Migration::forth(departure, tables)));
        }
    }

    /// Starts or repeats the rollback of a plan of pins. Returns false for other plans.
    pub(super) fn undo(&mut self, step: Step, reasons: Vec<Reason>, in_force: &InForce) -> bool {
        let is_of_pins = in_force.differs_only_in_pins(&self.plan, &self.claims);
        let migration = self.phase.migration_mut();
        is_of_pins && migration.is_some_and(|it| it.undo(step, reasons))
    }

    /// The plan's last instruction to this node.
    pub(super) fn last_install(&self, node: NodeId) -> Option<Install> {
        let now = self.phase.step().and_then(|step| step.install(node));
        now.or_else(|| self.phase.migration()?.installs.get(&node).cloned())
    }

    /// Records the ack. Returns whether it was awaited.
    pub(super) fn acknowledge(&mut self, node: NodeId, ack: &Ack) -> bool {
        let migration = self.phase.migration_mut();
        migration.is_some_and(|it| it.acknowledge(node, ack))
    }

    /// The phase as operators see it.
    pub(crate) fn shown_phase(&self) -> operator::Phase {
        match &self.phase {
            Phase::Proposed => operator::Phase::Proposed,
            Phase::Approved => operator::Phase::Approved,
            Phase::Migrating(migration) if migration.is_held() => operator::Phase::Held,
            Phase::Migrating(migration) if migration.leads_back() => operator::Phase::RollingBack,
            Phase::Migrating(migration) if migration.is_over() => operator::Phase::Verifying,
            Phase::Migrating(_) => operator::Phase::Applying,
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
    pub fn migration(&self) -> Option<&Migration> {
        match self {
            Self::Migrating(migration) => Some(migration),
            Self::Proposed | Self::Approved => None,
        }
    }

    pub(super) fn migration_mut(&mut self) -> Option<&mut Migration> {
        match self {
            Self::Migrating(migration) => Some(migration),
            Self::Proposed | Self::Approved => None,
        }
    }

    /// The step whose instructions switches have now.
    pub fn step(&self) -> Option<&Step> {
        self.migration()?.step()
    }

    /// Whether it is uncertain that a node holds its last instruction.
    pub(crate) fn is_unsure_of(&self, node: NodeId) -> bool {
        let migration = self.migration();
        migration.is_some_and(|it| it.unsure_now().contains_key(&node))
    }
}
