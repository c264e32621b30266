//! The snapshot as an assignment is expected to make it.

use reweave_common::plan::Pin;
use reweave_common::snapshot::{Hop, Snapshot};
use reweave_common::units::Rate;

use crate::model::Model;
use crate::predict::Oracle;
use crate::search::Weighed;

/// Each flow on its new way at the rate foretold, and the links loaded accordingly.
pub(crate) fn forecast(
    model: &Model<'_>,
    oracle: &Oracle<'_>,
    after: &Weighed,
    pins: Vec<Pin>,
) -> Snapshot {
    let mut snapshot = model.observed.snapshot.clone();
    snapshot.pins = pins;
    for (index, flow) in model.flows.iter().enumerate() {
        let way = &flow.ways[after.choice[index]].hops;
        let foretold = oracle.predict(index, after);
        add(&mut snapshot, way, foretold.after);
        let states = snapshot.flows.iter_mut();
        for state in states.filter(|state| state.flow == foretold.flow) {
            state.path = Some(way.clone());
            state.rate = foretold.after;
            state.rate_range = [foretold.low, foretold.high];
        }
    }
    for flow in &model.flows {
        remove(&mut snapshot, &flow.present().hops, flow.state.rate);
    }
    snapshot
}

fn add(snapshot: &mut Snapshot, way: &[Hop], rate: Rate) {
    change(snapshot, way, |load| load.saturating_add(rate.bits_per_s()));
}

fn remove(snapshot: &mut Snapshot, way: &[Hop], rate: Rate) {
    change(snapshot, way, |load| load.saturating_sub(rate.bits_per_s()));
}

fn change(snapshot: &mut Snapshot, way: &[Hop], changed: impl Fn(u64) -> u64) {
    for hop in way {
        if let Some(state) = snapshot.links.get_mut(hop) {
            state.rate = Rate::from_bits_per_s(changed(state.rate.bits_per_s()));
        }
    }
}
