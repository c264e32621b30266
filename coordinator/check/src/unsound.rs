//! What can be wrong with a plan, in words an operator understands.

use std::fmt;

use reweave_common::circuit::{Circuit, PortId};
use reweave_common::flow::FlowKey;
use reweave_common::plan::Generation;
use reweave_common::units::Rate;
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
    /// Packets that go this way may come to `stuck_at` and no further. Where that is their host, they are for another of
    /// its NICs than the one they arrive at, and `destination` is the link of that NIC.
    BlackHole {
        way: NamedPin,
        stuck_at: String,
        destination: String,
    },
    /// What is for this node may not arrive.
    Astray {
        destination: String,
        trouble: Trouble,
    },
    NoSuchNode {
        node: usize,
    },
    NoSuchOptical {
        number: usize,
    },
    PortTwice {
        optical: String,
        port: PortId,
    },
    /// No fibre is at one of its ports, or both lead to one node.
    JoinsNothing {
        optical: String,
        circuit: Circuit,
    },
    /// The link goes dark while packets pass it.
    UnderTraffic {
        at: String,
        link: String,
        destination: String,
    },
    /// A node with a link that goes dark holds no route of its own to this destination.
    Unrouted {
        at: String,
        destination: String,
    },
    /// While circuits move, a node has too little left.
    TooNarrow {
        node: String,
        left: Rate,
        least: Rate,
    },
    /// Full buffers may wait for each other, and the last for the first.
    Deadlock {
        buffers: Vec<String>,
    },
    /// The migration plan does not lead to what the plan says.
    LeadsElsewhere,
    // What came with 1.1 follows.
    /// Flows that nothing held back would come to a link that has no room for them.
    Overload(Overload),
}

impl Unsound {
    /// The minor version of the protocol that it came with.
    pub fn since(&self) -> u16 {
        match self {
            Self::Overload(_) => 1,
            _ => 0,
        }
    }
}

/// What a link would have to carry away from a node, by what was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overload {
    pub from: String,
    pub link: String,
    pub load: Rate,
    pub rate: Rate,
}

/// Why packets for a node may not arrive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    Circle { nodes: Vec<String> },
    Stuck { at: String },
    DeadLink { at: String, link: String },
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
    Dark,
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaleParent { parent, in_force } => write!(
                f,
                "the plan builds on generation {parent}, but {in_force} is in force; make a new \
                 plan"
            ),
            Self::WrongGeneration { parent, generation } => {
                write!(
                    f,
                    "the plan is generation {generation}, which does not follow on {parent}"
                )
            }
            Self::BadPin { pin, fault } => write!(f, "{pin}: {fault}"),
            Self::Conflict { pin, other } => write!(f, "{pin}, and there to link {other} as well"),
            Self::Loop { flow, nodes } => write!(f, "{flow} may circle: {}", circle(nodes)),
            Self::BlackHole {
                way,
                stuck_at,
                destination,
            } => write!(
                f,
                "{}, sent by {} over link {}, may be lost at {stuck_at}: no next hop to \
                 {destination}",
                way.flow, way.switch, way.link
            ),
            Self::Astray {
                destination,
                trouble,
            } => write!(f, "traffic for {destination} {trouble}"),
            Self::NoSuchNode { node } => write!(f, "the fabric has no node {node}"),
            Self::NoSuchOptical { number } => {
                write!(f, "the fabric has no optical switch {number}")
            }
            Self::PortTwice { optical, port } => {
                write!(f, "port {port} of {optical} is in two circuits")
            }
            Self::JoinsNothing { optical, circuit } => {
                write!(f, "circuit {circuit} of {optical} joins no two nodes")
            }
            Self::UnderTraffic {
                at,
                link,
                destination,
            } => write!(
                f,
                "{link} goes dark while {at} sends over it to {destination}"
            ),
            Self::Unrouted { at, destination } => write!(
                f,
                "links of {at} go dark, and it holds no route of ours to {destination}"
            ),
            Self::TooNarrow { node, left, least } => write!(
                f,
                "{node} keeps {left} while circuits move, and {least} is the least"
            ),
            Self::Deadlock { buffers } => write!(
                f,
                "where nothing is dropped, full buffers may wait for each other: {} and again the first",
                buffers.join(", ")
            ),
            Self::LeadsElsewhere => f.write_str("its steps lead to something else"),
            Self::Overload(overload) => overload.fmt(f),
        }
    }
}

impl std::error::Error for Unsound {}

/// From the first node to the first again.
fn circle(nodes: &[String]) -> String {
    let start = nodes.first().map_or("", String::as_str);
    format!("{} > {start}", nodes.join(" > "))
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            link,
            load,
            rate,
        } = self;
        write!(
            f,
            "{link} would have to carry {load} from {from}, and its rate is {rate}: the flows that would go there are not \
             held back where they are"
        )
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Circle { nodes } => write!(f, "may circle: {}", circle(nodes)),
            Self::Stuck { at } => write!(f, "may be lost at {at}: no next hop"),
            Self::DeadLink { at, link } => {
                write!(f, "may be lost at {at}: {link} does not lead on from there")
            }
        }
    }
}

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
            Self::Dark => "no circuit joins these fibres",
            Self::NoSuchDestination => "no node has the address it goes to",
        })
    }
}
