//! Ways that lead out of sight: a trace did not come to their ends.

use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;

use super::{name, nodes};
use crate::model::Picture;

/// Stands for what is not known.
const GAP: &str = "*";

/// The nodes of a probe's way there and of its way back, as far as they are known. Nothing where no trace
/// has ended before its time, or where the receiver is not there to answer.
pub(super) fn ways(
    picture: &Picture<'_>,
    from: NodeId,
    flow: &FlowKey,
) -> Option<[Vec<String>; 2]> {
    let known = picture.known;
    let to = known.ingest.owner(*flow.destination.ip())?;
    let (there, back) = (
        way(picture, [from, to], flow),
        way(picture, [to, from], &flow.reversed()),
    );
    let is_out_of_sight = [&there, &back].iter().any(|way| way.is_cut_short);
    (is_out_of_sight && known.is_fresh(to)).then(|| [there, back].map(|way| way.nodes))
}

struct Way {
    nodes: Vec<String>,
    is_cut_short: bool,
}

fn way(picture: &Picture<'_>, [from, to]: [NodeId; 2], flow: &FlowKey) -> Way {
    let known = picture.known;
    if let Some(way) = known.ways.way(flow) {
        return Way {
            nodes: nodes(known, way),
            is_cut_short: false,
        };
    }
    let beginning = picture.beginning(from, flow);
    let is_cut_short = beginning.is_some();
    let mut seen = nodes(known, &beginning.unwrap_or_default());
    if seen.is_empty() {
        seen.push(name(known, from));
    }
    seen.extend([GAP.to_owned(), name(known, to)]);
    Way {
        nodes: seen,
        is_cut_short,
    }
}
