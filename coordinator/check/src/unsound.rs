//! What can be wrong with a plan, in words an operator understands.

use std::fmt;

use reweave_common::flow::FlowKey;
use reweave_common::plan::Generation;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unsound {
    StaleParent {
        parent: Generation,
        in_force: Generation,
    },
    WrongGeneration {
        parent: Generation,
        generation: Generation,
    },
    BadPin {
        pin: NamedPin,
        fault: PinFault,
    },
    /// A second pin of the same flow at the same switch, to this link.
    Conflict {
        pin: NamedPin,
        other: String,
    },
    /// Packets may pass these nodes one after another, and the first again after the last.
    Loop {
        flow: FlowKey,
        nodes: Vec<String>,
    },
    /// Packets that go this way may come to `stuck_at` and no further.
    BlackHole {
        way: NamedPin,
        stuck_at: String,
        destination: String,
    },
}

/// A flow leaves a switch over a link; both by their names in the fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedPin {
    pub flow: FlowKey,
    pub switch: String,
    pub link: String,
}

/// Why no switch could carry out a pin, or none should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinFault {
    NoSuchNode,
    NoSuchLink,
    ForwardsNothing,
    LinkElsewhere,
    LinkDown,
    NoSuchDestination,
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaleParent { parent, in_force } => write!(
                f,
                "the plan builds on generation {parent}, but {in_force} is in force; plan anew"
            ),
            Self::WrongGeneration { parent, generation } => {
                write!(
                    f,
                    "the plan is generation {generation}, which does not follow on {parent}"
                )
            }
            Self::BadPin { pin, fault } => write!(f, "{pin}: {fault}"),
            Self::Conflict { pin, other } => write!(f, "{pin}, and there to link {other} as well"),
            Self::Loop { flow, nodes } => {
                let start = nodes.first().map_or("", String::as_str);
                write!(f, "{flow} may circle: {} > {start}", nodes.join(" > "))
            }
            Self::BlackHole {
                way,
                stuck_at,
                destination,
            } => write!(
                f,
                "{}, sent by {} over link {}, may be lost at {stuck_at}: no way on to {destination}",
                way.flow, way.switch, way.link
            ),
        }
    }
}

impl std::error::Error for Unsound {}

impl fmt::Display for NamedPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flow, switch, link } = self;
        write!(f, "{flow} is pinned at {switch} to link {link}")
    }
}

impl fmt::Display for PinFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchNode => "the fabric has no such node",
            Self::NoSuchLink => "the fabric has no such link",
            Self::ForwardsNothing => "this node forwards nothing",
            Self::LinkElsewhere => "this link is not there",
            Self::LinkDown => "this link is down",
            Self::NoSuchDestination => "no node has the address it goes to",
        })
    }
}
