//! The policy belongs to the cluster: every leader has what an operator has set through any coordinator.

use std::process::Command;

use reweave_proto::hello::PROTOCOL_VERSION;
use serde_json::{Value, json};

use super::{Trio, wait};

/// Runs `reweave policy` with these words, for an operator who knows this coordinator alone.
fn policy_at(trio: &Trio, index: usize, words: &[&str]) -> Value {
    let mut policy = Command::new(trio.programs.reweave());
    policy.args(["--coordinator", &trio.addresses[index], "--identity"]);
    policy.arg(trio.path("certificates/operator"));
    policy.args(["--output", "json", "policy"]).args(words);
    let output = policy.output().expect("it was built");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// Waits until entries of the latest version may be decided: all coordinators have to report to the leader first.
fn version_has_risen(trio: &Trio) {
    wait(|| {
        let asked = trio.reweave().args(["cluster", "version"]).output();
        let answer = asked.expect("it was built").stdout;
        let answer: Value = serde_json::from_slice(&answer).ok()?;
        (answer["version"] == PROTOCOL_VERSION.to_string()).then_some(())
    });
}

/// The setting of this key, without its age.
fn setting(policy: &Value, key: &str) -> [Value; 3] {
    let mut settings = policy["settings"].as_array().expect("a list").iter();
    let found = settings.find(|setting| setting["key"] == key);
    let found = found.unwrap_or_else(|| panic!("{policy}"));
    let parts = [&found["value"], &found["source"], &found["set"]["by"]];
    parts.map(Value::clone)
}

#[test]
fn policy_set_reaches_new_leader() {
    let mut trio = Trio::started();
    let (first, term) = trio.leader_after(0);
    version_has_risen(&trio);
    let follower = (first + 1) % 3;
    let set = policy_at(&trio, follower, &["set", "least_gain=0.25", "full_at=0.8"]);
    assert_eq!(set["revision"], 1, "{set}");
    assert_eq!(set["changes"].as_array().map(Vec::len), Some(2), "{set}");
    let reset = policy_at(&trio, follower, &["reset", "full_at"]);
    assert_eq!(reset["revision"], 2, "{reset}");

    trio.kill(first);
    let (second, _) = trio.leader_after(term);
    let policy = policy_at(&trio, second, &["show"]);
    let is_set = [json!("0.25"), json!("set"), json!("operator")];
    assert_eq!(setting(&policy, "least_gain"), is_set);
    let is_default = [json!("0.9"), json!("default"), Value::Null];
    assert_eq!(setting(&policy, "full_at"), is_default);
    assert_eq!(policy["revision"], 2, "{policy}");
}
