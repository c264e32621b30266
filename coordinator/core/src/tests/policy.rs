//! Operators change the policy while the coordinators run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use reweave_common::instruction::Instruction;
use reweave_common::member::Role;
use reweave_common::operator::{
    Mode, PolicyStatus, Refused, Request, Response, SettingChange, SettingSource,
};
use reweave_common::time_span::TimeSpan;

use super::cluster::Cluster;
use super::network::Network;
use super::scene::*;
use crate::{Author, Change, ClusterRole, Effect, Outcome, Policy, State};

/// The minor version that settings in the log came with.
const POLICY_MINOR: u16 = 2;
const LOCKED_SETTINGS: [(&str, &str); 4] = [
    ("answer_within_ms", "1500"),
    ("capacity_floor", "0.6"),
    ("lossless", "true"),
    ("most_sends", "4"),
];

type Settings = BTreeMap<String, Option<String>>;

fn settings(wanted: &[(&str, Option<&str>)]) -> Settings {
    let wanted = wanted.iter();
    let wanted = wanted.map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)));
    wanted.collect()
}

/// Sets one key, of the policy with this revision if one is named.
fn set(cluster: &mut Cluster, key: &str, value: Option<&str>, expected: Option<u64>) -> Response {
    let settings = settings(&[(key, value)]);
    cluster.ask(Request::PolicySet { settings, expected })
}

#[track_caller]
fn policy(response: Response) -> PolicyStatus {
    match response {
        Response::Policy(policy) => policy,
        other => panic!("no policy: {other:?}"),
    }
}

/// The value of this key, its source and its author.
fn setting<'p>(policy: &'p PolicyStatus, key: &str) -> (&'p str, SettingSource, Option<&'p str>) {
    let mut settings = policy.settings.iter();
    let found = settings.find(|it| it.key == key).expect("all are listed");
    let by = found.set.as_ref().map(|it| it.by.as_str());
    (found.value.as_str(), found.source, by)
}

#[test]
fn policy_change_applies_without_restart() {
    let (mut cluster, _) = collision(Mode::Manual);
    cluster.run_for(Duration::from_secs(15));
    assert_eq!(cluster.installs_sent(), 0);
    set_policy(&mut cluster, "mode", "\"auto\"");
    assert_eq!(status(&mut cluster).mode, Mode::Auto);
    cluster.run_until_ended(1);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    assert_eq!(cluster.restarts, 0);
    let before = cluster.core.known_at(cluster.now()).least_elephant;
    set_policy(&mut cluster, "elephant_share", "0.2");
    let after = cluster.core.known_at(cluster.now()).least_elephant;
    assert!(after > before, "{after:?}");
}

/// Lists are renewed every ten seconds otherwise.
#[test]
fn agents_get_new_probe_intervals() {
    let (mut cluster, _) = collision(Mode::Manual);
    cluster.run_for(Duration::from_secs(15));
    cluster.effects.clear();
    set_policy(&mut cluster, "trains_every_ms", "90000");
    cluster.run_for(Duration::from_secs(1));
    let interval = Some(TimeSpan::from_secs(90));
    let reached = cluster.effects.iter().filter_map(|effect| match effect {
        Effect::Send {
            node,
            instruction: Instruction::Probe(list),
        } if list.trains_every == interval => Some(*node),
        _ => None,
    });
    assert_eq!(reached.collect::<BTreeSet<_>>().len(), 6);
}

#[test]
fn policy_names_source_of_values() {
    let file = Policy {
        tolerance: 0.2,
        ..Policy::default()
    };
    let mut cluster = Cluster::with(Network::new(2, 3), file);
    set_policy(&mut cluster, "least_gain", "0.25");
    set_policy(&mut cluster, "tolerance", "0.3");
    let shown = policy(cluster.ask(Request::Policy));
    let keys: Vec<_> = shown.settings.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(keys, Policy::keys().collect::<Vec<_>>());
    assert_eq!(shown.revision, 2);
    let is_set = ("0.25", SettingSource::Set, Some("ada"));
    assert_eq!(setting(&shown, "least_gain"), is_set);
    assert_eq!(setting(&shown, "tolerance").0, "0.3");
    let is_default = ("\"manual\"", SettingSource::Default, None);
    assert_eq!(setting(&shown, "mode"), is_default);
    let reset = policy(set(&mut cluster, "tolerance", None, None));
    assert_eq!(reset.revision, 3);
    let is_of_file = ("0.2", SettingSource::File, None);
    assert_eq!(setting(&reset, "tolerance"), is_of_file);
    assert_eq!(policy(cluster.ask(Request::Policy)), reset);
}

