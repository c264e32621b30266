//! Replicated commands: each decision and each answer, as one change of state.
//!
//! A command records what was decided: applying it makes no choice and plans nothing. Measurements are not replicated,
//! except for the few that a decision rests on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::{fmt, mem, slice};

use reweave_common::circuit::{CircuitSet, Readback};
use reweave_common::fabric::Circuits;
use reweave_common::flow::FlowKey;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::{LinkId, NodeId, OpticalId};
use reweave_common::instruction::Ack;
use reweave_common::member::{Digest, Member};
use reweave_common::migration_plan::MigrationPlan;
use reweave_common::moment::Moment;
use reweave_common::operator::{MaintenanceStage, Steering};
use reweave_common::plan::{Generation, Plan};
use reweave_common::resource_set::ResourceSet;
use serde::{Deserialize, Serialize};

use crate::log::device::Device;
use crate::log::rate_summary::RateSummary;
use crate::log::reason::Reason;
use crate::log::registered::Registered;
use crate::log::verdict::Verdict;

/// The latest minor version of the protocol that this build reads entries of.
pub const LATEST_MINOR: u16 = 2;

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The leader's clock when it decided.
    pub at: Moment,
    pub change: Change,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    PlanProposed {
        plan: Box<Plan>,
        /// The resources that the plan needs exclusively, as the checker computed them.
        claims: Box<ResourceSet>,
        by: Author,
    },
    /// The plan is unsound, or does not fit the network. Nothing was installed.
    PlanRefused {
        generation: Generation,
        reasons: Vec<Reason>,
    },
    /// The plan is no longer needed. Nothing was installed.
    PlanWithdrawn {
        generation: Generation,
        reasons: Vec<Reason>,
    },
    PlanApproved {
        generation: Generation,
        by: Author,
        /// The approval forces the plan even if flows become slower.
        anyway: bool,
    },
    /// Precedes every instruction to switches. Its log index is the token of the instructions, plus an offset where
    /// switches hold tokens of lost entries.
    StepIntent(StepIntent),
    /// A switch's answer to the last intent.
    Acked { node: NodeId, ack: Ack },
    /// A migration of tables or circuits begins, from these circuits.
    Departed(Departure),
    /// The migration is aborted; this is the rollback from the present state.
    TurnedBack {
        generation: Generation,
        #[serde(rename = "course")]
        migration_plan: MigrationPlan,
        reasons: Vec<Reason>,
    },
    /// These ports were idle for long enough, so their circuits may move.
    DrainProof {
        generation: Generation,
        quiet: Vec<IdlePort>,
    },
    /// Precedes every instruction to drivers.
    CircuitIntent {
        plan: Generation,
        generation: Generation,
        moves: BTreeMap<OpticalId, Move>,
    },
    CircuitObserved {
        optical: OpticalId,
        readback: Readback,
    },
    /// Both ends of all new circuits have light.
    LightCame { generation: Generation },
    Verified {
        generation: Generation,
        verdict: Verdict,
    },
    /// The rollback is blocked and is being retried.
    Held {
        generation: Generation,
        reasons: Vec<Reason>,
    },
    /// Every switch of the plan holds what it held before the plan.
    RolledBack { generation: Generation },
    /// The bearer of the secret with this digest may join as this member until then.
    Invited {
        token: Digest,
        member: Member,
        expires: Moment,
        by: Author,
    },
    /// A peer showed the secret, and this key. The index of the entry is the admission.
    Admitted {
        token: Digest,
        key: Digest,
        from: String,
    },
    /// The bearer of the secret with this digest may make requests in this member's name until then.
    Visited {
        token: Digest,
        member: Member,
        expires: Moment,
    },
    /// All earlier admissions of this member are void.
    Revoked { member: Member, by: Author },
    /// Maintenance of a device enters this stage, or ends if there is none.
    Maintained {
        place: Device,
        stage: Option<MaintenanceStage>,
        by: Author,
        /// Links of the device that were drained before.
        kept: BTreeSet<LinkId>,
    },
    /// Freezes changes that affect the job on these hosts, or lifts the freeze.
    Froze {
        hosts: BTreeSet<NodeId>,
        is_frozen: bool,
        by: Author,
    },
    /// An orchestrator registered a job, or the job is over.
    Registered {
        job: String,
        #[serde(rename = "told")]
        registration: Option<Registered>,
        by: Author,
    },
    /// Several changes in one entry, applied in order: changes that belong together, and requests that arrived while
    /// the previous entry was written.
    Together(Vec<Self>),
    /// All coordinators read entries of this minor version of the protocol, so later entries may use it.
    ClusterVersion { minor: u16 },
    // New in 1.1. New kinds are added at the end only, and `since` names their version.
    /// An operator's request to hold, resume, retry or abort a running plan.
    Steered {
        generation: Generation,
        how: Steering,
        by: Author,
    },
    /// Confirms the state of all nodes of this plan's step. The index of this entry is the token of the confirmations.
    ConfirmIntent { plan: Generation },
    /// From here on, entries use at most this minor version, and the leader does not raise it. Each coordinator
    /// compacts its log up to this entry, so that an earlier build can read the rest.
    ClusterVersionLowered { minor: u16, by: Author },
    /// Exactly these coordinators are removed. Members refuse their own certificates.
    CoordinatorsRemoved { coordinators: BTreeSet<String> },
    // New in 1.2.
    /// Sets these keys of the policy to TOML values, or returns them to the values of the leader's file.
    PolicySet {
        settings: BTreeMap<String, Option<String>>,
        by: Author,
    },
}

