//! The resources that a running plan claims. Plans that share none of them may run concurrently.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::flow::FlowKey;
use crate::ids::{LinkId, NodeId, OpticalId};

/// The nodes, optical switches and other resources that a plan controls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSet {
    /// Nodes that may get an instruction.
    pub nodes: BTreeSet<NodeId>,
    pub opticals: BTreeSet<OpticalId>,
    /// Links whose load may change.
    pub links: BTreeSet<LinkId>,
    /// Destinations whose packets may take another path.
    pub destinations: BTreeSet<NodeId>,
    /// Flows that are moved, or that are predicted to change their rate.
    pub flows: BTreeSet<FlowKey>,
    /// Registered jobs whose rank order changes.
    pub jobs: BTreeSet<String>,
}

/// A resource that only one plan at a time may claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    Node(NodeId),
    Optical(OpticalId),
    Link(LinkId),
    Destination(NodeId),
    Flow(FlowKey),
    Job(String),
}

impl ResourceSet {
    /// Returns the first resource that both need.
    pub fn shared_with(&self, other: &Self) -> Option<Resource> {
        let node = common(&self.nodes, &other.nodes).map(Resource::Node);
        node.or_else(|| common(&self.opticals, &other.opticals).map(Resource::Optical))
            .or_else(|| common(&self.links, &other.links).map(Resource::Link))
            .or_else(|| common(&self.destinations, &other.destinations).map(Resource::Destination))
            .or_else(|| common(&self.flows, &other.flows).map(Resource::Flow))
            .or_else(|| common(&self.jobs, &other.jobs).map(Resource::Job))
    }
}

fn common<T: Ord + Clone>(one: &BTreeSet<T>, other: &BTreeSet<T>) -> Option<T> {
    one.intersection(other).next().cloned()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use super::*;
    use crate::flow::Protocol;

    #[test]
    fn resource_shared_by_plans_is_named() {
        let node = NodeId::from_index;
        let link = LinkId::from_index;
        let one = ResourceSet {
            nodes: [node(1), node(2)].into(),
            links: [link(3)].into(),
            ..ResourceSet::default()
        };
        let of_link = ResourceSet {
            nodes: [node(3)].into(),
            links: [link(3)].into(),
            ..ResourceSet::default()
        };
        assert_eq!(one.shared_with(&one), Some(Resource::Node(node(1))));
        assert_eq!(one.shared_with(&of_link), Some(Resource::Link(link(3))));
        let apart = ResourceSet {
            destinations: [node(1)].into(),
            ..ResourceSet::default()
        };
        assert_eq!(one.shared_with(&apart), None);
        assert_eq!(apart.shared_with(&ResourceSet::default()), None);
        let of_job = |job: &str| ResourceSet {
            jobs: [job.to_owned()].into(),
            ..ResourceSet::default()
        };
        let train = Resource::Job("train".to_owned());
        assert_eq!(of_job("train").shared_with(&of_job("train")), Some(train));
        assert_eq!(of_job("train").shared_with(&of_job("infer")), None);
    }

    #[test]
    fn each_resource_kind_is_exclusive() {
        let node = NodeId::from_index(1);
        let (optical, link) = (OpticalId::from_index(1), LinkId::from_index(1));
        let end = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let flow = FlowKey {
            protocol: Protocol::Tcp,
            source: end(1),
            destination: end(2),
        };
        let job = "train".to_owned();
        let mut sets = [(); 6].map(|()| ResourceSet::default());
        sets[0].nodes.insert(node);
        sets[1].opticals.insert(optical);
        sets[2].links.insert(link);
        sets[3].destinations.insert(node);
        sets[4].flows.insert(flow);
        sets[5].jobs.insert(job.clone());
        let resources = [
            Resource::Node(node),
            Resource::Optical(optical),
            Resource::Link(link),
            Resource::Destination(node),
            Resource::Flow(flow),
            Resource::Job(job),
        ];
        for (set, resource) in sets.iter().zip(resources) {
            assert_eq!(set.shared_with(set), Some(resource));
            let mut others = sets.iter().filter(|other| *other != set);
            assert!(others.all(|other| set.shared_with(other).is_none()));
        }
    }
}
