//! Moments at which flows are there together.

use std::collections::BTreeMap;

use reweave_common::snapshot::Hop;

use super::{Options, problem};
use crate::paths::Atlas;
use crate::paths::listed::Listed;

/// Maximum number of moments; of more, the fullest are planned.
const MAX_MOMENTS: usize = 256;

/// Maximum number of crossings (flow, hop, moment) that are planned together.
const MAX_CROSSINGS: usize = 1 << 17;

/// Places of flows that are there together.
pub(super) type Moment = Vec<usize>;

/// Those at which most is there, by the fullest link of each from the worst down, in batches that are planned one after
/// the other; each moment has a flow that no earlier batch has.
pub(super) fn batches(atlas: &Atlas<'_>, flows: &[Listed], options: &Options) -> Vec<Vec<Moment>> {
    let mut batching = Batching {
        planned: vec![false; flows.len()],
        ..Batching::default()
    };
    for now in fullest(atlas, flows, options) {
        if batching.moments == MAX_MOMENTS {
            break;
        }
        let there = there(flows, now);
        let crossings = there.iter().map(|&flow| flows[flow].path.len());
        batching.take(crossings.sum(), there);
    }
    batching.finish()
}

#[derive(Default)]
struct Batching {
    /// Whether an earlier batch has planned the flow.
    planned: Vec<bool>,
    earlier: Vec<Vec<Moment>>,
    open: Vec<Moment>,
    /// Crossings of the open batch.
    crossings: usize,
    moments: usize,
}

impl Batching {
    fn take(&mut self, crossings: usize, moment: Moment) {
        if self.crossings + crossings > MAX_CROSSINGS {
            self.close();
        }
        let brings_one = moment.iter().any(|&flow| !self.planned[flow]);
        if brings_one {
            self.moments += 1;
            self.crossings += crossings;
            self.open.push(moment);
        }
    }

    fn close(&mut self) {
        for &flow in self.open.iter().flatten() {
            self.planned[flow] = true;
        }
        let full = std::mem::take(&mut self.open);
        self.earlier.extend((!full.is_empty()).then_some(full));
        self.crossings = 0;
    }

    fn finish(mut self) -> Vec<Vec<Moment>> {
        self.close();
        self.earlier
    }
}

fn there(flows: &[Listed], now: f64) -> Moment {
    (0..flows.len())
        .filter(|&flow| begins(&flows[flow]) <= now && !is_over(&flows[flow], now))
        .collect()
}

pub(super) fn begins(flow: &Listed) -> f64 {
    flow.during_us[0].unwrap_or(0.0)
}

pub(super) fn ends(flow: &Listed) -> f64 {
    flow.during_us[1].unwrap_or(f64::INFINITY)
}

fn is_over(flow: &Listed, now: f64) -> bool {
    flow.during_us[1].is_some_and(|end| end <= now)
}

/// Moments after which a flow ends before another begins, since at others there is less; by how full the fullest link
/// then is, and of equal ones by how many are there.
fn fullest(atlas: &Atlas<'_>, flows: &[Listed], options: &Options) -> Vec<f64> {
    // Usually all flows exist all the time, and there is nothing to compare.
    if flows.iter().all(|flow| flow.during_us == [None; 2]) {
        return vec![0.0];
    }
    let were_there = flows.iter().filter(|flow| !is_over(flow, begins(flow)));
    let mut starting: Vec<_> = were_there.collect();
    starting.sort_by(|a, b| begins(a).total_cmp(&begins(b)));
    let mut ending = starting.clone();
    ending.sort_by(|a, b| ends(b).total_cmp(&ends(a)));
    let mut filling = Filling::default();
    let mut moments: Vec<(f64, (u64, usize))> = Vec::new();
    for flow in starting {
        let now = begins(flow);
        let there = filling.there;
        while let Some(gone) = ending.pop_if(|it| is_over(it, now)) {
            filling.there -= 1;
            filling.change(atlas, gone, options, |load| load - gone.bytes);
        }
        let is_more = filling.there == there;
        filling.there += 1;
        filling.change(atlas, flow, options, |load| load + flow.bytes);
        match moments.last_mut().filter(|_| is_more) {
            Some(last) => *last = (now, filling.rank()),
            None => moments.push((now, filling.rank())),
        }
    }
    moments.sort_by_key(|&(_, rank)| std::cmp::Reverse(rank));
    moments.into_iter().map(|(at, _)| at).collect()
}

#[derive(Default)]
struct Filling {
    there: usize,
    /// Bytes on each hop.
    loads: BTreeMap<Hop, u64>,
    /// Number of hops by fullness. Keys are bits of the value, which have the same order.
    full: BTreeMap<u64, usize>,
}

impl Filling {
    fn change(
        &mut self,
        atlas: &Atlas<'_>,
        flow: &Listed,
        options: &Options,
        change: impl Fn(u64) -> u64,
    ) {
        for hop in &flow.path {
            let worth = problem::worth(atlas.fabric, hop.link, options);
            let full = |load: u64| (load as f64 / worth).to_bits();
            let load = self.loads.entry(*hop).or_default();
            let before = full(*load);
            *load = change(*load);
            *self.full.entry(full(*load)).or_default() += 1;
            match self.full.get_mut(&before) {
                Some(hops) if *hops > 1 => *hops -= 1,
                _ => drop(self.full.remove(&before)),
            }
        }
    }

    fn rank(&self) -> (u64, usize) {
        let fullest = self.full.last_key_value();
        (fullest.map_or(0, |(full, _)| *full), self.there)
    }
}
