//! Switches that cannot hold pins or weights, as their agents report.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::hardware::Lack;
use reweave_common::ids::NodeId;
use reweave_repair::paths::Atlas;

use super::World;

/// More nodes are counted but not named.
const MAX_NAMED_NODES: usize = 5;

impl World<'_> {
    /// Nodes whose software cannot hold pins, and why. A missing permission of an agent does not prevent planning.
    pub(crate) fn unpinnable(&self) -> BTreeMap<NodeId, &str> {
        self.lacking(Lack::HARDWARE_PINS)
    }

    /// Nodes whose routes cannot have weights, and why.
    pub(crate) fn unweighable(&self) -> BTreeMap<NodeId, &str> {
        self.lacking(Lack::WEIGHTS)
    }

    fn lacking(&self, measurement: &str) -> BTreeMap<NodeId, &str> {
        let lacks = self.nodes.iter().filter_map(|(&node, observed)| {
            let lack = observed.host.lacks.get(measurement)?;
            Some((node, lack.value.because.as_str()))
        });
        lacks.collect()
    }

    /// Large flows over full links that cannot be moved, since the switches that choose their paths cannot hold pins.
    pub(crate) fn pinning_doubts(&self) -> Vec<String> {
        let unpinnable = self.unpinnable();
        if unpinnable.is_empty() {
            return Vec::new();
        }
        let (full, mut atlas) = (self.full_hops(), Atlas::new(self.fabric()));
        let mut flows = self.flows();
        flows.retain(|flow| self.known.is_elephant(flow.rate));
        let mut reasons: BTreeMap<&str, BTreeSet<NodeId>> = BTreeMap::new();
        for flow in &flows {
            let path = flow.path.as_deref().unwrap_or_default();
            if !path.iter().any(|hop| full.contains(hop)) {
                continue;
            }
            for at in path.iter().map(|hop| hop.from) {
                if let Some(&because) = unpinnable.get(&at)
                    && atlas.choices(at, flow).len() > 1
                {
                    reasons.entry(because).or_default().insert(at);
                }
            }
        }
        let reasons = reasons.into_iter();
        reasons
            .map(|(because, nodes)| self.pinning_doubt(because, &nodes))
            .collect()
    }

    fn pinning_doubt(&self, because: &str, nodes: &BTreeSet<NodeId>) -> String {
        let names = nodes.iter().take(MAX_NAMED_NODES);
        let names: Vec<_> = names.map(|&node| self.fabric().name(node)).collect();
        let more = match nodes.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}{more} cannot pin flows: {because}", names.join(", "))
    }
}
