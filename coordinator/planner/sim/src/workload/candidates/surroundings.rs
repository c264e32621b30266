//! Reachable parts of a fabric: other parts do not affect a host's traffic.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_repair::Together;

/// Identifies parts of fabrics. The same part has the same number in every fabric.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    known: BTreeMap<Vec<[u64; 4]>, u32>,
}

impl Surroundings {
    /// Returns the number of each node's surroundings.
    pub(super) fn of(&mut self, fabric: &Fabric) -> Vec<u32> {
        let nodes = fabric.nodes().len();
        let mut together = Together::new(nodes);
        for (_, link) in fabric.links() {
            together.join(link.a.node.index(), link.b.node.index());
        }
        let mut parts: BTreeMap<usize, Vec<[u64; 4]>> = BTreeMap::new();
        for (id, node) in fabric.nodes() {
            let part = parts.entry(together.first(id.index())).or_default();
            part.push([id.index() as u64, node.role as u64, u64::MAX, u64::MAX]);
        }
        // Links keep their order, as switches count their ports by it.
        for (_, link) in fabric.links() {
            let end = |port: reweave_common::fabric::Port| {
                (port.node.index() as u64) << 32 | u64::from(port.index)
            };
            let part = parts.entry(together.first(link.a.node.index()));
            part.or_default().push([
                end(link.a),
                end(link.b),
                link.rate.bits_per_s(),
                link.latency.as_nanos() as u64,
            ]);
        }
        let mut numbers = BTreeMap::new();
        for (first, part) in parts {
            let next = self.known.len() as u32;
            numbers.insert(first, *self.known.entry(part).or_insert(next));
        }
        (0..nodes)
            .map(|node| numbers[&together.first(node)])
            .collect()
    }
}
