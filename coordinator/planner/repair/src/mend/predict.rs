//! Predicted measurements of the flows after an assignment is applied.

use std::collections::BTreeSet;

use reweave_common::plan::Prediction;
use reweave_common::units::Rate;

use super::best::Weighed;
use super::model::Model;

/// Predicts the rates under other assignments from the measured rates and the present shares.
pub(super) struct Oracle<'m> {
    model: &'m Model<'m>,
    present: &'m Weighed,
}

impl<'m> Oracle<'m> {
    pub(super) fn new(model: &'m Model<'m>, present: &'m Weighed) -> Self {
        Self { model, present }
    }

    /// The model has shares of nominal capacity; measurements are of payload, and less even. There are two ways to
    /// convert one to the other:
    /// - *by the hop*: all flows that the hop now holding this one carries reach a part of what the
    ///   model gives them; the flow will reach that part of its new share. Right when it is chance
    ///   that the flow now gets more or less than its neighbours.
    /// - *by the flow*: its measured rate changes by the ratio of its shares. Right when the flow
    ///   always gets more or less than others.
    ///
    /// The first is the prediction, because a flow that becomes the only one on its hop cannot be uneven with others.
    /// The interval covers both, widened by the deviation of the flow's readings from their mean, and limited by the
    /// capacity of the path. If the share is unchanged, so is the measured rate. A flow whose job rests between bursts
    /// ends its bursts sooner, and rests for as long as before.
    pub(super) fn predict(&self, flow: usize, after: &Weighed) -> Prediction {
        let state = self.model.flows[flow].state;
        let (rate, [least, most]) = (state.rate, state.rate_range);
        let [old, new] = [self.present, after].map(|weighed| weighed.shares[flow].rate);
        if old == new {
            return Prediction {
                flow: state.flow,
                before: rate,
                after: rate,
                low: least,
                high: most,
            };
        }
        let narrowest = self.narrowest(flow, after);
        let (reached, given) = self.held_together(flow);
        let resting = |sending: Rate| rested(rate, sending.min(narrowest), self.model.rests(flow));
        let by_hop = resting(scaled(new, reached, given));
        let by_flow = resting(scaled(rate, new, old));
        let low = scaled(by_hop.min(by_flow), least, rate);
        let high = scaled(by_hop.max(by_flow), most, rate).min(narrowest);
        Prediction {
            flow: state.flow,
            before: rate,
            after: by_hop,
            low: low.min(by_hop),
            high: high.max(by_hop),
        }
    }

    /// Whether the flow gains enough, and beyond doubt: more than was ever measured lately.
    pub(super) fn is_gain(&self, flow: usize, prediction: &Prediction) -> bool {
        let least = prediction.before.bits_per_s() as f64 * (1.0 + self.model.policy().least_gain);
        let [_, most] = self.model.flows[flow].state.rate_range;
        prediction.after.bits_per_s() as f64 >= least && prediction.low > most
    }

    /// Returns the flows that an assignment affects, in addition to the known ones.
    pub(super) fn concerned(&self, known: &BTreeSet<usize>, after: &Weighed) -> BTreeSet<usize> {
        let changed = |flow: &usize| {
            let [old, new] = [self.present, after].map(|weighed| weighed.shares[*flow].rate);
            let difference = old.bits_per_s().abs_diff(new.bits_per_s()) as f64;
            difference > old.bits_per_s() as f64 * self.model.policy().least_gain
        };
        let changed = (0..self.model.flows.len()).filter(changed);
        let concerned = changed
            .chain(after.detours.keys().copied())
            .chain(known.iter().copied());
        concerned.collect()
    }

    /// Returns the measured and the modelled rate of all flows on the hop that now limits this flow; of this flow alone
    /// if no hop limits it.
    fn held_together(&self, flow: usize) -> (Rate, Rate) {
        let (flows, present) = (&self.model.flows, &self.present.shares);
        let together = |index: &usize| match present[flow].held_by {
            None => *index == flow,
            Some(place) => flows[*index].crosses_place(place),
        };
        let sum = |rate: &dyn Fn(usize) -> Rate| {
            let members = (0..flows.len()).filter(together);
            members.map(rate).sum()
        };
        let reached = sum(&|index| flows[index].state.rate);
        (reached, sum(&|index| present[index].rate))
    }

    fn narrowest(&self, flow: usize, after: &Weighed) -> Rate {
        let detour = after.detours.get(&flow);
        let path = detour.map_or(self.model.flows[flow].path, |detour| &detour.path);
        let nominal = path.iter().map(|&hop| self.model.observed.nominal(hop));
        nominal.min().unwrap_or(Rate::from_bits_per_s(u64::MAX))
    }
}

/// Returns the new value of `rate` for a flow that rests for this share of the time, if it would be `faster` for one
/// that never rests.
fn rested(rate: Rate, faster: Rate, rests: f64) -> Rate {
    let [before, after] = [rate, faster].map(|rate| rate.bits_per_s() as f64);
    if rests == 0.0 || after == 0.0 {
        return faster;
    }
    Rate::from_bits_per_s((before / (rests + (1.0 - rests) * before / after)) as u64)
}

/// Returns `rate` times `to` / `from`, or `rate` if `from` is zero.
fn scaled(rate: Rate, to: Rate, from: Rate) -> Rate {
    let product = u128::from(rate.bits_per_s()) * u128::from(to.bits_per_s());
    let bits_per_s = product.checked_div(u128::from(from.bits_per_s()));
    let fitting = bits_per_s.map(|bits| u64::try_from(bits).unwrap_or(u64::MAX));
    fitting.map_or(rate, Rate::from_bits_per_s)
}
