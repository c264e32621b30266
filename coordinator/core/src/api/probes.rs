//! Latency and loss between hosts, as their agents report them.

use reweave_common::ids::NodeId;
use reweave_common::operator::{PairStatus, ProbeStatus};
use reweave_common::probing::{ProbeTally, Summary};

use crate::model::probe_summary::ProbeSummary;
use crate::model::world::Measurements;
use crate::plan::probe_schedule::ProbeSchedule;

/// An answer has to fit into one message, however large the cluster is.
const MAX_PAIRS: usize = 256;

pub(super) fn probes(
    known: Measurements<'_>,
    standings: &ProbeSummary,
    probing: &ProbeSchedule,
) -> ProbeStatus {
    let pairs = standings.pairs();
    let worst = standings.worst(MAX_PAIRS).into_iter();
    ProbeStatus {
        pairs,
        all: (pairs > 0).then(|| Summary::from(&standings.all())),
        worst: worst
            .filter_map(|(from, to)| pair(known, from, to))
            .collect(),
        coverage: probing.coverage(known.fabric),
    }
}

/// The present value; none without a report since the ranking.
fn pair(known: Measurements<'_>, from: NodeId, to: NodeId) -> Option<PairStatus> {
    let observed = known.ingest.observations().node(from)?;
    let is_it = |address| known.ingest.owner(address) == Some(to);
    let flows = observed.probes.iter();
    let windows = flows.filter(|(flow, _)| is_it(*flow.destination.ip()));
    let windows: Vec<_> = windows.map(|(_, window)| window).collect();
    let mut tally = ProbeTally::default();
    windows.iter().for_each(|window| window.add_to(&mut tally));
    (!windows.is_empty()).then(|| PairStatus {
        from: known.fabric.name(from).to_owned(),
        to: known.fabric.name(to).to_owned(),
        summary: Summary::from(&tally),
    })
}
