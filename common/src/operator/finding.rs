//! What is wrong, by name.

use crate::fabric::Fabric;
use crate::finding::{self, Imbalance};
use crate::flow::FlowKey;
use crate::plan::Generation;
use crate::units::Rate;
use serde::{Deserialize, Serialize};

use super::place::{self, Hop};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The generation of routes under which this was seen.
    pub generation: Generation,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    EcmpCollision(Collision),
}

/// Flows that share a full link while an equal path has room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Collision {
    pub hop: Hop,
    /// Measured load over capacity.
    pub utilization: f64,
    pub losers: Vec<Loser>,
    pub with_room: Vec<Hop>,
    pub imbalance: Imbalance,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loser {
    pub flow: FlowKey,
    pub rate_bits_per_s: Rate,
    pub fair_rate_bits_per_s: Rate,
}

impl Finding {
    pub fn named(found: &finding::Finding, fabric: &Fabric) -> Self {
        match found {
            finding::Finding::EcmpCollision(collision) => {
                Self::EcmpCollision(Collision::named(collision, fabric))
            }
        }
    }
}

impl Collision {
    fn named(collision: &finding::Collision, fabric: &Fabric) -> Self {
        Self {
            hop: Hop::named(collision.hop, fabric),
            utilization: collision.utilization,
            losers: collision.losers.iter().map(Loser::from).collect(),
            with_room: place::hops(&collision.with_room, fabric),
            imbalance: collision.imbalance,
        }
    }
}

impl From<&finding::Loser> for Loser {
    fn from(loser: &finding::Loser) -> Self {
        Self {
            flow: loser.flow,
            rate_bits_per_s: loser.rate,
            fair_rate_bits_per_s: loser.fair_rate,
        }
    }
}
