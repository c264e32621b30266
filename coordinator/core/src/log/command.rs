//! Replicated commands: each decision and each answer, as one change of state.
//!
//! A command says what was decided and never how: applying it makes no choice and plans nothing. Measurements are not
//! replicated, except for the few that a decision rests on.

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
pub const LATEST_MINOR: u16 = 1;

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// When it was decided, by the leader's clock.
    pub at: Moment,
    pub change: Change,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    PlanProposed {
        plan: Box<Plan>,
        /// What it needs for itself alone, as the checker says.
        claims: Box<ResourceSet>,
        by: Author,
    },
    /// Found wrong, or not fit for how things are, before anything was installed.
    PlanRefused {
        generation: Generation,
        reasons: Vec<Reason>,
    },
    /// No longer wanted, before anything was installed.
    PlanWithdrawn {
        generation: Generation,
        reasons: Vec<Reason>,
    },
    PlanApproved {
        generation: Generation,
        by: Author,
        /// It is kept though flows become slower by it.
        anyway: bool,
    },
    /// Comes before every instruction to a switch. Their token is its
    /// index in the log, or more where switches have followed what is lost from it.
    StepIntent(StepIntent),
    /// A switch's answer to the last intent.
    Acked { node: NodeId, ack: Ack },
    /// Tables or circuits change: by this migration, from these circuits.
    Departed(Departure),
    /// It is given up, and this is the rollback from where things are.
    TurnedBack {
        generation: Generation,
        course: MigrationPlan,
        reasons: Vec<Reason>,
    },
    /// These ports were seen idle for long enough, so what they carry may move.
    DrainProof {
        generation: Generation,
        quiet: Vec<IdlePort>,
    },
    /// Comes before every instruction to a driver.
    CircuitIntent {
        plan: Generation,
        generation: Generation,
        moves: BTreeMap<OpticalId, Move>,
    },
    CircuitObserved {
        optical: OpticalId,
        readback: Readback,
    },
    /// Both ends of all new circuits see light.
    LightCame { generation: Generation },
    Verified {
        generation: Generation,
        verdict: Verdict,
    },
    /// Taking the plan back could not be confirmed, and it goes on being tried.
    Held {
        generation: Generation,
        reasons: Vec<Reason>,
    },
    /// Every switch concerned holds what it held before the plan.
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
    /// What this member was admitted by before is worth nothing.
    Revoked { member: Member, by: Author },
    /// Work on something has come to this stage; none is its end.
    Maintained {
        place: Device,
        stage: Option<MaintenanceStage>,
        by: Author,
        /// Links of it that were drained before.
        kept: BTreeSet<LinkId>,
    },
    /// Nothing is to be changed under the job of these hosts, or it may be again.
    Froze {
        hosts: BTreeSet<NodeId>,
        is_frozen: bool,
        by: Author,
    },
    /// An orchestrator registered a job, or the job is over.
    Registered {
        job: String,
        told: Option<Registered>,
        by: Author,
    },
    /// Several at once, one after the other: what belongs together, and what those ask for who waited while the
    /// entry before was written.
    Together(Vec<Self>),
    /// All coordinators read entries of this minor version of the protocol, so there may be such from now on.
    ClusterVersion { minor: u16 },
    // What came with 1.1 follows. All that is new comes at the end, and `since` says with which version.
    /// What a person wants of a plan on its way.
    Steered {
        generation: Generation,
        how: Steering,
        by: Author,
    },
    /// Confirms the state of all nodes of this plan's step. They get the confirmation under this entry's token.
    ConfirmIntent { plan: Generation },
    /// From here on nothing is decided that came after this minor version, and no leader raises it by itself. Each
    /// coordinator takes this entry and all before it out of its log, so that an earlier build reads what is left.
    ClusterVersionLowered { minor: u16, by: Author },
    /// These coordinators are removed from now on, and no others. Their own certificates are refused.
    CoordinatorsRemoved { coordinators: BTreeSet<String> },
}

impl Change {
    /// Each by itself.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Together(parts) => parts,
            alone => slice::from_ref(alone),
        }
    }

    /// The minor version of the protocol that it came with, with all that it bears. Coordinators of earlier ones cannot
    /// read it, and end where it is applied. Every kind stands here by name: a new one has to say it.
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
        }
    }

    /// The minor version of the protocol that a build has to read to go on from an entry with this: it may raise the cluster
    /// version, and later ones are of that.
    pub fn needed_version(&self) -> u16 {
        let raised = self.parts().iter().filter_map(|part| match part {
            Self::ClusterVersion { minor } => Some(*minor),
            _ => None,
        });
        raised.fold(self.since(), u16::max)
    }

    /// Whether operators decided it about members, alone or with other changes.
    pub(crate) fn is_of_members(&self) -> bool {
        let one = |part: &Self| matches!(part, Self::Invited { .. } | Self::Revoked { .. });
        self.parts().iter().all(one)
    }

    fn is_of_answers(&self) -> bool {
        let one = |part: &Self| matches!(part, Self::Acked { .. });
        self.parts().iter().all(one)
    }

    /// Whether neither asks what came of the other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let both = |is_so: fn(&Self) -> bool| is_so(self) && is_so(other);
        both(Self::is_of_members) || both(Self::is_of_answers)
    }

    /// Whether an orchestrator has registered or ended a job, alone or with other changes.
    pub(crate) fn tells_of_jobs(&self) -> bool {
        let one = |part: &Self| matches!(part, Self::Registered { .. });
        self.parts().iter().any(one)
    }

    /// Nothing comes between them, so the next is as sound as when it was judged.
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
    pub course: MigrationPlan,
    /// Of every optical switch.
    pub circuits: Circuits,
    /// The flows' rates just before.
    pub before: Vec<Before>,
}

/// From which circuits of one optical switch to which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "CircuitMove")]
pub struct Move {
    pub expected: CircuitSet,
    pub desired: CircuitSet,
}

/// The traffic of a port in this time, which is next to nothing.
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
    /// Whose step it is.
    pub plan: Generation,
    /// What the switches should hold afterwards. A step that undoes a plan makes a generation of
    /// its own, since agents refuse older ones.
    pub generation: Generation,
    pub aim: Aim,
    /// All that each of these nodes should hold.
    pub targets: BTreeMap<NodeId, ForwardingState>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// Carry out a plan of pins, in one round; these were the flows' rates just before.
    Install { before: Vec<Before> },
    /// The round that is due in the migration, or once more.
    Round,
    /// Go back over the round of a plan of pins: put the parent's rules back.
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
    /// The coordinator by itself, as its policy allows.
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
