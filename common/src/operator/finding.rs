//! Findings, with names of nodes and links.

use std::fmt;

use crate::cause::Cause;
use crate::fabric::Fabric;
use crate::finding::{self, Imbalance};
use crate::flow::FlowKey;
use crate::plan::Generation;
use crate::units::Rate;
use serde::{Deserialize, Serialize};

use super::place::{self, Hop};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Findings {
    /// Generation of the routes in force at that time.
    pub generation: Generation,
    pub findings: Vec<Finding>,
    /// Gaps in the measurements that may hide further problems.
    pub not_seen: NotSeen,
}

/// Gaps in the measurements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotSeen {
    /// Nodes whose agents do not report.
    pub nodes: Vec<String>,
    /// Flows of interest with an unknown hop.
    pub ways_of: Vec<FlowKey>,
    /// Measurements that were ignored, with reasons: they contradict each other or the fabric, or have no known place.
    pub doubts: Vec<String>,
}

impl NotSeen {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for NotSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let silent = self
            .nodes
            .iter()
            .map(|node| format!("{node} does not report"));
        let ways = self.ways_of.iter();
        let ways = ways.map(|flow| format!("the path of {flow} is unknown"));
        let doubts = self.doubts.iter().cloned();
        let all: Vec<_> = silent.chain(ways).chain(doubts).collect();
        f.write_str(&all.join("; "))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    EcmpCollision(Collision),
    UselessPin(UselessPin),
    Cause(Cause),
}

/// A pin without benefit for its flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UselessPin {
    pub flow: FlowKey,
    pub hop: Hop,
    pub because: Useless,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Useless {
    /// These links behind the pin are down, and no other path leads on.
    WayDown {
        links: Vec<String>,
    },
    FlowEnded,
}

/// Flows that share a full link while an equal-cost path has room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Collision {
    pub hop: Hop,
    /// Measured load divided by capacity.
    pub utilization: f64,
    pub losers: Vec<Loser>,
    pub with_room: Vec<Hop>,
    pub imbalance: Imbalance,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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
            finding::Finding::UselessPin(pin) => Self::UselessPin(UselessPin::named(pin, fabric)),
            finding::Finding::Cause(cause) => Self::Cause(cause.clone()),
        }
    }
}

impl fmt::Display for UselessPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flow, hop, because } = self;
        write!(f, "{flow} is pinned at {} to {}, ", hop.from, hop.to)?;
        match because {
            Useless::WayDown { links } => {
                write!(
                    f,
                    "and the path from there is blocked: {} down or drained",
                    are(links)
                )
            }
            Useless::FlowEnded => f.write_str("and has ended"),
        }
    }
}

fn are(links: &[String]) -> String {
    let verb = if links.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", links.join(", "))
}

impl UselessPin {
    pub fn named(pin: &finding::UselessPin, fabric: &Fabric) -> Self {
        let because = match &pin.because {
            finding::Useless::WayDown { links } => Useless::WayDown {
                links: links.iter().map(|&link| fabric.link_name(link)).collect(),
            },
            finding::Useless::FlowEnded => Useless::FlowEnded,
        };
        Self {
            flow: pin.flow,
            hop: Hop::named(pin.hop, fabric),
            because,
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
