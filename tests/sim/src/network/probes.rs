//! Replies of the network to probes: a router reports the interface at which the TTL of a packet ran out, and hosts
//! return echoes.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use reweave_agent_core::probe::{Probe, ProbeAim, TraceAnswer, TraceEvent};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;

use super::Network;
use super::addresses::{end_address, host_address, nic_address};

impl Network {
    /// The answer to a probe that is sent now, and how long it takes without any queues.
    pub fn answer(&self, sender: NodeId, probe: &Probe) -> Option<(Duration, TraceAnswer)> {
        let to = self.addresses.owner(probe.destination())?;
        let flow = self.treated_like(sender, probe);
        let known = self.flows.get(&flow).map(|flow| flow.way.clone());
        let ends = [sender, to];
        let find = || self.ways.path(&self.fabric, &self.kernels, &flow, ends);
        let path = known.unwrap_or_else(find).ok()?;
        let passed = path.get(..usize::from(probe.ttl).min(path.len()))?;
        let last = *passed.last()?;
        let (from, event) = if passed.len() < path.len() {
            (
                end_address(&self.fabric, self.far(last)),
                TraceEvent::Expired,
            )
        } else if matches!(probe.aim, ProbeAim::Hop(_)) {
            return None;
        } else {
            (probe.destination(), TraceEvent::Echoed)
        };
        let there: Duration = passed
            .iter()
            .map(|hop| self.fabric.link(hop.link).latency)
            .sum();
        let answer = TraceAnswer {
            aim: probe.aim,
            id: probe.id,
            from,
            event,
        };
        Some((2 * there, answer))
    }

    /// Returns the address from which a host sends to another that is not bound to an address: each rail is reached by the
    /// host's own NIC on it.
    fn source_towards(&self, sender: NodeId, destination: Ipv4Addr) -> Ipv4Addr {
        let fabric = &self.fabric;
        let link = self.addresses.nic_link(destination);
        let to = link.and_then(|link| fabric.nic_at(link));
        let own = to.map(|to| fabric.nic(to)).and_then(|to| {
            let mut own = fabric.nics_of(sender).iter().map(|&nic| fabric.nic(nic));
            own.find(|own| (own.purpose, own.rail, own.plane) == (to.purpose, to.rail, to.plane))
        });
        match own {
            Some(own) => nic_address(fabric, sender, own.link),
            None => host_address(fabric, sender),
        }
    }

    /// Routers hash a probe for a flow like the flow, and echoes by their addresses.
    fn treated_like(&self, sender: NodeId, probe: &Probe) -> FlowKey {
        let no_port = |address: Ipv4Addr| SocketAddrV4::new(address, 0);
        match probe.aim {
            ProbeAim::Hop(flow) => flow,
            ProbeAim::Distance(host) => FlowKey {
                protocol: Protocol::Udp,
                source: no_port(self.source_towards(sender, host)),
                destination: no_port(host),
            },
        }
    }
}
