//! A finding with its evidence: the value that goes from `diagnose` to `plan`.

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::flow::FlowKey;
use crate::ids::LinkId;
use crate::snapshot::Hop;
use crate::units::Rate;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Flows share a full link while an equal-cost path has room.
    EcmpCollision(Collision),
    /// A pin no longer benefits its flow.
    UselessPin(UselessPin),
    /// Any other cause that slows jobs.
    Cause(Cause),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Collision {
    pub hop: Hop,
    /// Measured load divided by capacity.
    pub utilization: f64,
    pub losers: Vec<Loser>,
    /// Equal-cost hops with room for at least one of the flows.
    pub with_room: Vec<Hop>,
    pub imbalance: Imbalance,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UselessPin {
    pub flow: FlowKey,
    /// Switch and link of the pin.
    pub hop: Hop,
    pub because: Useless,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Useless {
    /// These links behind the pin are down.
    WayDown {
        links: Vec<LinkId>,
    },
    FlowEnded,
}

/// A flow in a collision: its rate, and the rate that it would have if the flows were spread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loser {
    pub flow: FlowKey,
    pub rate: Rate,
    pub fair_rate: Rate,
}

/// How unevenly flows are spread over the equivalent links of one switch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Imbalance {
    /// The flow imbalance metric (FIM) in percent: 0 is even, and it counts flows.
    pub fim_percent: f64,
    /// Lowest possible FIM for this number of flows and links.
    pub floor_percent: f64,
    /// FIM with each flow weighted by its rate.
    pub weighted_percent: f64,
    /// Load of the fullest link over the mean: the slowest flow delays a collective.
    pub max_over_mean: f64,
}
