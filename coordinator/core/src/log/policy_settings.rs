//! The settings of the policy by key. One reader reads them from a coordinator's file and from the log, where each is a
//! TOML value.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::input::{Document, InputError, Number, Table};
use reweave_common::observations::RecentReadings;
use reweave_common::operator::{Mode, Refused};
use serde::Deserialize;
use toml::Spanned;

use crate::log::change_window::{Hours, NoHours};
use crate::log::policy::Policy;
use crate::log::state::LoggedPolicy;

const MAX_POLICY_TIME: Duration = Duration::from_hours(1);
const MAX_SENDS: i64 = 100;
const MAX_EVALUATIONS: i64 = 1_000_000;
/// The log holds no longer key and no longer value: each snapshot contains all of them.
const MAX_KEY_BYTES: usize = 64;
const MAX_VALUE_BYTES: usize = 4096;
const NANOS_PER_MILLI: u128 = 1_000_000;

/// Steps of plans under way were checked and are timed by these. The list belongs to version 1.2: with another one, builds
/// would apply the same entry differently.
const LOCKED_KEYS: [&str; 4] = [
    "answer_within_ms",
    "capacity_floor",
    "lossless",
    "most_sends",
];
/// Without readings between these two times, no plan is ever kept.
const VERDICT_KEYS: [&str; 2] = ["settle_ms", "verify_within_ms"];

/// A key of the table, and how its value is written.
struct PolicyKey {
    name: &'static str,
    value: fn(&Policy) -> String,
}

const fn key(name: &'static str, value: fn(&Policy) -> String) -> PolicyKey {
    PolicyKey { name, value }
}

/// All keys, in the order of [`PolicyFile`].
static KEYS: [PolicyKey; 29] = [
    key("mode", |it| mode(it.mode)),
    key("full_at", |it| share(it.planner.full_at)),
    key("elephant_share", |it| share(it.planner.elephant_share)),
    key("greedy_share", |it| share(it.planner.greedy_share)),
    key("least_gain", |it| share(it.planner.least_gain)),
    key("most_age_ms", |it| millis(it.planner.most_age)),
    key("most_evaluations", |it| {
        it.planner.most_evaluations.to_string()
    }),
    key("readings", |it| it.readings.to_string()),
    key("tolerance", |it| share(it.tolerance)),
    key("capacity_floor", |it| share(it.capacity_floor)),
    key("lossless", |it| it.lossless.to_string()),
    key("most_touched", |it| share(it.most_touched)),
    key("drain_failing_after_ms", |it| {
        millis(it.drain_failing_after)
    }),
    key("light_lasts_ms", |it| millis(it.light_lasts)),
    key("settle_ms", |it| millis(it.settle)),
    key("verify_within_ms", |it| millis(it.verify_within)),
    key("iterate_within_ms", |it| millis(it.iterate_within)),
    key("answer_within_ms", |it| millis(it.answer_within)),
    key("most_sends", |it| it.most_sends.to_string()),
    key("offer_for_ms", |it| millis(it.offer_for)),
    key("begin_within_ms", |it| millis(it.begin_within)),
    key("retry_held_after_ms", |it| millis(it.retry_held_after)),
    key("cool_down_ms", |it| millis(it.cool_down)),
    key("look_every_ms", |it| millis(it.look_every)),
    key("trace_every_ms", |it| millis(it.trace_every)),
    key("probe_every_ms", |it| millis(it.probe_every)),
    key("trains_every_ms", |it| millis(it.trains_every)),
    key("end_silent_jobs_after_ms", |it| {
        millis(it.end_silent_jobs_after)
    }),
    key("changes_only", |it| hours(&it.changes_only)),
];

fn mode(mode: Mode) -> String {
    match mode {
        Mode::Manual => "\"manual\"".to_owned(),
        Mode::Auto => "\"auto\"".to_owned(),
    }
}

fn share(share: f64) -> String {
    Number(share).to_string()
}

/// Writes all digits down to a nanosecond, so that the value is read back as it was.
fn millis(time: Duration) -> String {
    let whole = time.as_nanos() / NANOS_PER_MILLI;
    let rest = time.as_nanos() % NANOS_PER_MILLI;
    if rest == 0 {
        return whole.to_string();
    }
    let digits = format!("{whole}.{rest:06}");
    digits.trim_end_matches('0').to_owned()
}

