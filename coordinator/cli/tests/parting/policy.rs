//! What `reweave policy` asks of a coordinator, and how it shows the answer.

use std::collections::BTreeMap;

use reweave_common::operator::{
    PolicySetting, PolicyStatus, Refused, Request, Response, SettingChange, SettingSource,
};
use reweave_common::plan::Generation;

use crate::orders::{played, text};

fn setting(key: &str, value: &str, source: SettingSource) -> PolicySetting {
    PolicySetting {
        key: key.to_owned(),
        value: value.to_owned(),
        source,
        set: None,
        unfit: None,
    }
}

fn set_by(by: &str, key: &str, value: &str) -> PolicySetting {
    let change = SettingChange {
        by: by.to_owned(),
        age_s: 12,
    };
    PolicySetting {
        set: Some(change),
        ..setting(key, value, SettingSource::Set)
    }
}

fn policy(revision: u64, settings: [PolicySetting; 3]) -> Response {
    Response::Policy(PolicyStatus {
        revision,
        settings: settings.into(),
    })
}

fn before() -> Response {
    let settings = [
        setting("mode", "\"manual\"", SettingSource::File),
        set_by("ada", "least_gain", "0.2"),
        setting("lossless", "false", SettingSource::Default),
    ];
    policy(3, settings)
}

fn wanted<const N: usize>(settings: [(&str, Option<&str>); N]) -> BTreeMap<String, Option<String>> {
    let owned = |(key, value): (&str, Option<&str>)| (key.to_owned(), value.map(str::to_owned));
    settings.map(owned).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_set_sends_revision_read() {
    let after = [
        set_by("ann", "mode", "\"auto\""),
        set_by("ann", "least_gain", "0.3"),
        setting("lossless", "false", SettingSource::Default),
    ];
    let words = ["policy", "set", "mode=auto", "least_gain=0.3"];
    let (asked, output) = played(&words, &[before(), policy(4, after)], false).await;
    let settings = wanted([("mode", Some("\"auto\"")), ("least_gain", Some("0.3"))]);
    let expected = Some(3);
    let change = Request::PolicySet { settings, expected };
    assert_eq!(asked, [Request::Policy, change]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        "- mode = \"manual\" (file)\n+ mode = \"auto\" (set by ann)\n\
         - least_gain = 0.2 (set by ada)\n+ least_gain = 0.3 (set by ann)\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_reset_sends_no_value() {
    let after = [
        setting("mode", "\"manual\"", SettingSource::File),
        setting("least_gain", "0.1", SettingSource::Default),
        setting("lossless", "false", SettingSource::Default),
    ];
    let words = ["policy", "reset", "least_gain"];
    let (asked, output) = played(&words, &[before(), policy(4, after)], false).await;
    let settings = wanted([("least_gain", None)]);
    let expected = Some(3);
    assert_eq!(asked[1], Request::PolicySet { settings, expected });
    assert_eq!(
        text(&output.stdout),
        "- least_gain = 0.2 (set by ada)\n+ least_gain = 0.1 (default)\n"
    );
    let words = ["policy", "reset", "lossless"];
    let (_, output) = played(&words, &[before(), before()], false).await;
    assert!(text(&output.stdout).starts_with("no change"));
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_show_names_each_source() {
    let printed = async |form| {
        let words = ["policy", "show", "--output", form];
        let (asked, output) = played(&words, &[before()], false).await;
        assert_eq!(asked, [Request::Policy]);
        text(&output.stdout)
    };
    assert_eq!(
        printed("table").await,
        "  key         value     source\n  mode        \"manual\"  file\n  \
         least_gain  0.2       set by ada, 12 s ago\n  lossless    false     default\n"
    );
    let wide = printed("wide").await;
    let lines: Vec<_> = wide.lines().collect();
    let columns = "  key         value     source   set by   age";
    assert_eq!(lines[0].trim_end(), columns);
    assert_eq!(
        lines[2].trim_end(),
        "  least_gain  0.2       set      ada     12 s"
    );
    assert_eq!(printed("name").await, "mode\nleast_gain\nlossless\n");
    let json: serde_json::Value = serde_json::from_str(&printed("json").await).unwrap();
    let set = serde_json::json!({ "by": "ada", "age_s": 12 });
    assert_eq!(json["revision"], 3);
    assert_eq!(json["settings"][1]["source"], "set");
    assert_eq!(json["settings"][1]["set"], set);
}

/// A setting that an earlier leader accepted does not fit the file of this one.
#[tokio::test(flavor = "multi_thread")]
async fn unfit_setting_is_shown_and_reset() {
    let fits = setting("settle_ms", "300", SettingSource::Default);
    let unfit = PolicySetting {
        unfit: Some("20000, set by ada, is not in force: too long".to_owned()),
        ..fits.clone()
    };
    let others = ["mode", "lossless"].map(|key| setting(key, "0", SettingSource::File));
    let with = |revision, first: &PolicySetting| {
        let [mode, lossless] = others.clone();
        policy(revision, [first.clone(), mode, lossless])
    };
    let line = "settle_ms = 20000, set by ada, is not in force: too long";
    for form in ["table", "wide"] {
        let words = ["policy", "show", "--output", form];
        let (_, output) = played(&words, &[with(1, &unfit)], false).await;
        assert_eq!(text(&output.stdout).lines().last(), Some(line));
    }
    let words = ["policy", "reset", "settle_ms"];
    let (_, output) = played(&words, &[with(1, &unfit), with(2, &fits)], false).await;
    let value = "settle_ms = 300 (default)";
    assert_eq!(
        text(&output.stdout),
        format!("- {value}\n- {line}\n+ {value}\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_policy_change_has_exit_code() {
    let key = "lossless".to_owned();
    let refusals = [
        (
            Refused::BadSetting {
                key: key.clone(),
                problem: "\"maybe\" is not a boolean".to_owned(),
            },
            2,
        ),
        (
            Refused::PolicyChanged {
                revision: 4,
                key: Some(key.clone()),
                by: "ada".to_owned(),
                age_s: 12,
            },
            1,
        ),
        (
            Refused::SettingInUse {
                key,
                generation: Generation(7),
            },
            1,
        ),
        (Refused::ClusterVersionTooLow { needed: 2, has: 1 }, 1),
    ];
    for (refused, code) in refusals {
        let answers = [before(), Response::Refused(refused.clone())];
        let words = ["policy", "set", "lossless=maybe"];
        let (_, output) = played(&words, &answers, false).await;
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert_eq!(message, format!("error: {refused}\n"));
        assert_eq!(text(&output.stdout), "");
    }
}