/// The other operator has not seen the first change.
#[test]
fn keys_set_by_two_conflict() {
    let mut cluster = Cluster::new(Mode::Manual);
    let first = policy(set(&mut cluster, "mode", Some("\"auto\""), Some(0)));
    assert_eq!(first.revision, 1);
    cluster.run_for(Duration::from_secs(12));
    let second = set(&mut cluster, "least_gain", Some("0.2"), Some(0));
    let changed = Refused::PolicyChanged {
        revision: 1,
        key: Some("mode".to_owned()),
        by: "ada".to_owned(),
        age_s: 12,
    };
    let why = changed.to_string();
    assert_eq!(second, Response::Refused(changed));
    assert_eq!(
        why,
        "ada changed the policy 12 s ago (mode): look again and repeat"
    );
    let again = set(&mut cluster, "least_gain", Some("0.2"), Some(1));
    assert_eq!(policy(again).revision, 2);
    let same = set(&mut cluster, "least_gain", Some("0.20"), Some(2));
    assert_eq!(policy(same).revision, 2, "nothing has changed");
}

#[test]
fn policy_survives_leader_and_snapshot() {
    let mut cluster = Cluster::new(Mode::Manual);
    set_policy(&mut cluster, "least_gain", "0.25");
    let shown = policy(cluster.ask(Request::Policy));
    let set = shown.settings.iter().find_map(|it| it.set.clone());
    let (by, age_s) = ("ada".to_owned(), 0);
    assert_eq!(set, Some(SettingChange { by, age_s }));
    cluster.restart();
    cluster.reconnect();
    assert_eq!(policy(cluster.ask(Request::Policy)), shown);

    // Another coordinator has another file.
    let file = Policy {
        tolerance: 0.2,
        ..Policy::default()
    };
    let fabric = Arc::clone(&cluster.network.fabric);
    let founded = State::founded(POLICY_MINOR);
    let mut role = ClusterRole::new(file, fabric, founded, POLICY_MINOR);
    assert_eq!(role.policy().planner.least_gain, 0.1);
    let snapshot = cluster.core.state().encode().unwrap();
    role.handle_restored(&snapshot).unwrap();
    assert_eq!(role.state(), cluster.core.state());
    let shares = |role: &ClusterRole| {
        let policy = role.policy();
        [policy.planner.least_gain, policy.tolerance]
    };
    assert_eq!(shares(&role), [0.25, 0.2]);
    role.handle_elected(1, [], []);
    assert_eq!(shares(&role), [0.25, 0.2]);
}

#[test]
fn tail_is_absent_below_1_2() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.founded = POLICY_MINOR - 1;
    cluster.restart();
    let refused = set(&mut cluster, "mode", Some("\"auto\""), None);
    let too_low = Refused::ClusterVersionTooLow {
        needed: POLICY_MINOR,
        has: POLICY_MINOR - 1,
    };
    assert_eq!(refused, Response::Refused(too_low));
    cluster.append(Change::PolicySet {
        settings: settings(&[("mode", Some("\"auto\""))]),
        by: Author::Policy,
    });
    assert_eq!(cluster.core.policy().mode, Mode::Manual);
    let state = cluster.core.state();
    assert_eq!(state.policy().revision, 0);
    let bytes = state.encode().unwrap();
    assert_eq!(bytes, postcard::to_stdvec(state).unwrap());
    assert_eq!(&State::decode(&bytes, POLICY_MINOR).unwrap(), state);
    let more = [&bytes[..], &[0]].concat();
    assert!(State::decode(&more, POLICY_MINOR).is_err());

    cluster.append(Change::ClusterVersion {
        minor: POLICY_MINOR,
    });
    set_policy(&mut cluster, "mode", "\"auto\"");
    let state = cluster.core.state();
    let bytes = state.encode().unwrap();
    assert_eq!(&State::decode(&bytes, POLICY_MINOR).unwrap(), state);
    let without = postcard::to_stdvec(state).unwrap();
    let more = [&bytes[..], &[0]].concat();
    for wrong in [&without[..], &bytes[..bytes.len() - 1], &more[..]] {
        assert!(State::decode(wrong, POLICY_MINOR).is_err());
    }
}

#[test]
fn running_plan_locks_its_settings() {
    let (mut cluster, _, generation) = planned();
    cluster.apply(generation);
    for (key, value) in LOCKED_SETTINGS {
        let refused = set(&mut cluster, key, Some(value), None);
        let key = key.to_owned();
        let in_use = Refused::SettingInUse { key, generation };
        let why = in_use.to_string();
        assert_eq!(refused, Response::Refused(in_use));
        assert!(why.contains(": plan 1 is under way; wait"), "{why}");
    }
    cluster.append(Change::PolicySet {
        settings: settings(&[("lossless", Some("true"))]),
        by: Author::Policy,
    });
    assert_eq!(cluster.core.policy(), &Policy::default());
    set_policy(&mut cluster, "least_gain", "0.05");
    cluster.run_until_ended(1);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    for (key, value) in LOCKED_SETTINGS {
        set_policy(&mut cluster, key, value);
    }
    let policy = cluster.core.policy();
    assert!(policy.lossless && policy.most_sends == 4);
}