fn hours(stretches: &[Hours]) -> String {
    let quoted: Vec<_> = stretches.iter().map(|it| format!("\"{it}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

fn is_known(name: &str) -> bool {
    Policy::keys().any(|key| key == name)
}

/// Whether the setting stays while plans are under way.
pub(crate) fn is_locked(name: &str) -> bool {
    LOCKED_KEYS.contains(&name)
}

/// Whether the state may hold this value of the key, or none. Coordinators of other builds know other keys, and all must
/// hold the same, so a key that is unknown here is held without effect.
pub(crate) fn may_hold(name: &str, value: Option<&str>) -> bool {
    let is_of_key = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    (1..=MAX_KEY_BYTES).contains(&name.len())
        && name.bytes().all(is_of_key)
        && value.is_none_or(|value| value.len() <= MAX_VALUE_BYTES)
}

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

impl Policy {
    /// Reads the table `[policy]` of a file.
    pub fn read(table: Table<'_>) -> Result<Self, InputError> {
        let reader = Reader(table.document());
        let file: PolicyFile = table.finish()?;
        let policy = reader.policy(&file, &Self::default())?;
        reader.can_commit(&file, &policy)?;
        Ok(policy)
    }

    /// The keys of the table, in the order of the sample file.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        KEYS.iter().map(|key| key.name)
    }

    /// The same policy with this value of a key.
    fn with(&self, key: &str, value: &str) -> Result<Self, String> {
        // A line break could begin another key.
        if value.chars().any(char::is_control) {
            return Err("the value has a control character, or more than one line".to_owned());
        }
        let policy = self.with_line(&format!("{key} = {value}"));
        policy.map_err(|error| error.problem)
    }

    fn with_line(&self, line: &str) -> Result<Self, InputError> {
        let table = Document::new("policy", line).table()?;
        let reader = Reader(table.document());
        let file: PolicyFile = table.finish()?;
        reader.policy(&file, self)
    }

    /// Why no plan could be kept, if so.
    fn unsatisfiable(&self) -> Option<String> {
        let (settle, within) = (self.settle.as_millis(), self.verify_within.as_millis());
        (within <= settle).then(|| {
            format!(
                "no plan could ever be kept: the first {settle} ms (settle_ms) are ignored, and \
                 the verdict falls after {within} ms (verify_within_ms); make verify_within_ms \
                 larger"
            )
        })
    }
}

/// The policy in force: that of the coordinator's file, and the settings of the log over it.
#[derive(Debug, Clone)]
pub(crate) struct EffectivePolicy {
    file: Policy,
    in_force: Policy,
    /// Settings of the log that do not fit the file or this build, and why.
    unfit: BTreeMap<String, String>,
}

impl EffectivePolicy {
    pub(crate) fn new(file: Policy, logged: &LoggedPolicy) -> Self {
        Self::over(file, &logged.values())
    }

    /// Lays values over those of the file. One that this build cannot read, or that contradicts the file, is left out.
    fn over(file: Policy, values: &BTreeMap<&str, &str>) -> Self {
        let mut in_force = file.clone();
        let mut unfit = BTreeMap::new();
        for (key, value) in values {
            match in_force.with(key, value) {
                Ok(policy) => in_force = policy,
                Err(problem) => {
                    unfit.insert((*key).to_owned(), problem);
                }
            }
        }
        if let Some(problem) = in_force.unsatisfiable() {
            (in_force.settle, in_force.verify_within) = (file.settle, file.verify_within);
            let both = VERDICT_KEYS.into_iter();
            let both = both.filter(|key| values.contains_key(key));
            unfit.extend(both.map(|key| (key.to_owned(), problem.clone())));
        }
        Self {
            file,
            in_force,
            unfit,
        }
    }

    pub(crate) fn get(&self) -> &Policy {
        &self.in_force
    }

    pub(crate) fn into_policy(self) -> Policy {
        self.in_force
    }

    /// Lays the present settings of the log over those of the same file.
    pub(crate) fn follow(&mut self, logged: &LoggedPolicy) {
        *self = Self::new(self.file.clone(), logged);
    }

    /// The same file with other settings of the log.
    pub(crate) fn with(&self, logged: &LoggedPolicy) -> Self {
        Self::new(self.file.clone(), logged)
    }

    /// The settings of the log that are not in force here.
    pub(crate) fn unfit(&self) -> impl Iterator<Item = &str> {
        self.unfit.keys().map(String::as_str)
    }

    /// Why the value of the log is not in force here, if so.
    pub(crate) fn why_unfit(&self, key: &str) -> Option<&str> {
        self.unfit.get(key).map(String::as_str)
    }

    /// The value of a key in force, and whether the file has the default.
    pub(crate) fn values(&self) -> impl Iterator<Item = PolicyValue> {
        let default = Policy::default();
        KEYS.iter().map(move |key| PolicyValue {
            key: key.name,
            value: (key.value)(&self.in_force),
            is_default: (key.value)(&self.file) == (key.value)(&default),
        })
    }

    /// The values that the log holds after this request, as this build writes them: only those that change there.
    /// Settings are judged together with all others.
    pub(crate) fn judge(
        &self,
        logged: &LoggedPolicy,
        wanted: &BTreeMap<String, Option<String>>,
    ) -> Result<BTreeMap<String, Option<String>>, Refused> {
        let mut values = logged.values();
        for (key, value) in wanted {
            expect_possible(key, value.as_deref(), logged)?;
            match value {
                Some(value) => values.insert(key, value),
                None => values.remove(key.as_str()),
            };
        }
        let after = Self::over(self.file.clone(), &values);
        let asked = wanted.keys().find_map(|key| after.unfit.get_key_value(key));
        // A setting that is not in force anyway does not block other requests.
        let new = || {
            after
                .unfit
                .iter()
                .find(|(key, _)| !self.unfit.contains_key(*key))
        };
        if let Some((key, problem)) = asked.or_else(new) {
            return Err(bad_setting(key, problem.clone()));
        }
        let unknown = wanted.keys().filter(|key| !is_known(key));
        let mut changed: BTreeMap<_, _> = unknown.map(|key| (key.clone(), None)).collect();
        for PolicyValue { key, value, .. } in after.values() {
            let Some(wanted) = wanted.get(key) else {
                continue;
            };
            let value = wanted.is_some().then_some(value);
            expect_possible(key, value.as_deref(), logged)?;
            if value.as_ref() != logged.value(key) {
                changed.insert(key.to_owned(), value);
            }
        }
        Ok(changed)
    }
}

/// The value of a key in force.
pub(crate) struct PolicyValue {
    pub(crate) key: &'static str,
    /// In TOML.
    pub(crate) value: String,
    /// Whether the file leaves the default.
    pub(crate) is_default: bool,
}

/// A key that only another build knows can be removed from the log, and not be set.
fn expect_possible(key: &str, value: Option<&str>, logged: &LoggedPolicy) -> Result<(), Refused> {
    let is_removed = value.is_none() && logged.value(key).is_some();
    let problem = if !is_known(key) && !is_removed {
        let known: Vec<_> = Policy::keys().collect();
        format!("this key is unknown; known are {}", known.join(", "))
    } else if may_hold(key, value) {
        return Ok(());
    } else {
        format!("the value is longer than {MAX_VALUE_BYTES} bytes")
    };
    Err(bad_setting(key, problem))
}

fn bad_setting(key: &str, problem: String) -> Refused {
    // An unknown key may have any characters.
    let key = key.escape_debug().to_string();
    Refused::BadSetting { key, problem }
}

type PlannerPolicy = reweave_repair::Policy;

struct Reader<'t>(Document<'t>);

impl Reader<'_> {
    /// Reads the keys of the table; all others are as in `default`.
    fn policy(&self, file: &PolicyFile, default: &Policy) -> Result<Policy, InputError> {
        Ok(Policy {
            mode: file.mode.unwrap_or(default.mode),
            planner: self.planner(file, &default.planner)?,
            readings: self.whole(
                &file.readings,
                RecentReadings::MAX_RECENT as i64,
                default.readings,
            )?,
            tolerance: self.share(&file.tolerance, default.tolerance)?,
            capacity_floor: self.share(&file.capacity_floor, default.capacity_floor)?,
            most_touched: self.share(&file.most_touched, default.most_touched)?,
            lossless: file.lossless.unwrap_or(default.lossless),
            drain_failing_after: self
                .millis(&file.drain_failing_after_ms, default.drain_failing_after)?,
            light_lasts: self.light(&file.light_lasts_ms, default.light_lasts)?,
            settle: self.millis(&file.settle_ms, default.settle)?,
            verify_within: self.millis(&file.verify_within_ms, default.verify_within)?,
            iterate_within: self.millis(&file.iterate_within_ms, default.iterate_within)?,
            answer_within: self.period(&file.answer_within_ms, default.answer_within)?,
            most_sends: self.whole(&file.most_sends, MAX_SENDS, default.most_sends)?,
            offer_for: self.period(&file.offer_for_ms, default.offer_for)?,
            begin_within: self.period(&file.begin_within_ms, default.begin_within)?,
            retry_held_after: self.period(&file.retry_held_after_ms, default.retry_held_after)?,
            cool_down: self.millis(&file.cool_down_ms, default.cool_down)?,
            look_every: self.period(&file.look_every_ms, default.look_every)?,
            trace_every: self.period(&file.trace_every_ms, default.trace_every)?,
            changes_only: self.hours(&file.changes_only, &default.changes_only)?,
            probe_every: self.period(&file.probe_every_ms, default.probe_every)?,
            trains_every: self.period(&file.trains_every_ms, default.trains_every)?,
            end_silent_jobs_after: self.period(
                &file.end_silent_jobs_after_ms,
                default.end_silent_jobs_after,
            )?,
        })
    }

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
        let set = file.verify_within_ms.as_ref().or(file.settle_ms.as_ref());
        match set.zip(policy.unsatisfiable()) {
            Some((set, problem)) => Err(self.0.error(set.span(), problem)),
            None => Ok(()),
        }
    }

    fn hours(
        &self,
        stretches: &Option<Vec<Spanned<String>>>,
        default: &[Hours],
    ) -> Result<Vec<Hours>, InputError> {
        let one = |text: &Spanned<String>| {
            let parsed = text.get_ref().parse();
            parsed.map_err(|error: NoHours| self.0.error(text.span(), error.to_string()))
        };
        let stretches = stretches.as_ref();
        stretches.map_or(Ok(default.to_vec()), |all| all.iter().map(one).collect())
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

#[cfg(test)]
mod tests {
    use reweave_common::moment::Moment;

    use super::*;
    use crate::log::command::Author;
    use crate::log::state::Signed;

    /// A policy of which no setting has its default.
    fn unusual() -> Policy {
        let micros = Duration::from_micros;
        Policy {
            mode: Mode::Auto,
            planner: PlannerPolicy {
                full_at: 0.8,
                elephant_share: 0.07,
                greedy_share: 1.0,
                least_gain: 1e-7,
                most_age: micros(4_000_500),
                most_evaluations: 7,
            },
            readings: 4,
            tolerance: 0.0,
            capacity_floor: 0.25,
            most_touched: 0.75,
            lossless: true,
            drain_failing_after: micros(1),
            light_lasts: micros(600_000),
            settle: micros(0),
            verify_within: micros(9_000_001),
            iterate_within: micros(19_000_000),
            answer_within: micros(1_900_000),
            most_sends: 5,
            offer_for: micros(599_000_000),
            begin_within: micros(9_999_999),
            retry_held_after: micros(29_000_000),
            cool_down: micros(11_000_000),
            look_every: micros(250_000),
            trace_every: micros(4_000_000),
            changes_only: ["Mon-Fri 02:00-05:00", "Sat 22:00-24:00"]
                .map(|hours| hours.parse().unwrap())
                .to_vec(),
            probe_every: micros(300_000),
            trains_every: micros(59_000_000),
            end_silent_jobs_after: micros(500_000_000),
        }
    }

    fn logged(values: &[(&str, &str)]) -> LoggedPolicy {
        let settings = values.iter();
        let settings = settings.map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())));
        let mut logged = LoggedPolicy::default();
        let set = Signed {
            at: Moment::default(),
            by: Author::Policy,
        };
        logged.set(settings.collect(), set);
        logged
    }

    type Judged = Result<BTreeMap<String, Option<String>>, Refused>;

    /// Judges this request on the default file.
    fn judged(held: &[(&str, &str)], wanted: &[(&str, Option<&str>)]) -> Judged {
        let logged = logged(held);
        let policy = EffectivePolicy::new(Policy::default(), &logged);
        let wanted = wanted.iter();
        let wanted = wanted.map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)));
        policy.judge(&logged, &wanted.collect())
    }

    #[track_caller]
    fn refused(judged: Judged) -> String {
        judged.unwrap_err().to_string()
    }

    #[test]
    fn written_settings_are_read_back() {
        for policy in [unusual(), Policy::default()] {
            let written = EffectivePolicy::new(policy.clone(), &LoggedPolicy::default());
            let lines = written
                .values()
                .map(|it| format!("{} = {}\n", it.key, it.value));
            let text: String = lines.collect();
            let read = Policy::read(Document::new("f.toml", &text).table().unwrap());
            assert_eq!(read.unwrap(), policy, "{text}");
        }
        let written = EffectivePolicy::new(unusual(), &LoggedPolicy::default());
        let usual: Vec<_> = written.values().filter(|it| it.is_default).collect();
        assert!(usual.is_empty(), "{} have their default", usual.len());
    }

    #[test]
    fn unreadable_value_changes_nothing() {
        let logged = logged(&[
            ("least_gain", "7"),
            ("lossless", "true\nmode = \"auto\""),
            ("mode", "auto"),
            ("no_such_key", "1"),
            ("readings", "0"),
            ("tolerance", "0.2"),
        ]);
        let policy = EffectivePolicy::new(Policy::default(), &logged);
        let expected = Policy {
            tolerance: 0.2,
            ..Policy::default()
        };
        assert_eq!(policy.get(), &expected);
        let unfit: Vec<_> = policy.unfit().collect();
        let left_out = ["least_gain", "lossless", "mode", "no_such_key", "readings"];
        assert_eq!(unfit, left_out);
    }

    #[test]
    fn verdict_times_are_judged_together() {
        let settle = ("settle_ms", Some("20000"));
        let why = refused(judged(&[], &[settle]));
        assert!(why.starts_with("settle_ms: no plan could"), "{why}");
        let both = judged(&[], &[settle, ("verify_within_ms", Some("30000"))]);
        assert_eq!(both.unwrap().len(), 2);
        let held = [("settle_ms", "20000"), ("verify_within_ms", "30000")];
        let why = refused(judged(&held, &[("verify_within_ms", None)]));
        assert!(why.starts_with("settle_ms: no plan could"), "{why}");
        let why = refused(judged(&held, &[("verify_within_ms", Some("1"))]));
        assert!(why.starts_with("verify_within_ms: no plan"), "{why}");
    }

    /// Another leader may have a file that other settings do not fit.
    #[test]
    fn unfit_setting_blocks_no_other() {
        let held = [("settle_ms", "20000")];
        let gain = judged(&held, &[("least_gain", Some("0.3"))]);
        assert_eq!(gain.unwrap().len(), 1);
        let policy = EffectivePolicy::new(Policy::default(), &logged(&held));
        assert_eq!(policy.get(), &Policy::default());
    }

    #[test]
    fn values_are_logged_as_written() {
        let wanted = [("least_gain", Some(" 0.20 # more")), ("mode", None)];
        let changed = judged(&[], &wanted).unwrap();
        let expected = [("least_gain".to_owned(), Some("0.2".to_owned()))];
        assert_eq!(changed, BTreeMap::from(expected));
        let again = judged(&[("least_gain", "0.2")], &wanted);
        assert!(again.unwrap().is_empty());
    }

    /// A later build set it, and nothing but its removal is possible here.
    #[test]
    fn unknown_held_key_is_removed() {
        let held = [("no_such_key", "1")];
        let removed = judged(&held, &[("no_such_key", None)]);
        let expected = [("no_such_key".to_owned(), None)];
        assert_eq!(removed.unwrap(), BTreeMap::from(expected));
        for judged in [
            judged(&held, &[("no_such_key", Some("2"))]),
            judged(&[], &[("no_such_key", None)]),
        ] {
            let why = refused(judged);
            assert!(why.contains("this key is unknown"), "{why}");
        }
    }

    #[test]
    fn state_holds_keys_by_form() {
        assert!(Policy::keys().all(|key| may_hold(key, None)));
        assert!(may_hold("key_of_later_build_2", Some("1")));
        let long = "k".repeat(MAX_KEY_BYTES + 1);
        for name in ["", "a.b", "Mode", "mode ", "a\nb", long.as_str()] {
            assert!(!may_hold(name, None), "{name}");
        }
    }

    #[test]
    fn impossible_settings_are_refused() {
        let said = |key: &str, value: &str| refused(judged(&[], &[(key, Some(value))]));
        let unknown = said("least\ngain", "1");
        assert!(
            unknown.starts_with("least\\ngain: this key is unknown; known are mode, full_at, "),
            "{unknown}"
        );
        assert_eq!(
            said("least_gain", "1.5"),
            "least_gain: 1.5 is not a share between 0 and 1"
        );
        let two = said("tolerance", "0.1\nmode = \"auto\"");
        assert!(two.contains("more than one line"), "{two}");
        let long = said("changes_only", &"x".repeat(MAX_VALUE_BYTES + 1));
        assert_eq!(long, "changes_only: the value is longer than 4096 bytes");
    }
}
