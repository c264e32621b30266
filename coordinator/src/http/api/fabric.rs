//! The fabric for the dashboard: nodes, links and NICs.

use std::net::Ipv4Addr;

use reweave_common::fabric::{Fabric, NicUse, Role};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fabric)]
pub(super) struct Shown<'a> {
    nodes: Vec<Node<'a>>,
    links: Vec<Link<'a>>,
    nics: Vec<Nic<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Node<'a> {
    name: &'a str,
    role: Role,
}

#[derive(Debug, Serialize, ToSchema)]
struct Link<'a> {
    name: String,
    a: &'a str,
    b: &'a str,
    rate_bits_per_s: u64,
    latency_us: f64,
}

/// What the fabric file says of a NIC. Without declared NICs, each cable of a host is one for training.
#[derive(Debug, Serialize, ToSchema)]
struct Nic<'a> {
    host: &'a str,
    link: String,
    interface: Option<&'a str>,
    #[schema(value_type = Option<String>)]
    address: Option<Ipv4Addr>,
    rail: u16,
    plane: Option<u16>,
    #[serde(rename = "use")]
    purpose: NicUse,
    gpu: Option<u16>,
    numa: Option<u16>,
}

impl<'a> Shown<'a> {
    pub(super) fn of(fabric: &'a Fabric) -> Self {
        let nodes = fabric.nodes().map(|(_, node)| Node {
            name: &node.name,
            role: node.role,
        });
        let links = fabric.links().map(|(id, link)| Link {
            name: fabric.link_name(id),
            a: fabric.name(link.a.node),
            b: fabric.name(link.b.node),
            rate_bits_per_s: link.rate.bits_per_s(),
            latency_us: link.latency.as_nanos() as f64 / 1e3,
        });
        let nics = fabric.nics().map(|(_, nic)| Nic {
            host: fabric.name(nic.host),
            link: fabric.link_name(nic.link),
            interface: nic.interface.as_deref(),
            address: nic.address,
            rail: nic.rail,
            plane: nic.plane,
            purpose: nic.purpose,
            gpu: nic.gpu,
            numa: nic.numa,
        });
        Self {
            nodes: nodes.collect(),
            links: links.collect(),
            nics: nics.collect(),
        }
    }
}
