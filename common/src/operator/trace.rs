//! Paths of flows, node by node, from the last traces of the agents at their ends.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::flow::{FlowKey, Protocol};

/// Selects flows between two hosts: all of them, if neither a protocol nor a port is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Between {
    pub protocol: Option<Protocol>,
    pub from: FlowEnd,
    pub to: FlowEnd,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEnd {
    /// Name or address of a host.
    pub host: String,
    pub port: Option<u16>,
}

/// A flow with its path and that of its return traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TracedFlow {
    pub flow: FlowKey,
    pub from: String,
    pub to: String,
    /// Absent if it was not traced recently.
    pub there: Option<TracedWay>,
    pub back: Option<TracedWay>,
    /// Whether both directions take the same links; absent if a link of either is unknown.
    pub is_symmetric: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TracedWay {
    /// All nodes after the sender, in order; the last is the receiver.
    pub steps: Vec<TracedStep>,
    /// Whether the receiver's agent has seen packets of this flow that passed this number of routers.
    pub is_confirmed: bool,
    pub age_ms: u64,
}

/// A node on the path. Unknown values are absent; nothing is guessed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TracedStep {
    pub node: Option<String>,
    /// Address in its answer.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub address: Option<Ipv4Addr>,
    /// Link over which it is reached.
    pub link: Option<String>,
}

impl TracedWay {
    /// Returns the links, if all are known.
    pub fn links(&self) -> Option<Vec<&str>> {
        self.steps.iter().map(|step| step.link.as_deref()).collect()
    }
}

impl TracedFlow {
    /// Whether both directions take the same links, as far as that is known.
    pub fn same_way(there: Option<&TracedWay>, back: Option<&TracedWay>) -> Option<bool> {
        let (there, back) = (there?.links()?, back?.links()?);
        Some(there.iter().eq(back.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(links: &[Option<&str>]) -> TracedWay {
        let step = |link: &Option<&str>| TracedStep {
            link: link.map(str::to_owned),
            ..TracedStep::default()
        };
        TracedWay {
            steps: links.iter().map(step).collect(),
            is_confirmed: true,
            age_ms: 0,
        }
    }

    #[test]
    fn symmetry_compares_links_and_needs_all() {
        let there = way(&[Some("a-b"), Some("b-c")]);
        let same = |back: Option<&TracedWay>| TracedFlow::same_way(Some(&there), back);
        assert_eq!(same(Some(&way(&[Some("b-c"), Some("a-b")]))), Some(true));
        assert_eq!(same(Some(&way(&[Some("b-c"), Some("a-b.2")]))), Some(false));
        assert_eq!(same(Some(&way(&[Some("b-c")]))), Some(false));
        assert_eq!(same(Some(&way(&[Some("b-c"), None]))), None);
        assert_eq!(same(None), None);
    }
}
