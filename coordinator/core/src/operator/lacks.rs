//! What agents cannot measure, and why.

use std::collections::BTreeMap;

use reweave_common::hardware::Lack;
use reweave_common::operator::LackStatus;

use crate::model::Known;

/// An answer has to fit into one message, however large the cluster is.
const MOST_LACKS: usize = 64;

/// The same lack of many agents is told once. Those first that most of them have.
pub(super) fn lacks(known: Known<'_>) -> Vec<LackStatus> {
    let mut nodes: BTreeMap<&Lack, Vec<String>> = BTreeMap::new();
    for (node, observed) in known.ingest.observations().nodes() {
        for lack in observed.host.lacks.values() {
            let name = known.fabric.name(node).to_owned();
            nodes.entry(&lack.value).or_default().push(name);
        }
    }
    let mut lacks: Vec<_> = nodes
        .into_iter()
        .map(|(lack, nodes)| LackStatus {
            lack: lack.clone(),
            nodes,
        })
        .collect();
    lacks.sort_by_key(|it| std::cmp::Reverse(it.nodes.len()));
    lacks.truncate(MOST_LACKS);
    lacks
}
