//! The policy over HTTP: clients that may see and change it, and answers to stale or invalid changes.

use serde_json::{Value, json};

use super::api::{is_problem, operators, viewers};
use super::house::House;
use super::http::{Answer, send, send_json};

const POLICY_PATH: &str = "/api/v1/policy";

fn shown(house: &House, token: &str) -> Answer {
    let answer = send(house, "GET", POLICY_PATH, token);
    assert_eq!(answer.code, 200, "{}", answer.body);
    answer
}

/// The setting of this key.
fn setting(policy: &Answer, key: &str) -> Value {
    let policy = policy.json();
    let settings = policy["settings"].as_array().unwrap();
    let found = settings.iter().find(|setting| setting["key"] == key);
    found.unwrap_or_else(|| panic!("{policy}")).clone()
}

/// The keys that operators have set.
fn keys_set(policy: &Answer) -> Vec<String> {
    let policy = policy.json();
    let settings = policy["settings"].as_array().unwrap().iter();
    let set = settings.filter(|setting| setting["source"] == "set");
    set.map(|setting| setting["key"].as_str().unwrap().to_owned())
        .collect()
}

fn change(house: &House, method: &str, headers: &str, settings: &Value) -> Answer {
    let body = json!({ "settings": settings }).to_string();
    send_json(house, method, POLICY_PATH, headers, &body)
}

#[tokio::test]
async fn policy_change_needs_current_etag() {
    let house = House::new();
    let operator = operators(&house).await;
    let first = shown(&house, &operator);
    assert_eq!(first.json()["settings"].as_array().unwrap().len(), 29);
    assert_eq!(keys_set(&first), [""; 0]);
    assert_eq!(first.header("cache-control"), Some("no-store"));
    let seen = |answer: &Answer| {
        let tag = answer.header("etag").unwrap();
        format!("{operator}If-Match: {tag}\r\n")
    };
    let settings = json!({ "least_gain": 0.2, "mode": "auto" });
    let second = change(&house, "PATCH", &seen(&first), &settings);
    assert_eq!(second.code, 200, "{}", second.body);
    let gain = setting(&second, "least_gain");
    assert_eq!([&gain["value"], &gain["source"]], ["0.2", "set"]);
    assert_eq!(gain["set"]["by"], "ann");
    assert_eq!(setting(&second, "mode")["value"], "\"auto\"");
    assert_eq!(
        shown(&house, &operator).header("etag"),
        second.header("etag")
    );

    let late = change(&house, "PATCH", &seen(&first), &settings);
    is_problem(&late, 412, "policy-changed");
    is_problem(
        &change(&house, "PUT", &seen(&first), &json!({})),
        412,
        "policy-changed",
    );
    let third = change(&house, "PATCH", &seen(&second), &json!({ "mode": null }));
    assert_eq!(third.code, 200, "{}", third.body);
    assert_eq!(keys_set(&third), ["least_gain"]);
    let fourth = change(&house, "PUT", &operator, &json!({ "full_at": "0.8" }));
    assert_eq!(fourth.code, 200, "{}", fourth.body);
    assert_eq!(keys_set(&fourth), ["full_at"]);
    let held = seen(&fourth).replace("If-Match", "If-None-Match");
    let again = send(&house, "GET", POLICY_PATH, &held);
    assert_eq!(again.code, 200, "values of files are not in the ETag");
    assert_eq!(keys_set(&again), ["full_at"]);
}

#[tokio::test]
async fn viewer_sees_policy_and_changes_nothing() {
    let house = House::new();
    let (operator, viewer) = (operators(&house).await, viewers(&house).await);
    let before = shown(&house, &viewer).body;
    for method in ["PUT", "PATCH"] {
        let answer = change(&house, method, &viewer, &json!({ "mode": "auto" }));
        is_problem(&answer, 403, "not-allowed");
    }
    assert_eq!(shown(&house, &viewer).body, before);
    let answer = change(&house, "PATCH", &operator, &json!({ "mode": "auto" }));
    assert_eq!(answer.code, 200, "{}", answer.body);
    let audit = send(&house, "GET", "/api/v1/audit", &operator).json();
    for (nth, who, outcome) in [
        (0, "operator ann, by a token", "done"),
        (1, "viewer vic, by a token", "refused"),
        (2, "viewer vic, by a token", "refused"),
    ] {
        let entry = &audit["audit"][nth];
        assert_eq!([&entry["who"], &entry["outcome"]], [who, outcome]);
        assert!(entry["what"].as_str().unwrap().contains("mode"), "{entry}");
    }
}

#[tokio::test]
async fn bad_policy_change_is_refused() {
    let house = House::new();
    let operator = operators(&house).await;
    let before = shown(&house, &operator).body;
    for (settings, named) in [
        (json!({ "least_gain": 1.5 }), "least_gain"),
        (json!({ "mode": "auto", "least_gain": 1.5 }), "least_gain"),
        (json!({ "mode": "perhaps" }), "mode"),
        (json!({ "readings": 0 }), "readings"),
        (json!({ "least_gian": 0.2 }), "least_gain"),
        (json!({ "least_gian": null }), "least_gain"),
    ] {
        for method in ["PUT", "PATCH"] {
            let answer = change(&house, method, &operator, &settings);
            is_problem(&answer, 422, "bad-setting");
            assert!(answer.body.contains(named), "{}", answer.body);
        }
    }
    for body in [
        "",
        "{",
        "{}",
        "[]",
        r#"{ "settings": { "mode": {} } }"#,
        r#"{ "settings": {}, "else": 1 }"#,
    ] {
        let answer = send_json(&house, "PATCH", POLICY_PATH, &operator, body);
        is_problem(&answer, 400, "bad-request");
    }
    let untagged = format!("{operator}If-Match: 1\r\n");
    let answer = change(&house, "PATCH", &untagged, &json!({ "mode": "auto" }));
    is_problem(&answer, 400, "bad-request");
    assert_eq!(shown(&house, &operator).body, before);
}

#[tokio::test]
async fn set_policy_survives_restart() {
    let mut house = House::new();
    let operator = operators(&house).await;
    let settings = json!({ "changes_only": ["Sat 22:00-06:00"] });
    let set = change(&house, "PATCH", &operator, &settings);
    assert_eq!(set.code, 200, "{}", set.body);
    house.restart();
    let operator = operators(&house).await;
    let again = shown(&house, &operator);
    assert_eq!(again.header("etag"), set.header("etag"));
    let hours = setting(&again, "changes_only");
    assert_eq!(hours["value"], "[\"Sat 22:00-06:00\"]");
    assert_eq!(hours["set"]["by"], "ann");
}
