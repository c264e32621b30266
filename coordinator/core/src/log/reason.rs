//! Why a plan is not applied, or is rolled back.

use reweave_check::Unsound;
use reweave_common::circuit::NotSwitched;
use reweave_common::fabric::{Fabric, Role};
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId, OpticalId};
use reweave_common::instruction::InstallRefusal;
use reweave_common::plan::Generation;
use reweave_common::resource_set::Resource;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;
use serde::{Deserialize, Serialize};

use crate::log::command::Author;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The checker found the plan unsound.
    Unsound(Unsound),
    /// A later plan replaced it.
    Superseded {
        by: Generation,
    },
    /// A running plan holds some of the resources it needs.
    Taken {
        by: Generation,
        what: Resource,
    },
    /// The migration would have to instruct a node that the plan does not claim.
    Beyond {
        node: NodeId,
    },
    /// It was not approved in time.
    NotApproved,
    /// An operator aborted it.
    Aborted {
        by: Author,
    },
    /// Its findings no longer hold.
    NothingToMend,
    FlowEnded {
        flow: FlowKey,
    },
    /// There are no recent readings of a flow that the plan moves.
    NotMeasured {
        flow: FlowKey,
    },
    /// No report says which interface this end of the link is.
    UnknownPort {
        at: NodeId,
        link: LinkId,
    },
    /// There is no session with the agent of a switch that the plan concerns.
    NotConnected {
        node: NodeId,
    },
    /// A switch refused the instruction.
    Refused {
        node: NodeId,
        refusal: InstallRefusal,
    },
    /// A switch reads back another state than instructed.
    HoldsOtherRules {
        node: NodeId,
    },
    /// Every order of steps would disconnect a host, or leave a node too little capacity.
    #[serde(rename = "no_course")]
    NoSafeOrder,
    /// No report has the loopback address by which a node is reached independent of its links.
    NoAddress {
        node: NodeId,
    },
    /// Packets still passed a port whose circuits were to move.
    NotDrained {
        node: NodeId,
        interface: String,
    },
    /// There is no session with the driver of an optical switch that the plan concerns.
    NoDriver {
        optical: OpticalId,
    },
    /// An optical switch did not make the circuits.
    NotSwitched {
        optical: OpticalId,
        why: NotSwitched,
    },
    /// This end of a new circuit has no light.
    NoLight {
        node: NodeId,
        interface: String,
    },
    /// A switch did not answer in time.
    Silent {
        node: NodeId,
    },
    /// The plan would touch a link that the frozen job of this host uses.
    Frozen {
        host: NodeId,
        link: LinkId,
    },
    /// By the routes in force, packets still use a link that should carry nothing.
    NotAround {
        link: LinkId,
    },
    /// Neither end of a link reports its traffic.
    Unwatched {
        link: LinkId,
    },
    /// Ports have not been observed for long enough under the present routes.
    NotWatched,
    TooLittleGain {
        before: Rate,
        after: Rate,
        needed: Rate,
    },
    GotSlower {
        flow: FlowKey,
        before: Rate,
        after: Rate,
    },
    /// Iterations of a job take longer.
    Delayed {
        job: String,
        before: TimeSpan,
        after: TimeSpan,
    },
    /// A flow was there before the plan, and has no readings afterwards.
    Vanished {
        flow: FlowKey,
    },
    /// The job is over, or its ranks differ from those that the plan was made for.
    OtherRanks {
        job: String,
    },
    /// The plan is too large for the log.
    TooLarge {
        entries: usize,
        most: usize,
    },
}

fn delayed(job: &str, times: [&TimeSpan; 2]) -> String {
    let [before, after] = times.map(|it| it.as_secs_f64() * 1e3);
    format!("an iteration of the job on {job} took {before:.1} ms before and {after:.1} ms after")
}

fn too_large(entries: usize, most: usize) -> String {
    format!(
        "it has {entries} next hops and other entries, more than the {most} that fit into a \
             log entry"
    )
}

fn taken(fabric: &Fabric, by: Generation, what: &Resource) -> String {
    let what = match what {
        Resource::Node(node) => fabric.name(*node).to_owned(),
        Resource::Optical(optical) => fabric.optical(*optical).name.clone(),
        Resource::Link(link) => fabric.link_name(*link),
        Resource::Destination(node) => match fabric.node(*node).role {
            Role::Switch => format!("traffic for the NICs behind {}", fabric.name(*node)),
            _ => format!("traffic for {}", fabric.name(*node)),
        },
        Resource::Flow(flow) => flow.to_string(),
        Resource::Job(job) => format!("the order of {job}'s ranks"),
    };
    format!("plan {by} is in progress and also changes {what}")
}

