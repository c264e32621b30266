//! What the coordinator decides, independent of how its inputs and outputs travel.
//!
//! All changes of state are [`Command`]s, applied in order; the same commands lead to the same [`State`]. The
//! leader's part turns [`Input`]s into commands and other [`Effect`]s. It keeps agents' reports and makes a snapshot
//! of them. It asks the planner for a repair, and the checker whether that is sound. It applies a plan, and decides
//! by measurement whether to keep it or to roll it back.

mod api;
mod core;
mod estimate;
mod ingest;
mod log;
mod model;
mod plan;
mod recording;
mod role;
mod rollout;

#[cfg(test)]
mod tests;

pub use api::REVOCATION_DELAY;
pub use core::Core;
pub use estimate::rank_reports::ReportedPair;
pub use ingest::telemetry::Ingest;
pub use log::change_window::{Hours, NoHours};
pub use log::codec::UnreadableLog;
pub use log::command::{
    Aim, Author, Before, Change, Command, Departure, IdlePort, LATEST_MINOR, Move, StepIntent,
};
pub use log::device::Device;
pub use log::effect::{AuditRecord, Effect, Input};
pub use log::frozen_job::Frozen;
pub use log::maintenance::Maintenance;
pub use log::policy::Policy;
pub use log::rate_summary::RateSummary;
pub use log::reason::Reason;
pub use log::registered::{Phase as JobPhase, Registered};
pub use log::state::{
    Ended, Heading, InForce, Invitation, LoggedPolicy, LoggedSetting, Membership, Migration,
    Moving, NoEntry, Outcome, Pass, Phase, PolicyChange, Rollout, Signed, Stage, State, StateTail,
    Step, StepAnswer, Target,
};
pub use log::verdict::{Decision, Judged, Verdict};
pub use model::world::{End, Reporting, Wiring};
pub use recording::{Recorded, Recording};
pub use role::ClusterRole;
