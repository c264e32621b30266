//! Replicated coordinators, and the agents that they lead. The replicas are those of the product. They write the
//! product's log on disks that lose power, fill up, flip bits and write to wrong places. They communicate over
//! connections that lose, repeat, delay, and break within a message. The leader runs the product's core over its log,
//! with agents that report and follow instructions, operators, and new members. Processes die, even within a disk
//! operation, stop for a while, and have their clocks set, several of these at once.
//!
//! After every event these hold: logs match. The state after an entry is the same everywhere, byte for byte, and the
//! same as with one coordinator that never failed ([`agreed`]). No coordinator leads without all earlier promised
//! entries. Nothing is decided while most disks are full and all coordinators know it, and no full disk takes more than
//! its reserve. Nothing is sent to operators, new members or switches before it is committed. A token admits one
//! member; a revoked member stays out. Messages arrive as they were sent, whole or not at all ([`lines`]). No agent
//! acts on an older instruction, and no flow loops or is lost ([`crate::laws`]). At every start, a log that only lost
//! power is accepted with all synced entries, and a damaged one is refused by name. At the end, once everything works
//! again, all requests are answered, each rollout is kept or rolled back within 10 s, switches hold the state in force,
//! and the clients' histories are checked.

pub mod agreed;
pub mod client;
pub mod cluster;
pub mod disk;
pub mod fabric;
pub mod laws;
pub mod linear;
pub mod lines;
pub mod machine;
pub mod node;
pub mod people;
pub mod trouble;
