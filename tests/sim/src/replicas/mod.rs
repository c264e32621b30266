//! Coordinators that agree, and the agents that they lead. Coordinators agree by the replicas of the product, which
//! write the product's log on disks that lose power, are full, flip bits and write to wrong places, and talk over lines
//! that lose, repeat and delay, and over connections that are lost amid a letter; the leader has the product's core
//! over its log, agents that report and follow instructions, operators who ask and new members who knock. Processes
//! die, at any operation on the disk too, stand still, and have their clocks set, several of these at once.
//!
//! After every event: logs match, and what was applied up to one entry is the same everywhere, byte for byte, and the
//! same as with one coordinator that never failed ([`agreed`]); none leads without what was promised before; nothing is
//! decided while most disks are full and all know, and no full disk takes more than was kept for it; nothing goes out
//! to operators, new members or switches that is not agreed on; a token admits one; a revoked member stays out; letters
//! come as they were sent, whole or not at all ([`lines`]); no agent acts on what is older, and no flow circles or is
//! lost ([`crate::laws`]). At every start: a log that only lost power is taken, with all that was synced, and one that
//! is not as it was written is refused by name. In the end, once everything works again, all who ask are answered, each
//! rollout has been kept or rolled back within 10 s, switches hold what is in force, and what clients saw is judged.

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
