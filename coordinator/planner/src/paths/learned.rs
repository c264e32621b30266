//! What probing taught of switches whose hash is not known: which source port leads which way.

use std::collections::BTreeMap;

use reweave_common::flow::FlowKey;
use reweave_common::snapshot::Hop;

/// Ways by flow, as they were traced.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    ways: BTreeMap<FlowKey, Told>,
}

/// What traces say of a flow's way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// All of them the same.
    Way(Vec<Hop>),
    /// One says this and another that: none is believed until the flow is traced anew.
    Contradicted([Vec<Hop>; 2]),
}

impl Learned {
    pub fn record(&mut self, flow: FlowKey, way: Vec<Hop>) {
        let told = self.ways.entry(flow).or_insert(Told::Way(way.clone()));
        if let Told::Way(known) = told
            && *known != way
        {
            *told = Told::Contradicted([known.clone(), way]);
        }
    }

    /// After routes have changed, nothing learned of the flow counts.
    pub fn forget(&mut self, flow: &FlowKey) {
        self.ways.remove(flow);
    }

    pub fn told(&self, flow: &FlowKey) -> Option<&Told> {
        self.ways.get(flow)
    }

    pub fn way(&self, flow: &FlowKey) -> Option<&[Hop]> {
        match self.told(flow)? {
            Told::Way(way) => Some(way),
            Told::Contradicted(_) => None,
        }
    }

    pub fn contradictions(&self) -> impl Iterator<Item = (&FlowKey, &[Vec<Hop>; 2])> {
        self.ways.iter().filter_map(|(flow, told)| match told {
            Told::Contradicted(ways) => Some((flow, ways)),
            Told::Way(_) => None,
        })
    }

    /// The least source port that leads a flow's packets over `hop`; the rest of the flow stays.
    pub fn port_over(&self, flow: &FlowKey, hop: Hop) -> Option<u16> {
        let alike = |other: &FlowKey| {
            let same_ends = other.source.ip() == flow.source.ip();
            same_ends && (other.protocol, other.destination) == (flow.protocol, flow.destination)
        };
        let over = self
            .ways
            .keys()
            .filter(|other| alike(other) && self.way(other).is_some_and(|way| way.contains(&hop)));
        over.map(|other| other.source.port()).min()
    }
}