impl Reason {
    /// The minor version of the protocol that introduced it.
    pub(crate) fn since(&self) -> u16 {
        match self {
            Self::Unsound(fault) => fault.since(),
            _ => 0,
        }
    }

    /// The reason as text, with the names of nodes and links.
    pub fn words(&self, fabric: &Fabric) -> String {
        let name = |node: &NodeId| fabric.name(*node);
        match self {
            Self::Unsound(fault) => format!("it is unsound: {fault}"),
            Self::TooLarge { entries, most } => too_large(*entries, *most),
            Self::Superseded { by } => format!("superseded by plan {by}"),
            Self::Taken { by, what } => taken(fabric, *by, what),
            Self::Beyond { node } => format!("it would also have to change {}", name(node)),
            Self::NotApproved => "it was not approved in time".to_owned(),
            Self::Aborted { by } => format!("{by} aborted it"),
            Self::NothingToMend => "the problem it would fix is gone".to_owned(),
            Self::FlowEnded { flow } => format!("{flow} has ended"),
            Self::NotMeasured { flow } => format!("no recent readings of {flow}"),
            Self::UnknownPort { at, link } => unknown_port(fabric, *at, *link),
            Self::NotConnected { node } => format!("the agent of {} is not connected", name(node)),
            Self::Refused { node, refusal } => format!("{} refused: {refusal}", name(node)),
            Self::HoldsOtherRules { node } => {
                format!("{} holds other rules than instructed", name(node))
            }
            Self::NoSafeOrder => {
                "no order of steps keeps every host connected with enough capacity".to_owned()
            }
            Self::NoAddress { node } => no_address(fabric, *node),
            Self::NotDrained { node, interface } => {
                format!("packets still passed {interface} of {}", name(node))
            }
            Self::NoDriver { optical } => {
                let name = &fabric.optical(*optical).name;
                format!("the driver of {name} is not connected")
            }
            Self::NotSwitched { optical, why } => {
                format!("{} did not switch: {why}", fabric.optical(*optical).name)
            }
            Self::NoLight { node, interface } => no_light(name(node), interface),
            Self::Silent { node } => format!("{} did not answer in time", name(node)),
            Self::Frozen { host, link } => frozen(fabric, *host, *link),
            Self::NotAround { link } => {
                format!("routes use {}", fabric.link_name(*link))
            }
            Self::Unwatched { link } => unwatched(fabric, *link),
            Self::NotWatched => "its ports were not observed for long enough".to_owned(),
            Self::TooLittleGain {
                before,
                after,
                needed,
            } => format!(
                "the slowest flow went from {before} to {after}; {needed} was the minimum to keep \
                 the change"
            ),
            Self::GotSlower {
                flow,
                before,
                after,
            } => {
                format!("{flow} went from {before} to {after}")
            }
            Self::Delayed { job, before, after } => delayed(job, [before, after]),
            Self::Vanished { flow } => format!("{flow} was no longer seen"),
            Self::OtherRanks { job } => {
                format!("{job} has ended or got another rank order since")
            }
        }
    }
}

fn frozen(fabric: &Fabric, host: NodeId, link: LinkId) -> String {
    let (host, link) = (fabric.name(host), fabric.link_name(link));
    format!(
        "it would touch {link}, which the frozen job of {host} uses; `reweave job thaw {host}` \
         allows it"
    )
}

/// The end of a NIC's cable is unknown if the NIC's address is.
fn unknown_port(fabric: &Fabric, at: NodeId, link: LinkId) -> String {
    let (host, cable) = (fabric.name(at), fabric.link_name(link));
    let nic = fabric.nic_at(link).map(|nic| fabric.nic(nic));
    match nic.filter(|nic| nic.host == at && fabric.has_declared_nics()) {
        Some(nic) => format!(
            "no address of NIC {} of {host} is known: start its agent or write it in the fabric file",
            nic.interface.as_ref().unwrap_or(&cable)
        ),
        None => format!("{host} has not reported its interface to {cable}"),
    }
}

fn no_address(fabric: &Fabric, node: NodeId) -> String {
    let host = fabric.name(node);
    let remedy = if fabric.nics_of(node).len() > 1 {
        ": declare its NICs as [[nic]]"
    } else {
        ""
    };
    format!("{host} has no `address` in the fabric's file{remedy}")
}

fn no_light(node: &str, interface: &str) -> String {
    format!("{interface} of {node} has no stable light from its new circuit")
}

fn unwatched(fabric: &Fabric, link: LinkId) -> String {
    let link = fabric.link_name(link);
    format!("no end of {link} reports its traffic")
}
