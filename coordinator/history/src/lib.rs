//! The history of a cluster: observations reduced to one row per second, ten seconds and five minutes. They are kept as
//! Parquet in a folder or an object store, and read back.
//!
//! The history has the reports of agents, which are not replicated. A crash loses at most the last minute, and files
//! are always complete.

#[cfg(feature = "s3")]
mod bucket;
mod chronicle;
mod columns;
mod draft;
mod entry;
mod files;
mod folder;
mod folder_thread;
mod keeper;
mod kind;
mod past;
mod place;
mod resolution;
mod retention;
mod row;
mod series;
mod shelf;
mod table;
mod thin;
mod url;
mod write;

#[cfg(test)]
mod tests;

pub use chronicle::{Chronicle, KeepingReport, Rules};
pub use entry::{Entry, Far, Probed};
pub use files::Files;
pub use keeper::KeeperError;
pub use kind::Kind;
pub use past::{
    AgentSeen, CollectivesSeen, Covered, Event, Figures, FlowSeen, GapSeen, HealthSeen,
    ImbalanceSeen, InterfaceSeen, Kept, LinkSeen, MachineSeen, Past, PastError, PathSeen, PinsSeen,
    ProbesSeen, Question, RhythmSeen, Seen, StateSeen, TrafficSeen, Window,
};
pub use place::{later, moment_of, written};
pub use resolution::Resolution;
pub use retention::Retention;
pub use shelf::ShelfError;
pub use table::TableError;
pub use url::check;
