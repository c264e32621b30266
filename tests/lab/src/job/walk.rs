//! Path of a flow: asks the kernels of its switches, hop by hop.
//!
//! The kernels are the ground truth; this module does not know their hash.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use reweave_common::fabric::Port;
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};

use super::ports::Hop;
use crate::error::LabError;
use crate::nodes::Nodes;
use crate::tools::Tool;
use crate::wiring::is_cable;

/// A flow between two nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Routed {
    pub(crate) flow: FlowKey,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
}

/// The hops of each flow, from sender to receiver. All flows that stand at one node are asked for
/// at once, so the cost is that of a tool per node and hop, however many flows there are.
pub(crate) fn paths(nodes: &Nodes, flows: &[Routed]) -> Result<Vec<Vec<Hop>>, LabError> {
    let mut walkers: Vec<_> = flows.iter().map(|&routed| Walker::new(routed)).collect();
    for _ in nodes.fabric().nodes() {
        let mut standing: BTreeMap<NodeId, Vec<&mut Walker>> = BTreeMap::new();
        for walker in walkers.iter_mut().filter(|walker| !walker.arrived()) {
            standing.entry(walker.at).or_default().push(walker);
        }
        for (node, walkers) in standing {
            step_all(nodes, node, walkers)?;
        }
    }
    walkers.into_iter().map(Walker::finish).collect()
}

/// Outgoing interface and next hop of a packet.
type Exit<'a> = (&'a str, Option<Ipv4Addr>);

struct Walker {
    routed: Routed,
    at: NodeId,
    /// The port it came in by; none at its sender.
    entered: Option<Port>,
    path: Vec<Hop>,
}

impl Walker {
    fn new(routed: Routed) -> Self {
        Self {
            routed,
            at: routed.from,
            entered: None,
            path: Vec::new(),
        }
    }

    fn arrived(&self) -> bool {
        self.at == self.routed.to
    }

    /// The question to ask at the node it stands at.
    fn ask(&self, nodes: &Nodes, script: &mut String) {
        let FlowKey {
            protocol,
            source,
            destination,
        } = self.routed.flow;
        let _ = write!(
            script,
            "route get {} from {} ipproto {protocol} sport {} dport {}",
            destination.ip(),
            source.ip(),
            source.port(),
            destination.port()
        );
        if let Some(entered) = self.entered {
            let _ = write!(script, " iif {}", nodes.interface(entered));
        }
        script.push('\n');
    }

    fn leave_by(&mut self, nodes: &Nodes, (interface, via): Exit<'_>) -> Result<(), LabError> {
        let fabric = nodes.fabric();
        let is_it = |link: LinkId| {
            let own = fabric
                .link(link)
                .ports()
                .into_iter()
                .find(|port| port.node == self.at);
            // A fibre may lead to any node; the next hop says to which it does.
            let far = nodes.address(fabric.link(link).far(self.at).node);
            let leads_there = is_cable(fabric, link) || via == Some(far);
            leads_there && own.is_some_and(|port| nodes.interface(port) == interface)
        };
        let link = fabric
            .links_of(self.at)
            .iter()
            .copied()
            .find(|&link| is_it(link));
        let link = link.ok_or_else(|| self.lost())?;
        self.path.push((self.at, link));
        let far = fabric.link(link).far(self.at);
        (self.at, self.entered) = (far.node, Some(far));
        Ok(())
    }

    fn lost(&self) -> LabError {
        LabError::NoPath {
            flow: self.routed.flow.to_string(),
        }
    }

    fn finish(self) -> Result<Vec<Hop>, LabError> {
        if self.arrived() {
            Ok(self.path)
        } else {
            Err(self.lost())
        }
    }
}

fn step_all(nodes: &Nodes, node: NodeId, walkers: Vec<&mut Walker>) -> Result<(), LabError> {
    let mut script = String::new();
    for walker in &walkers {
        walker.ask(nodes, &mut script);
    }
    let said = nodes.batch(node, Tool::Ip, &script)?;
    let mut answers = said.lines().filter_map(exit_of);
    for walker in walkers {
        let exit = answers.next().ok_or_else(|| walker.lost())?;
        walker.leave_by(nodes, exit)?;
    }
    Ok(())
}

/// `10.0.0.5 from 10.0.0.1 via 10.192.0.3 dev swp2 src 10.128.0.0 uid 0`; further lines of an answer
/// are indented and name no device.
fn exit_of(line: &str) -> Option<Exit<'_>> {
    let word_after = |key| line.split_once(key)?.1.split_whitespace().next();
    let via = word_after(" via ").and_then(|via| via.parse().ok());
    Some((word_after(" dev ")?, via))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_and_next_hop_are_parsed() {
        let forwarded = "10.0.0.5 from 10.0.0.1 via 10.192.0.3 dev swp2 \n    cache iif swp0 \n";
        assert_eq!(
            forwarded.lines().filter_map(exit_of).collect::<Vec<_>>(),
            [("swp2", Some(Ipv4Addr::new(10, 192, 0, 3)))]
        );
    }
}
