//! Shows the policy in force, and changes it while the coordinators run.

use std::collections::BTreeMap;

use reweave_common::moment::Moment;
use reweave_common::operator::{
    PolicySetting, PolicyStatus, Refused, Response, SettingChange, SettingSource,
};

use super::LeaderView;
use crate::log::command::{Author, Change};
use crate::log::policy_settings::{EffectivePolicy, PolicyValue, is_locked};
use crate::log::state::{LoggedPolicy, LoggedSetting, Signed, State};
use crate::rollout::DecisionContext;

pub(super) fn show(turn: &DecisionContext<'_>, seen: LeaderView<'_>) -> Response {
    let logged = turn.state.policy();
    Response::Policy(status(seen.policy, logged, turn.known.now))
}

/// Sets these settings, or returns them to the values of the file. The answer has the policy afterwards.
pub(super) fn set(
    turn: &mut DecisionContext<'_>,
    principal: String,
    wanted: &BTreeMap<String, Option<String>>,
    expected: Option<u64>,
    seen: LeaderView<'_>,
) -> Response {
    let changed = match judge(turn, wanted, expected, seen.policy) {
        Ok(changed) => changed,
        Err(refused) => return Response::Refused(refused),
    };
    if changed.is_empty() {
        return show(turn, seen);
    }
    let by = Author::Operator(principal);
    let change = Change::PolicySet {
        settings: changed.clone(),
        by: by.clone(),
    };
    let [needed, has] = [change.since(), turn.state.cluster_version()];
    if needed > has {
        return Response::Refused(Refused::ClusterVersionTooLow { needed, has });
    }
    turn.decide(change);
    let now = turn.known.now;
    let mut logged = turn.state.policy().clone();
    logged.set(changed, Signed { at: now, by });
    let policy = seen.policy.with(&logged);
    Response::Policy(status(&policy, &logged, now))
}

/// The settings that change in the log.
fn judge(
    turn: &DecisionContext<'_>,
    wanted: &BTreeMap<String, Option<String>>,
    expected: Option<u64>,
    policy: &EffectivePolicy,
) -> Result<BTreeMap<String, Option<String>>, Refused> {
    let logged = turn.state.policy();
    if expected.is_some_and(|expected| expected != logged.revision) {
        return Err(last_change(turn.state, turn.known.now, wanted));
    }
    let changed = policy.judge(logged, wanted)?;
    let locked = changed.keys().find(|key| is_locked(key));
    match (locked, turn.state.under_way().next()) {
        (Some(key), Some(running)) => Err(Refused::SettingInUse {
            key: key.clone(),
            generation: running.plan.generation,
        }),
        _ => Ok(changed),
    }
}

/// Lowering the cluster version to one without settings in the log starts their count again.
fn last_change(state: &State, now: Moment, wanted: &BTreeMap<String, Option<String>>) -> Refused {
    let logged = state.policy();
    let last = logged.changed.as_ref();
    let signed = last.map(|it| &it.set).or(state.lowered());
    let key = last.and_then(|it| {
        let mut keys = it.keys.iter();
        let both = keys.find(|key| wanted.contains_key(*key));
        both.or(it.keys.first())
    });
    Refused::PolicyChanged {
        revision: logged.revision,
        key: key.cloned(),
        by: signed.map_or_else(String::new, |it| it.by.to_string()),
        age_s: signed.map_or(0, |it| now.since(it.at).as_secs()),
    }
}

fn status(policy: &EffectivePolicy, logged: &LoggedPolicy, now: Moment) -> PolicyStatus {
    let settings = policy.values().map(|value| {
        let set = logged.settings.get(value.key);
        match (set, policy.why_unfit(value.key)) {
            (Some(set), Some(why)) => unfit(value, set, why),
            _ => setting(value, set, now),
        }
    });
    PolicyStatus {
        revision: logged.revision,
        settings: settings.collect(),
    }
}

fn setting(value: PolicyValue, set: Option<&LoggedSetting>, now: Moment) -> PolicySetting {
    let source = match set {
        Some(_) => SettingSource::Set,
        None if value.is_default => SettingSource::Default,
        None => SettingSource::File,
    };
    PolicySetting {
        key: value.key.to_owned(),
        value: value.value,
        source,
        set: set.map(|it| SettingChange {
            by: it.set.by.to_string(),
            age_s: now.since(it.set.at).as_secs(),
        }),
        unfit: None,
    }
}

fn unfit(value: PolicyValue, set: &LoggedSetting, why: &str) -> PolicySetting {
    let (text, by) = (&set.value, &set.set.by);
    let unfit = Some(format!("{text}, set by {by}, is not in force: {why}"));
    PolicySetting {
        unfit,
        ..setting(value, None, set.set.at)
    }
}
