//! Names of nodes for the addresses of flows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use reweave_common::flow::FlowKey;
use reweave_common::operator::Status;

#[derive(Debug, Default)]
pub(crate) struct Names {
    nodes: BTreeMap<Ipv4Addr, String>,
}

impl Names {
    pub(crate) fn of(status: &Status) -> Self {
        let agents = status.agents.iter();
        let named = agents.flat_map(|agent| {
            let addresses = agent.addresses.iter();
            addresses.map(|&address| (address, agent.node.clone()))
        });
        Self {
            nodes: named.collect(),
        }
    }

    /// Returns names for these flows: by their hosts, with ports if those are ambiguous.
    pub(crate) fn flows(&self, flows: impl IntoIterator<Item = FlowKey>) -> FlowNames<'_> {
        let flows: BTreeSet<_> = flows.into_iter().collect();
        let mut pairs: BTreeMap<_, Vec<FlowKey>> = BTreeMap::new();
        for &flow in &flows {
            pairs.entry(ends(&flow)).or_default().push(flow);
        }
        let several = pairs.into_iter().filter(|(_, alike)| alike.len() > 1);
        FlowNames {
            nodes: self,
            flows,
            with_ports: several.map(|(ends, _)| ends).collect(),
        }
    }

    pub(crate) fn node(&self, address: Ipv4Addr) -> String {
        let known = self.nodes.get(&address).cloned();
        known.unwrap_or_else(|| address.to_string())
    }
}

fn ends(flow: &FlowKey) -> [Ipv4Addr; 2] {
    [flow.source, flow.destination].map(|end| *end.ip())
}

#[derive(Debug)]
pub(crate) struct FlowNames<'n> {
    nodes: &'n Names,
    flows: BTreeSet<FlowKey>,
    with_ports: Vec<[Ipv4Addr; 2]>,
}

impl FlowNames<'_> {
    /// Replaces the addresses of these flows by names in a text of the coordinator.
    pub(crate) fn named(&self, text: &str) -> String {
        let named =
            |text: String, flow: &FlowKey| text.replace(&flow.to_string(), &self.name(flow));
        self.flows.iter().fold(text.to_owned(), named)
    }

    /// Returns `h1 > h5`, or `h1:49152 > h5:5001` if there are several flows between them.
    pub(crate) fn name(&self, flow: &FlowKey) -> String {
        let with_ports = self.with_ports.contains(&ends(flow));
        let end = |end: SocketAddrV4| {
            let node = self.nodes.node(*end.ip());
            if with_ports {
                format!("{node}:{}", end.port())
            } else {
                node
            }
        };
        format!("{} > {}", end(flow.source), end(flow.destination))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use reweave_common::flow::Protocol;

    use super::*;

    pub(crate) fn flow(from: u8, port: u16, to: u8) -> FlowKey {
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        FlowKey {
            protocol: Protocol::Tcp,
            source: end(from, port),
            destination: end(to, 5001),
        }
    }

    /// Hosts h0 to h7, at 10.0.0.0 to 10.0.0.7.
    pub(crate) fn eight_hosts() -> Names {
        let host = |n: u8| (Ipv4Addr::new(10, 0, 0, n), format!("h{n}"));
        Names {
            nodes: (0..8).map(host).collect(),
        }
    }

    #[test]
    fn ports_shown_only_where_needed() {
        let nodes = eight_hosts();
        let flows = [flow(1, 49152, 5), flow(1, 49153, 5), flow(0, 49152, 4)];
        let names = nodes.flows(flows);
        let named: Vec<_> = flows.iter().map(|flow| names.name(flow)).collect();
        assert_eq!(
            named,
            ["h1:49152 > h5:5001", "h1:49153 > h5:5001", "h0 > h4"]
        );
        assert_eq!(nodes.flows([flows[0], flows[0]]).name(&flows[0]), "h1 > h5");
    }

    #[test]
    fn coordinator_texts_use_names() {
        let nodes = eight_hosts();
        let names = nodes.flows([flow(1, 49152, 5)]);
        let said = format!("{} has ended; {}", flow(1, 49152, 5), flow(0, 1, 4));
        assert_eq!(
            names.named(&said),
            "h1 > h5 has ended; tcp 10.0.0.0:1 > 10.0.0.4:5001"
        );
    }

    #[test]
    fn unknown_node_is_shown_by_address() {
        let names = eight_hosts();
        let stranger = flow(1, 1, 99);
        assert_eq!(names.flows([stranger]).name(&stranger), "h1 > 10.0.0.99");
    }
}
