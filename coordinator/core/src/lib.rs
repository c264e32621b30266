//! What the coordinator decides, and nothing of how it is reached.
//!
//! All changes of state are [`Command`]s, applied in order; the same commands lead to the same
//! [`State`]. The part that only a leader has turns [`Input`]s into commands and other [`Effect`]s:
//! it keeps what agents report, makes a snapshot of it, asks the planner what would mend what is
//! wrong and the checker whether that is sound, carries a plan out, and judges by measurement
//! whether it is kept or taken back.

mod addresses;
mod arrivals;
mod auto;
mod back;
mod carrying;
mod command;
mod core;
mod course;
mod diff;
mod discovery;
mod effect;
mod evenness;
mod evidence;
mod exchange;
mod failing;
mod fibres;
mod frozen;
mod groups;
mod hours;
mod ingest;
mod jobs;
mod latencies;
mod log;
mod losses;
mod model;
mod office;
mod operator;
mod pace;
mod pins;
mod places;
mod planning;
mod policy;
mod probing;
mod promise;
mod radius;
mod ranks;
mod reason;
mod reasons;
mod recording;
mod reduced;
mod registry;
mod resting;
mod rewiring;
mod rollout;
mod rules;
mod shares;
mod soundness;
mod spread;
mod standings;
mod state;
mod trends;
mod turns;
mod upkeep;
mod verify;
mod watch;
mod ways;
mod weights;

#[cfg(test)]
mod tests;

pub use command::{
    Aim, Author, Before, Change, Command, Departure, LATEST_MINOR, Move, Quiet, StepIntent,
};
pub use core::Core;
pub use effect::{Effect, Input};
pub use frozen::Frozen;
pub use hours::{Hours, NoHours};
pub use ingest::Ingest;
pub use log::UnreadableLog;
pub use model::{End, Reporting, Wiring};
pub use office::Office;
pub use places::Place;
pub use policy::Policy;
pub use ranks::ToldPair;
pub use reason::Reason;
pub use recording::{Recorded, Recording};
pub use registry::{Phase as JobPhase, Registered};
pub use spread::Spread;
pub use state::{
    Answer, Ended, Heading, InForce, Invitation, Journey, Membership, Moving, NoEntry, Outcome,
    Pass, Phase, Rollout, Signed, Stage, State, Step, Target, Undo,
};
pub use upkeep::Maintenance;
pub use verify::{Decision, Judged, Verdict};
