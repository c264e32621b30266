//! The paths of flows, as agents have traced them.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use reweave_common::fabric::Fabric;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::operator::{Between, FlowEnd, Refused, TracedFlow, TracedStep, TracedWay};

use super::jobs::host;
use crate::estimate::probe_paths::is_of_probes;
use crate::log::millis::millis;
use crate::model::world::{Passed, World};

/// An answer has to fit into one message, however much two hosts exchange.
const MAX_FLOWS: usize = 256;

/// One end of a flow, as the operator named it.
struct End<'e> {
    said: &'e FlowEnd,
    node: NodeId,
    /// The address, if the operator gave one.
    address: Option<Ipv4Addr>,
}

/// The flows that match. A fully named flow is included even if no host sends it. Probes are shown if nothing else
/// matches.
pub(crate) fn flows(world: &World<'_>, between: &Between) -> Result<BTreeSet<FlowKey>, Refused> {
    let from = End::of(world, &between.from)?;
    let to = End::of(world, &between.to)?;
    if let (Some(source), Some(destination)) = (from.socket(world)?, to.socket(world)?) {
        let protocol = between.protocol.unwrap_or(Protocol::Tcp);
        return Ok(BTreeSet::from([FlowKey {
            protocol,
            source,
            destination,
        }]));
    }
    let is_meant = |flow: &FlowKey| {
        let is_said = between.protocol.is_none_or(|it| it == flow.protocol);
        is_said && from.is(world, flow.source) && to.is(world, flow.destination)
    };
    let known = world.sent_or_traced(from.node).filter(is_meant);
    let (probes, flows): (BTreeSet<_>, BTreeSet<_>) = known.partition(is_of_probes);
    let known = if flows.is_empty() { probes } else { flows };
    Ok(known.into_iter().take(MAX_FLOWS).collect())
}

pub(super) fn trace(world: &World<'_>, between: &Between) -> Result<Vec<TracedFlow>, Refused> {
    let flows = flows(world, between)?.into_iter();
    Ok(flows.filter_map(|flow| traced(world, flow)).collect())
}

fn traced(world: &World<'_>, flow: FlowKey) -> Option<TracedFlow> {
    let owner = |end: SocketAddrV4| world.known.ingest.owner(*end.ip());
    let (from, to) = (owner(flow.source)?, owner(flow.destination)?);
    let there = way(world, from, &flow);
    let back = way(world, to, &flow.reversed());
    let name = |node| world.fabric().name(node).to_owned();
    Some(TracedFlow {
        is_symmetric: TracedFlow::same_way(there.as_ref(), back.as_ref()),
        flow,
        from: name(from),
        to: name(to),
        there,
        back,
    })
}

fn way(world: &World<'_>, from: NodeId, flow: &FlowKey) -> Option<TracedWay> {
    let (traced, passed) = world.passed(from, flow)?;
    let steps = passed.iter().map(|it| step(world.fabric(), it));
    Some(TracedWay {
        steps: steps.collect(),
        is_confirmed: traced.value.confirmed,
        age_ms: millis(traced.age(world.known.now)),
    })
}

fn step(fabric: &Fabric, passed: &Passed) -> TracedStep {
    TracedStep {
        node: passed.node.map(|node| fabric.name(node).to_owned()),
        address: passed.address,
        link: passed.link.map(|link| fabric.link_name(link)),
    }
}

impl<'e> End<'e> {
    fn of(world: &World<'_>, said: &'e FlowEnd) -> Result<Self, Refused> {
        let fabric = world.fabric();
        let Ok(address) = said.host.parse() else {
            return Ok(Self {
                said,
                node: host(fabric, &said.host)?,
                address: None,
            });
        };
        let owner = world.known.ingest.owner(address);
        let node = owner.ok_or_else(|| Refused::NoSuchHost {
            name: said.host.clone(),
        })?;
        Ok(Self {
            said,
            node,
            address: Some(address),
        })
    }

    fn is(&self, world: &World<'_>, end: SocketAddrV4) -> bool {
        let is_there = match self.address {
            Some(address) => address == *end.ip(),
            None => world.known.ingest.owner(*end.ip()) == Some(self.node),
        };
        is_there && self.said.port.is_none_or(|port| port == end.port())
    }

    /// The socket address, if the operator gave a port: then the address must be unambiguous.
    fn socket(&self, world: &World<'_>) -> Result<Option<SocketAddrV4>, Refused> {
        let Some(port) = self.said.port else {
            return Ok(None);
        };
        let address = self.address.or(world.wiring.only_address(self.node));
        let address = address.ok_or_else(|| Refused::WhichAddress {
            host: self.said.host.clone(),
            has: world.wiring.addresses_of(self.node).collect(),
        })?;
        Ok(Some(SocketAddrV4::new(address, port)))
    }
}
