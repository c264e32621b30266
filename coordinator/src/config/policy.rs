//! The table `[policy]`.

use std::time::Duration;

use reweave_common::input::{Document, InputError, Number, Table};
use reweave_common::observations::RecentReadings;
use reweave_common::operator::Mode;
use reweave_core::{Hours, NoHours, Policy};
use serde::Deserialize;
use toml::Spanned;

const MAX_POLICY_TIME: Duration = Duration::from_hours(1);
const MAX_SENDS: i64 = 100;
const MAX_EVALUATIONS: i64 = 1_000_000;

/// Number of keys.
#[cfg(test)]
pub(super) const SETTING_COUNT: usize = 29;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    mode: Option<Mode>,
    full_at: Option<Spanned<f64>>,
    elephant_share: Option<Spanned<f64>>,
    greedy_share: Option<Spanned<f64>>,
    least_gain: Option<Spanned<f64>>,
    most_age_ms: Option<Spanned<f64>>,
    most_evaluations: Option<Spanned<i64>>,
    readings: Option<Spanned<i64>>,
    tolerance: Option<Spanned<f64>>,
    capacity_floor: Option<Spanned<f64>>,
    lossless: Option<bool>,
    most_touched: Option<Spanned<f64>>,
    drain_failing_after_ms: Option<Spanned<f64>>,
    light_lasts_ms: Option<Spanned<f64>>,
    settle_ms: Option<Spanned<f64>>,
    verify_within_ms: Option<Spanned<f64>>,
    iterate_within_ms: Option<Spanned<f64>>,
    answer_within_ms: Option<Spanned<f64>>,
    most_sends: Option<Spanned<i64>>,
    offer_for_ms: Option<Spanned<f64>>,
    begin_within_ms: Option<Spanned<f64>>,
    retry_held_after_ms: Option<Spanned<f64>>,
    cool_down_ms: Option<Spanned<f64>>,
    look_every_ms: Option<Spanned<f64>>,
    trace_every_ms: Option<Spanned<f64>>,
    probe_every_ms: Option<Spanned<f64>>,
    trains_every_ms: Option<Spanned<f64>>,
    end_silent_jobs_after_ms: Option<Spanned<f64>>,
    changes_only: Option<Vec<Spanned<String>>>,
}

pub(super) fn read(table: Table<'_>) -> Result<Policy, InputError> {
    let reader = Reader(table.document());
    let file: PolicyFile = table.finish()?;
    let default = Policy::default();
    let policy = Policy {
        mode: file.mode.unwrap_or(default.mode),
        planner: reader.planner(&file, &default.planner)?,
        readings: reader.whole(
            &file.readings,
            RecentReadings::MAX_RECENT as i64,
            default.readings,
        )?,
        tolerance: reader.share(&file.tolerance, default.tolerance)?,
        capacity_floor: reader.share(&file.capacity_floor, default.capacity_floor)?,
        most_touched: reader.share(&file.most_touched, default.most_touched)?,
        lossless: file.lossless.unwrap_or(default.lossless),
        drain_failing_after: reader
            .millis(&file.drain_failing_after_ms, default.drain_failing_after)?,
        light_lasts: reader.light(&file.light_lasts_ms, default.light_lasts)?,
        settle: reader.millis(&file.settle_ms, default.settle)?,
        verify_within: reader.millis(&file.verify_within_ms, default.verify_within)?,
        iterate_within: reader.millis(&file.iterate_within_ms, default.iterate_within)?,
        answer_within: reader.period(&file.answer_within_ms, default.answer_within)?,
        most_sends: reader.whole(&file.most_sends, MAX_SENDS, default.most_sends)?,
        offer_for: reader.period(&file.offer_for_ms, default.offer_for)?,
        begin_within: reader.period(&file.begin_within_ms, default.begin_within)?,
        retry_held_after: reader.period(&file.retry_held_after_ms, default.retry_held_after)?,
        cool_down: reader.millis(&file.cool_down_ms, default.cool_down)?,
        look_every: reader.period(&file.look_every_ms, default.look_every)?,
        trace_every: reader.period(&file.trace_every_ms, default.trace_every)?,
        changes_only: reader.hours(&file.changes_only)?,
        probe_every: reader.period(&file.probe_every_ms, default.probe_every)?,
        trains_every: reader.period(&file.trains_every_ms, default.trains_every)?,
        end_silent_jobs_after: reader.period(
            &file.end_silent_jobs_after_ms,
            default.end_silent_jobs_after,
        )?,
    };
    reader.can_commit(&file, &policy)?;
    Ok(policy)
}

