//! Paths by source port, learned from probes of switches with an unknown hash.

use std::collections::BTreeMap;

use reweave_common::snapshot::Hop;

use super::ecmp::Fields;
use super::listed::Listed;

/// Traced paths by hashed fields.
#[derive(Debug, Clone)]
pub struct Learned<Flow = Fields> {
    ways: BTreeMap<Flow, LearnedPath>,
}

impl<Flow> Default for Learned<Flow> {
    fn default() -> Self {
        let ways = BTreeMap::new();
        Self { ways }
    }
}

/// Traced path of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LearnedPath {
    /// All of them the same.
    Path(Vec<Hop>),
    /// Traces contradict each other: none is believed until the flow is traced again.
    Contradicted,
}

impl<Flow: Ord> Learned<Flow> {
    pub fn record(&mut self, flow: Flow, way: Vec<Hop>) {
        match self.ways.get_mut(&flow) {
            Some(LearnedPath::Path(known)) if *known == way => {}
            Some(report) => *report = LearnedPath::Contradicted,
            None => {
                self.ways.insert(flow, LearnedPath::Path(way));
            }
        }
    }

    /// After routes have changed, nothing learned of the flow counts.
    pub fn forget(&mut self, flow: &Flow) {
        self.ways.remove(flow);
    }

    pub fn is_contradicted(&self, flow: &Flow) -> bool {
        matches!(self.ways.get(flow), Some(LearnedPath::Contradicted))
    }

    pub fn way(&self, flow: &Flow) -> Option<&[Hop]> {
        match self.ways.get(flow)? {
            LearnedPath::Path(way) => Some(way),
            LearnedPath::Contradicted => None,
        }
    }
}

impl Learned {
    /// Learns from the traced flows.
    pub fn of<'f>(flows: impl IntoIterator<Item = &'f Listed>) -> Self {
        let mut learned = Self::default();
        for flow in flows.into_iter().filter(|flow| flow.traced) {
            learned.record(flow.fields, flow.path.clone());
        }
        learned
    }

    /// Returns the source ports that lead a flow over this path, lowest first; its other fields stay.
    pub fn ports_along<'l>(
        &'l self,
        flow: &Fields,
        way: &'l [Hop],
    ) -> impl Iterator<Item = u16> + 'l {
        let flow = Fields {
            source_port: 0,
            ..*flow
        };
        let alike = self.ways.iter().filter(move |(other, _)| {
            let other = Fields {
                source_port: 0,
                ..**other
            };
            other == flow
        });
        let along = alike.filter(move |(other, _)| self.way(other) == Some(way));
        along.map(|(other, _)| other.source_port)
    }
}