#[test]
fn bad_setting_names_key() {
    let mut cluster = Cluster::new(Mode::Manual);
    let wanted = settings(&[("least_gain", Some("1.5")), ("mode", Some("\"auto\""))]);
    let refused = cluster.ask(Request::PolicySet {
        settings: wanted,
        expected: None,
    });
    let bad = Refused::BadSetting {
        key: "least_gain".to_owned(),
        problem: "1.5 is not a share between 0 and 1".to_owned(),
    };
    assert_eq!(refused, Response::Refused(bad));
    let unknown = set(&mut cluster, "least_gian", None, None);
    let Response::Refused(Refused::BadSetting { key, problem }) = unknown else {
        panic!("{unknown:?}")
    };
    assert_eq!(key, "least_gian");
    assert!(problem.contains("least_gain"), "{problem}");
    assert!(cluster.log.is_empty(), "{:?}", cluster.log);
    assert_eq!(cluster.core.policy(), &Policy::default());
}

/// The state holds only short keys and values, even if a leader writes others.
#[test]
fn impossible_entries_change_nothing() {
    let mut cluster = Cluster::new(Mode::Manual);
    let long = "1".repeat(5000);
    for (key, value) in [("no such key", "1"), ("least_gain", long.as_str())] {
        cluster.append(Change::PolicySet {
            settings: settings(&[(key, Some(value)), ("mode", Some("\"auto\""))]),
            by: Author::Policy,
        });
    }
    assert_eq!(cluster.core.state().policy().revision, 0);
}

/// Other builds may know more keys and values. Every state holds them, and what this build cannot read has no effect.
#[test]
fn unknown_settings_have_no_effect() {
    let mut cluster = Cluster::new(Mode::Manual);
    let wanted = [
        ("key_of_later_build", Some("1")),
        ("least_gain", Some("a tenth")),
        ("mode", Some("\"auto\"")),
    ];
    cluster.append(Change::PolicySet {
        settings: settings(&wanted),
        by: Author::Operator("eve".to_owned()),
    });
    let held = cluster.core.state().policy();
    assert_eq!((held.revision, held.settings.len()), (1, 3));
    let expected = Policy {
        mode: Mode::Auto,
        ..Policy::default()
    };
    assert_eq!(cluster.core.policy(), &expected);
    let warnings = status(&mut cluster).warnings;
    let named = warnings
        .iter()
        .filter(|it| it.ends_with("release: key_of_later_build, least_gain"));
    assert_eq!(named.count(), 1, "{warnings:?}");

    let shown = policy(cluster.ask(Request::Policy));
    let mut unfit = shown.settings.iter().filter(|it| it.unfit.is_some());
    let gain = unfit.next().expect("one does not fit");
    assert_eq!(
        (gain.key.as_str(), gain.value.as_str()),
        ("least_gain", "0.1")
    );
    assert_eq!((gain.source, &gain.set), (SettingSource::Default, &None));
    let why = gain.unfit.as_deref().unwrap_or_default();
    assert!(
        why.starts_with("a tenth, set by eve, is not in force: "),
        "{why}"
    );
    assert_eq!(unfit.next(), None);
    for key in ["key_of_later_build", "least_gain"] {
        policy(set(&mut cluster, key, None, None));
    }
    let keys: Vec<_> = cluster.core.state().policy().settings.keys().collect();
    assert_eq!(keys, ["mode"]);
}

/// Coordinators of the earlier release would lead by other settings.
#[test]
fn version_stays_while_policy_is_set() {
    let mut cluster = Cluster::new(Mode::Manual);
    let minor = POLICY_MINOR - 1;
    set_policy(&mut cluster, "mode", "\"auto\"");
    let lower = Request::ClusterVersion { minor: Some(minor) };
    let refused = cluster.ask(lower.clone());
    let Response::Refused(Refused::VersionStays { why }) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("have set mode in the policy"), "{why}");
    let by = Author::Policy;
    cluster.append(Change::ClusterVersionLowered { minor, by });
    assert_eq!(cluster.core.state().cluster_version(), POLICY_MINOR);
    set(&mut cluster, "mode", None, None);
    let lowered = cluster.ask(lower);
    assert!(
        matches!(lowered, Response::ClusterVersion { .. }),
        "{lowered:?}"
    );
    let state = cluster.core.state();
    assert_eq!(state.cluster_version(), minor);
    assert_eq!(state.policy().revision, 0, "the earlier release has none");
}

#[test]
fn viewers_cannot_set_policy() {
    let set = Request::PolicySet {
        settings: settings(&[("mode", None)]),
        expected: None,
    };
    let may = [Request::Policy, set]
        .map(|request| (request.may_be_asked_by(Role::Viewer), request.decides()));
    assert_eq!(may, [(true, false), (false, true)]);
}
