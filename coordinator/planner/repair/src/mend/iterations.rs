//! Predicted iteration times of jobs with an iteration period.
//!
//! A communicating job sends at the rate that its flows get, and its communication ends with the last flow. The rest of
//! an iteration is constant.

use reweave_common::plan::Iteration;
use reweave_common::snapshot::PeriodicJob;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;

use super::best::Weighed;
use super::model::Model;

/// Relative variation between measurements of an iteration time.
pub(super) const MEASUREMENT_VARIATION: f64 = 0.05;
/// Iterations that change by less are as they were.
const MAX_UNCHANGED_RATIO: f64 = 0.01;

/// Returns predictions for all jobs with a moved flow or a changed iteration time.
pub(super) fn predicted(model: &Model<'_>, present: &Weighed, after: &Weighed) -> Vec<Iteration> {
    let jobs = model.observed.snapshot.beating.iter();
    let predicted =
        jobs.filter_map(|job| JobIteration::new(model, job)?.predicted([present, after]));
    predicted.collect()
}

/// Behaviour of a job in one iteration.
struct JobIteration<'m> {
    model: &'m Model<'m>,
    job: &'m PeriodicJob,
    /// Flows of the model, and how many bits each carries.
    carried: Vec<(usize, f64)>,
}

impl<'m> JobIteration<'m> {
    /// Returns none if a path is unknown, because the job may wait for that flow.
    fn new(model: &'m Model<'m>, job: &'m PeriodicJob) -> Option<Self> {
        let bits = |rate: &Rate| rate.bits_per_s() as f64 * job.period.as_secs_f64();
        let flows = job.flows.iter();
        let carried = flows.map(|(flow, rate)| Some((model.find(*flow)?, bits(rate))));
        let carried: Vec<_> = carried.collect::<Option<_>>()?;
        Some(Self {
            model,
            job,
            carried,
        })
    }

    /// There are two estimates of the measured time from the model: the unknown part is constant, or it grows with the
    /// rest. The truth lies between them.
    fn predicted(&self, [present, after]: [&Weighed; 2]) -> Option<Iteration> {
        let [old, new] = [present, after].map(|weighed| self.sending_s(weighed));
        let is_moved = |(flow, _): &(usize, f64)| after.detours.contains_key(flow);
        let stays =
            (new - old).abs() <= MAX_UNCHANGED_RATIO * old && !self.carried.iter().any(is_moved);
        let PeriodicJob { period, gap, .. } = self.job;
        let busy = period.saturating_sub(*gap).as_secs_f64();
        if stays || old <= 0.0 || busy <= 0.0 {
            return None;
        }
        let ways = [busy * new / old, (busy + new - old).max(new.min(busy))];
        let ways = ways.map(|sending| gap.as_secs_f64() + sending);
        let [low, high] = [ways[0].min(ways[1]), ways[0].max(ways[1])];
        // A flow that ends earlier than the model predicts shares the hop only for a part of the time: the part after
        // the others have left does not change.
        let after = if busy < old {
            high
        } else {
            f64::midpoint(low, high)
        };
        let [after, low, high] = [
            after,
            low * (1.0 - MEASUREMENT_VARIATION),
            high * (1.0 + MEASUREMENT_VARIATION),
        ]
        .map(TimeSpan::from_secs_f64);
        Some(Iteration {
            job: self.job.job.clone(),
            exchanged: self.job.exchanged.clone(),
            before: *period,
            after,
            low,
            high,
        })
    }

    /// Until the last of its flows is through, all sending what they get.
    fn sending_s(&self, weighed: &Weighed) -> f64 {
        let is_its = |flow: usize| self.carried.iter().any(|(its, _)| *its == flow);
        let shares = self.model.shares_while(&weighed.detours, is_its);
        let times = self
            .carried
            .iter()
            .map(|(flow, bits)| bits / shares[*flow].rate.bits_per_s().max(1) as f64);
        times.fold(0.0, f64::max)
    }
}
