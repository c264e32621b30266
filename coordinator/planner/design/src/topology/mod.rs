//! Topologies for a job: which hosts to wire to which, when hosts are wired to each other and forward
//! for one another.
//!
//! A job's [`Demand`] is of two kinds. What a group reduces may go around its members in any order,
//! so that the order is chosen with the wiring; what one host sends to another must reach just that
//! one, so that hops count. [`plan`] lays out wirings of several families ([`families`]), screens
//! them by what their fullest lane carries, simulates the best of them with routes of their own, and
//! says why the first is best and what the others lack.

mod backups;
mod carry;
mod cycles;
mod demand;
mod distances;
mod error;
pub mod families;
mod fill;
pub mod forest;
mod limits;
mod matching;
mod mended;
mod panels;
pub mod picture;
mod plan;
pub mod prices;
mod products;
mod reach;
mod repair;
mod rewire;
mod rivals;
pub mod strides;
mod survivors;
#[cfg(test)]
mod tests;
mod wiring;

pub use backups::{Case, Outlook, outlook};
pub use carry::{Known, MAX_PATHS_PER_PAIR, MAX_SPREAD_PAIRS, Wired, carriage};
pub use demand::{Demand, Group};
pub use distances::{Distances, moore_mean};
pub use error::{TopologyError, counted};
pub use families::{Altered, Design, Family};
pub use limits::{Blocks, Limits, Panel, Reach};
pub use panels::Patch;
pub use plan::{
    Draft, Job, Lost, Proposal, Request, drafts, plan, plan_first, plan_in_time, plan_until,
    plan_with,
};
pub use repair::{Failed, Repair, lost_hosts, repair};
pub use rewire::{Choice, Moved, Rewiring, RewiringMethod, Worth, rewire};
pub use rivals::{Rival, rivals};
pub use wiring::{Pair, Wiring, ideal_switch, pair};
