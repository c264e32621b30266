//! A finding, with evidence: the value that goes from `diagnose` to `plan`.

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::flow::FlowKey;
use crate::ids::LinkId;
use crate::snapshot::Hop;
use crate::units::Rate;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Flows share a full link while an equal path has room.
    EcmpCollision(Collision),
    /// A pin holds a flow where it serves it no more.
    UselessPin(UselessPin),
    /// Anything else that slows jobs.
    Cause(Cause),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Collision {
    pub hop: Hop,
    /// Measured load over capacity.
    pub utilization: f64,
    pub losers: Vec<Loser>,
    /// Equal-cost hops that had room for at least one of them.
    pub with_room: Vec<Hop>,
    pub imbalance: Imbalance,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UselessPin {
    pub flow: FlowKey,
    /// Where it is pinned, and to what.
    pub hop: Hop,
    pub because: Useless,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Useless {
    /// The way it leads has come to an end: these links are down.
    WayDown {
        links: Vec<LinkId>,
    },
    FlowEnded,
}

/// A flow in a collision: what it gets, and what it would get if the flows were spread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loser {
    pub flow: FlowKey,
    pub rate: Rate,
    pub fair_rate: Rate,
}

/// How unevenly flows are spread over the equal links of one switch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Imbalance {
    /// The Flow Imbalance Metric: 0 is even, and it counts flows.
    pub fim_percent: f64,
    /// What even the best spread of this many flows over this many links has.
    pub floor_percent: f64,
    /// The same, with each flow weighed by its rate.
    pub weighted_percent: f64,
    /// The fullest link over the mean: what stalls a collective.
    pub max_over_mean: f64,
}
