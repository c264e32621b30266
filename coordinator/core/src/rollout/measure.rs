//! The rates that a verdict compares: just before the first instruction, and after the last answer.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::plan::Plan;
use reweave_common::snapshot::FlowState;

use crate::command::Before;
use crate::model::{Known, Picture};
use crate::reason::Reason;
use crate::spread::Spread;
use crate::state::Rollout;
use crate::verify::concerned;

/// Of all elephants, and of every flow that the plan concerns, or it cannot be judged.
pub(super) fn before(
    known: Known<'_>,
    picture: &Picture<'_>,
    plan: &Plan,
) -> Result<Vec<Before>, Vec<Reason>> {
    let concerned = concerned(plan);
    let matters =
        |state: &FlowState| concerned.contains(&state.flow) || known.is_elephant(state.rate);
    let flows = picture.flows().into_iter().filter(matters);
    let before: Vec<_> = flows
        .map(|state| Before {
            flow: state.flow,
            spread: spread(&state),
        })
        .collect();
    let measured: BTreeSet<_> = before.iter().map(|before| before.flow).collect();
    let missing = concerned.difference(&measured);
    let missing: Vec<_> = missing.map(|&flow| Reason::NotMeasured { flow }).collect();
    if missing.is_empty() {
        Ok(before)
    } else {
        Err(missing)
    }
}

fn spread(state: &FlowState) -> Spread {
    let [least, most] = state.rate_range;
    Spread {
        mean: state.rate,
        least,
        most,
    }
}

/// Of the flows that were there before, and of elephants that have come since.
pub(super) fn after(
    known: Known<'_>,
    rollout: &Rollout,
    from: Moment,
) -> BTreeMap<FlowKey, Spread> {
    let old: BTreeSet<_> = rollout.before.iter().map(|before| before.flow).collect();
    let matters =
        |flow: &FlowKey, spread: &Spread| old.contains(flow) || known.is_elephant(spread.mean);
    let flows = known
        .ingest
        .observations()
        .nodes()
        .flat_map(|(_, observed)| &observed.flows);
    let measured =
        flows.filter_map(|(&flow, recent)| Some((flow, known.spread_since(recent, from)?)));
    measured
        .filter(|(flow, spread)| matters(flow, spread))
        .collect()
}
