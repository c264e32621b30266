//! What agents cannot measure, and why.

use std::collections::BTreeMap;

use reweave_common::cause::Class;
use reweave_common::hardware::Lack;
use reweave_common::observations::NodeObservations;
use reweave_common::operator::LackStatus;
use reweave_repair::causes::UnsentFacts;

use crate::model::evidence::unsent;
use crate::model::world::Measurements;

/// An answer has to fit into one message, however large the cluster is.
const MAX_LACKS: usize = 64;

/// What agents cannot measure, each lack once, the most common first.
pub(super) fn lacks(known: Measurements<'_>) -> Vec<LackStatus> {
    let mut nodes: BTreeMap<Lack, Vec<String>> = BTreeMap::new();
    for (node, observed) in known.ingest.observations().nodes() {
        let reports = observed.host.lacks.values().map(|lack| lack.value.clone());
        for lack in reports.chain(unsent_probes(known, observed)) {
            let name = known.fabric.name(node).to_owned();
            nodes.entry(lack).or_default().push(name);
        }
    }
    let mut lacks: Vec<_> = nodes
        .into_iter()
        .map(|(lack, nodes)| LackStatus { lack, nodes })
        .collect();
    lacks.sort_by_key(|it| std::cmp::Reverse(it.nodes.len()));
    lacks.truncate(MAX_LACKS);
    lacks
}

/// Probes that a host's own kernel did not send: they measure nothing, and the fabric is not at fault.
fn unsent_probes(known: Measurements<'_>, observed: &NodeObservations) -> Option<Lack> {
    let report = UnsentFacts::texts(&unsent(known, observed));
    (!report.is_empty()).then(|| Lack {
        measurement: "latency and loss".to_owned(),
        because: report.join("; "),
        remedy: Class::UnsentProbes.remedy().to_owned(),
    })
}