type PlannerPolicy = reweave_repair::Policy;

struct Reader<'t>(Document<'t>);

impl Reader<'_> {
    fn planner(
        &self,
        file: &PolicyFile,
        default: &PlannerPolicy,
    ) -> Result<PlannerPolicy, InputError> {
        let most_evaluations = default.most_evaluations;
        Ok(PlannerPolicy {
            full_at: self.share(&file.full_at, default.full_at)?,
            elephant_share: self.share(&file.elephant_share, default.elephant_share)?,
            greedy_share: self.share(&file.greedy_share, default.greedy_share)?,
            least_gain: self.share(&file.least_gain, default.least_gain)?,
            most_age: self.period(&file.most_age_ms, default.most_age)?,
            most_evaluations: self.whole(
                &file.most_evaluations,
                MAX_EVALUATIONS,
                most_evaluations,
            )?,
        })
    }

    /// Checks that a verdict has readings between the two times.
    fn can_commit(&self, file: &PolicyFile, policy: &Policy) -> Result<(), InputError> {
        let (settle, within) = (policy.settle.as_millis(), policy.verify_within.as_millis());
        let set = file.verify_within_ms.as_ref().or(file.settle_ms.as_ref());
        match set.filter(|_| within <= settle) {
            Some(set) => {
                let problem = format!(
                    "no plan could ever be kept: the first {settle} ms (settle_ms) are ignored, \
                     and the verdict falls after {within} ms (verify_within_ms); make \
                     verify_within_ms larger"
                );
                Err(self.0.error(set.span(), problem))
            }
            None => Ok(()),
        }
    }

    fn hours(&self, stretches: &Option<Vec<Spanned<String>>>) -> Result<Vec<Hours>, InputError> {
        let one = |text: &Spanned<String>| {
            let parsed = text.get_ref().parse();
            parsed.map_err(|error: NoHours| self.0.error(text.span(), error.to_string()))
        };
        let stretches = stretches.as_ref().filter(|it| !it.is_empty());
        stretches.map_or(Ok(Vec::new()), |all| all.iter().map(one).collect())
    }

    fn share(&self, value: &Option<Spanned<f64>>, default: f64) -> Result<f64, InputError> {
        let Some(value) = value else {
            return Ok(default);
        };
        let share = *value.get_ref();
        if (0.0..=1.0).contains(&share) {
            return Ok(share);
        }
        let problem = format!("{} is not a share between 0 and 1", Number(share));
        Err(self.0.error(value.span(), problem))
    }

    fn millis(
        &self,
        value: &Option<Spanned<f64>>,
        default: Duration,
    ) -> Result<Duration, InputError> {
        let millis = |value| {
            self.0
                .time(value, Duration::from_millis(1), MAX_POLICY_TIME)
        };
        value.as_ref().map_or(Ok(default), millis)
    }

    /// Returns a duration with an upper limit.
    fn light(
        &self,
        value: &Option<Spanned<f64>>,
        default: Duration,
    ) -> Result<Duration, InputError> {
        let most = Policy::MAX_LIGHT_TIME;
        let millis = |value| self.0.time(value, Duration::from_millis(1), most);
        value.as_ref().map_or(Ok(default), millis)
    }

    fn period(
        &self,
        value: &Option<Spanned<f64>>,
        default: Duration,
    ) -> Result<Duration, InputError> {
        let millis = |value| {
            self.0
                .period(value, Duration::from_millis(1), MAX_POLICY_TIME)
        };
        value.as_ref().map_or(Ok(default), millis)
    }

    /// Returns a number from 1 to `most`.
    fn whole<T: TryFrom<u64>>(
        &self,
        value: &Option<Spanned<i64>>,
        most: i64,
        default: T,
    ) -> Result<T, InputError> {
        let Some(value) = value else {
            return Ok(default);
        };
        let whole = self.0.whole(value, 1..=most)?;
        // `most` fits into the type.
        Ok(T::try_from(whole).unwrap_or(default))
    }
}
