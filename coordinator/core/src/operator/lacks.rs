//! What agents cannot measure, and why.

use std::collections::BTreeMap;

use reweave_common::cause::Class;
use reweave_common::hardware::Lack;
use reweave_common::observations::NodeObservations;
use reweave_common::operator::LackStatus;

use crate::evidence::unsent;
use crate::model::Known;

/// An answer has to fit into one message, however large the cluster is.
const MOST_LACKS: usize = 64;
const MOST_NAMED: usize = 3;

/// The same lack of many agents is told once. Those first that most of them have.
pub(super) fn lacks(known: Known<'_>) -> Vec<LackStatus> {
    let mut nodes: BTreeMap<Lack, Vec<String>> = BTreeMap::new();
    for (node, observed) in known.ingest.observations().nodes() {
        let told = observed.host.lacks.values().map(|lack| lack.value.clone());
        for lack in told.chain(unsent_probes(known, observed)) {
            let name = known.fabric.name(node).to_owned();
            nodes.entry(lack).or_default().push(name);
        }
    }
    let mut lacks: Vec<_> = nodes
        .into_iter()
        .map(|(lack, nodes)| LackStatus { lack, nodes })
        .collect();
    lacks.sort_by_key(|it| std::cmp::Reverse(it.nodes.len()));
    lacks.truncate(MOST_LACKS);
    lacks
}

/// What a host's own kernel does not send measures nothing, and that is no fault of the fabric.
fn unsent_probes(known: Known<'_>, observed: &NodeObservations) -> Option<Lack> {
    let unsent = unsent(known, observed).into_iter();
    let many: Vec<_> = unsent
        .filter(|it| it.are_many())
        .map(|it| it.to_string())
        .collect();
    let (named, more) = many.split_at(many.len().min(MOST_NAMED));
    let more = match more.len() {
        0 => String::new(),
        more => format!("; and to {more} more"),
    };
    (!named.is_empty()).then(|| Lack {
        measurement: "latency and loss".to_owned(),
        because: named.join("; ") + &more,
        remedy: Class::UnsentProbes.remedy().to_owned(),
    })
}