impl Change {
    /// The changes of this entry, one by one.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Together(parts) => parts,
            alone => slice::from_ref(alone),
        }
    }

    /// The minor version of the protocol that introduced this kind with all its fields. Earlier coordinators cannot
    /// read it, and stop where it is applied. The match lists every kind, so a new one must name its version.
    pub fn since(&self) -> u16 {
        match self {
            Self::PlanProposed { .. }
            | Self::PlanWithdrawn { .. }
            | Self::PlanApproved { .. }
            | Self::StepIntent(_)
            | Self::Acked { .. }
            | Self::Departed(_)
            | Self::TurnedBack { .. }
            | Self::DrainProof { .. }
            | Self::CircuitIntent { .. }
            | Self::CircuitObserved { .. }
            | Self::LightCame { .. }
            | Self::Verified { .. }
            | Self::Held { .. }
            | Self::RolledBack { .. }
            | Self::Invited { .. }
            | Self::Admitted { .. }
            | Self::Visited { .. }
            | Self::Revoked { .. }
            | Self::Maintained { .. }
            | Self::Froze { .. }
            | Self::Registered { .. }
            | Self::ClusterVersion { .. } => 0,
            Self::PlanRefused { reasons, .. } => {
                reasons.iter().map(Reason::since).max().unwrap_or_default()
            }
            Self::Together(parts) => parts.iter().map(Self::since).max().unwrap_or_default(),
            Self::Steered { .. }
            | Self::ConfirmIntent { .. }
            | Self::ClusterVersionLowered { .. }
            | Self::CoordinatorsRemoved { .. } => 1,
            Self::PolicySet { .. } => 2,
        }
    }

    /// The minor version that a build must read to continue after this entry: the entry may raise the cluster version,
    /// and later entries may use that.
    pub fn needed_version(&self) -> u16 {
        let raised = self.parts().iter().filter_map(|part| match part {
            Self::ClusterVersion { minor } => Some(*minor),
            _ => None,
        });
        raised.fold(self.since(), u16::max)
    }

    /// Whether an operator's decision about members is among the changes.
    pub(crate) fn is_of_members(&self) -> bool {
        let one = |part: &Self| matches!(part, Self::Invited { .. } | Self::Revoked { .. });
        self.parts().iter().all(one)
    }

    fn is_of_answers(&self) -> bool {
        let one = |part: &Self| matches!(part, Self::Acked { .. });
        self.parts().iter().all(one)
    }

    /// Whether neither command's outcome depends on the other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let both = |is_so: fn(&Self) -> bool| is_so(self) && is_so(other);
        both(Self::is_of_members) || both(Self::is_of_answers)
    }

    /// Whether the registration or the end of a job is among the changes.
    pub(crate) fn tells_of_jobs(&self) -> bool {
        let one = |part: &Self| matches!(part, Self::Registered { .. });
        self.parts().iter().any(one)
    }

    /// Appends `next` to the same entry. No other change can come between them, so `next` stays as sound as when it
    /// was checked.
    pub(crate) fn at_once_with(mut self, next: Self) -> Self {
        self.join(next);
        self
    }

    pub(crate) fn join(&mut self, other: Self) {
        if let Self::Together(parts) = self {
            return parts.push(other);
        }
        let first = mem::replace(self, Self::Together(Vec::new()));
        *self = Self::Together(vec![first, other]);
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Departure {
    pub generation: Generation,
    #[serde(rename = "course")]
    pub migration_plan: MigrationPlan,
    /// The circuits of all optical switches.
    pub circuits: Circuits,
    /// The rates of the flows just before the migration.
    pub before: Vec<Before>,
}

/// The old and the new circuits of one optical switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "CircuitMove")]
pub struct Move {
    pub expected: CircuitSet,
    pub desired: CircuitSet,
}

/// The nearly absent traffic of a port in this time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Quiet")]
pub struct IdlePort {
    pub node: NodeId,
    pub interface: String,
    pub bytes: u64,
    pub within: Duration,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepIntent {
    /// The plan that this step belongs to.
    pub plan: Generation,
    /// The number of the state that the switches should hold. An undo takes a new generation, because agents refuse
    /// older ones.
    pub generation: Generation,
    pub aim: Aim,
    /// The complete desired state of each of these nodes.
    pub targets: BTreeMap<NodeId, ForwardingState>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// Applies a plan of pins in one round; `before` are the flows' rates just before it.
    Install { before: Vec<Before> },
    /// The round that is due in the migration, or the same once more.
    Round,
    /// Undoes the round of a plan of pins: restores the parent's rules.
    Undo { reasons: Vec<Reason> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    pub flow: FlowKey,
    pub spread: RateSummary,
}

/// Who requested the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The coordinator itself, as its policy allows.
    Policy,
    Operator(String),
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy => f.write_str("policy"),
            Self::Operator(principal) => f.write_str(principal),
        }
    }
}
