//! Traffic of a simulation: recorded in a period, or listed in a table.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::flow::Protocol;
use reweave_common::ids::NodeId;
use reweave_common::input::{Document, InputError};
use reweave_common::moment::Moment;
use reweave_common::traffic::Burst;
use reweave_repair::paths::ecmp::Ecmp;

use super::variant::Routes;
use super::{SandboxError, Variant};
use crate::engine::flows::{self, Listed};
use crate::engine::network::{Costs, Network};
use crate::engine::{SimTime, TaskIndex};
use crate::workload::history::{Routing, Seen};

/// Whose hosts are known by their names, so that it can be played on any fabric that has them.
#[derive(Debug)]
pub struct Traffic {
    pub(super) sent: Vec<Sent>,
    /// Whose receiver is not known, or no host of the fabric.
    pub(super) left_out: usize,
    /// Routing in the original of bursts without a known path.
    as_it_was: Routing,
    /// Hash for all bursts in a variant without the original paths.
    rehashed: Ecmp,
}

#[derive(Debug)]
pub(super) struct Sent {
    pub(super) ends: [String; 2],
    pub(super) flow: String,
    at: SimTime,
    /// Since the beginning, or since the end of the flows that it waits for.
    waits: SimTime,
    after: Vec<TaskIndex>,
    pub(super) bytes: f64,
    /// Measured duration, if known.
    pub(super) sending: Option<SimTime>,
    ports: [u16; 2],
    protocol: u8,
    /// The nodes from the one end to before the other.
    hops: Option<Vec<String>>,
}

impl Traffic {
    /// Returns the recorded traffic from a moment on, between hosts of the recorded fabric.
    pub fn seen(bursts: &[Burst], from: Moment, recorded: &Fabric) -> Self {
        let is_host = |name: &str| {
            let node = recorded.find(name);
            node.is_some_and(|node| recorded.node(node).role.is_endpoint())
        };
        let mut sent: Vec<Sent> = Vec::with_capacity(bursts.len());
        let mut last = BTreeMap::new();
        for burst in bursts {
            let ends = burst.to_node.as_deref().map(|to| [&*burst.node, to]);
            let Some(ends) = ends.filter(|ends| ends.iter().copied().all(is_host)) else {
                continue;
            };
            let nth = sent.len() as TaskIndex;
            let before = last.insert((&*burst.node, burst.flow), nth);
            let mut it = Sent::of_burst(burst, ends, from);
            if let Some(before) = before.filter(|_| burst.goes_on) {
                (it.after, it.waits) = (vec![before], SimTime::ZERO);
            }
            sent.push(it);
        }
        Self {
            left_out: bursts.len() - sent.len(),
            sent,
            as_it_was: Routing::Even,
            rehashed: Ecmp::Mixed { seed: 0 },
        }
    }

    /// A table for `sim flows`; `file` is the name that errors call it by.
    pub fn listed(
        file: &str,
        text: &str,
        fabric: &Fabric,
        costs: &Costs,
        ecmp: Ecmp,
    ) -> Result<Self, InputError> {
        let network = Network::of(fabric, costs.clone());
        let flows = flows::parse(file, text, fabric, &network, &ecmp)?;
        if flows.listed.is_empty() {
            return Err(Document::new(file, text).error(0..0, "it lists no flows"));
        }
        let listed = flows.listed.into_iter().enumerate();
        Ok(Self {
            sent: listed
                .map(|(nth, it)| Sent::of_row(nth, it, fabric))
                .collect(),
            left_out: 0,
            as_it_was: Routing::Hashed(ecmp),
            rehashed: ecmp,
        })
    }

    pub fn len(&self) -> usize {
        self.sent.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    pub(super) fn as_it_was(&self, recorded: &Fabric) -> (Vec<Seen>, Routing) {
        let seen = |it: &Sent| {
            let [from, to] = [&it.ends[0], &it.ends[1]].map(|name| recorded.find(name));
            let (from, to) = (from?, to?);
            Some(it.seen([from, to], it.way(recorded, to)))
        };
        (self.sent.iter().filter_map(seen).collect(), self.as_it_was)
    }

    /// Returns the traffic with the hosts and paths of the variant.
    pub(super) fn otherwise(
        &self,
        variant: &Variant,
    ) -> Result<(Vec<Seen>, Routing), SandboxError> {
        let ends = self.sent.iter().flat_map(|it| &it.ends);
        variant.parts_all(&ends.map(String::as_str).collect())?;
        let seen = |it: &Sent| {
            let [from, to] = [&it.ends[0], &it.ends[1]].map(|name| variant.host(name));
            let (from, to) = (from?, to?);
            let given = variant.ways.get(&(from, to)).cloned();
            let seen = || it.way(&variant.fabric, to);
            let seen = || seen().filter(|_| variant.routes == Routes::Recorded);
            Ok(it.seen([from, to], given.or_else(seen)))
        };
        let seen = self.sent.iter().map(seen).collect::<Result<_, _>>()?;
        let routing = match variant.routes {
            Routes::Recorded => self.as_it_was,
            Routes::Rehashed => Routing::Hashed(self.rehashed),
            Routes::Chosen(routing) => routing,
        };
        Ok((seen, routing))
    }
}

impl Sent {
    fn of_burst(burst: &Burst, ends: [&str; 2], from: Moment) -> Self {
        let flow = burst.flow;
        let at = SimTime::from_duration(burst.at.since(from));
        Self {
            ends: ends.map(str::to_owned),
            flow: flow.to_string(),
            at,
            waits: at,
            after: Vec::new(),
            bytes: burst.bytes as f64,
            sending: Some(SimTime::from_duration(burst.sending)),
            ports: [flow.source, flow.destination].map(|it| it.port()),
            protocol: match flow.protocol {
                Protocol::Tcp => 6,
                Protocol::Udp => 17,
            },
            hops: burst.hops.clone(),
        }
    }

    fn of_row(nth: usize, row: Listed, fabric: &Fabric) -> Self {
        let name = |node| fabric.name(node).to_owned();
        let hops = |nodes: Vec<NodeId>| nodes.into_iter().rev().skip(1).rev().map(name).collect();
        Self {
            ends: row.ends.map(name),
            flow: nth.to_string(),
            at: row.start,
            waits: row.start,
            after: row.after,
            bytes: row.bytes,
            sending: None,
            ports: [row.fields.source_port, row.fields.destination_port],
            protocol: row.fields.protocol,
            hops: row.along.map(hops),
        }
    }

    pub(super) fn at_ms(&self) -> f64 {
        self.at.millis()
    }

    fn seen(&self, [from, to]: [NodeId; 2], along: Option<Vec<NodeId>>) -> Seen {
        Seen {
            at: self.waits,
            after: self.after.iter().map(|&it| it as usize).collect(),
            from,
            to,
            ports: self.ports,
            protocol: self.protocol,
            bytes: self.bytes,
            along,
        }
    }

    /// Returns the nodes of the observed path, if it is known from end to end.
    fn way(&self, fabric: &Fabric, to: NodeId) -> Option<Vec<NodeId>> {
        let hops = self.hops.as_ref()?.iter();
        let mut nodes: Vec<_> = hops.map(|name| fabric.find(name)).collect::<Option<_>>()?;
        nodes.push(to);
        let linked = |pair: &[NodeId]| fabric.links_between(pair[0], pair[1]).next().is_some();
        (nodes.len() > 1 && nodes.windows(2).all(linked)).then_some(nodes)
    }
}
