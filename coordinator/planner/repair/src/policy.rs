//! Settings of the planner that an operator may change.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// A link that carries this share of its capacity while jobs send is full: it, and not something else, holds
    /// its flows back. Default 0.9: a TCP flow alone on a link keeps it busy to 0.95 and more, and
    /// one reading may fall between two bursts.
    pub full_at: f64,
    /// Least share of the narrowest link on its path at which a flow is an elephant, worth a pin. Default 0.1: hashing
    /// spreads ten smaller flows well.
    pub elephant_share: f64,
    /// On a full link, a flow below this share of the largest one's rate is limited by something else. Default 0.5:
    /// greedy TCP flows that share a queue stay within a factor of two.
    pub greedy_share: f64,
    /// A gain below this is not worth moving a flow. Default 0.1: a move may reorder packets, and
    /// the rate of a TCP flow wanders by a few percent anyway.
    pub least_gain: f64,
    /// Readings older than this say nothing of now. Default 3 s: agents report about once a second,
    /// so two reports may get lost.
    pub most_age: Duration,
    /// Maximum number of moves that are checked one by one for necessity. Default 5000: more than an operator wants to
    /// apply at once.
    pub most_evaluations: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            full_at: 0.9,
            elephant_share: 0.1,
            greedy_share: 0.5,
            least_gain: 0.1,
            most_age: Duration::from_secs(3),
            most_evaluations: 5000,
        }
    }
}

impl Policy {
    /// A flow that a full link holds back is an elephant from this share of a link on. A hundred
    /// that share one link are no longer worth a pin each.
    pub fn throttled_share(&self) -> f64 {
        self.elephant_share / 10.0
    }
}
