//! The fabric for the dashboard: nodes and links.

use reweave_common::fabric::{Fabric, Role};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fabric)]
pub(super) struct Shown<'a> {
    nodes: Vec<Node<'a>>,
    links: Vec<Link<'a>>,
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
        Self {
            nodes: nodes.collect(),
            links: links.collect(),
        }
    }
}
