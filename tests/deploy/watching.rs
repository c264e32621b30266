//! What Prometheus and Grafana are handed: understood by promtool, right about when to raise an
//! alarm, and asking for nothing that no coordinator serves.

use std::collections::BTreeSet;
use std::process::Command;

use libtest_mimic::Trial;
use reweave_tests::{STAGE_TIMEOUT, wait_for};
use serde_json::Value;

use super::alone::Alone;
use super::needs::{Need, trial};
use super::{deployed, output_of, promtool, text, written};

pub(crate) fn tests() -> Vec<Trial> {
    let promtool = Need::Program("promtool");
    vec![
        trial("alarms_are_raised_by_rules", &[promtool], alarms_are_raised),
        trial(
            "promtool_accepts_all_queries",
            &[promtool],
            promtool_accepts_all_queries,
        ),
        trial(
            "queried_metrics_are_served",
            &[
                Need::Namespaces,
                Need::Program("ip"),
                Need::Program("strace"),
            ],
            queried_metrics_are_served,
        ),
        trial(
            "served_metrics_pass_promtool",
            &[
                Need::Namespaces,
                Need::Program("ip"),
                Need::Program("strace"),
                promtool,
            ],
            what_is_served_is_clean,
        ),
    ]
}

fn alarms_are_raised() {
    let folder = deployed("prometheus");
    let promtool = || {
        let mut promtool = Command::new("promtool");
        promtool.current_dir(&folder);
        promtool
    };
    output_of(promtool().args(["check", "config", "prometheus.yml"]));
    output_of(promtool().args(["test", "rules", "reweave.rules.test.yml"]));
}

/// As rules, which promtool reads, and dashboards it does not.
fn promtool_accepts_all_queries() {
    let rule = |(at, asked): (usize, &String)| {
        let asked = Value::String(asked.clone());
        format!("      - record: asked_{at}\n        expr: {asked}\n")
    };
    let asked = asked_by_dashboards();
    assert!(asked.len() > 10, "{asked:?}");
    let rules: String = asked.iter().enumerate().map(rule).collect();
    let file = tempfile::NamedTempFile::new().expect("a file of our own");
    written(
        file.path(),
        &format!("groups:\n  - name: asked\n    rules:\n{rules}"),
    );
    output_of(
        Command::new("promtool")
            .args(["check", "rules"])
            .arg(file.path()),
    );
}

fn asked_by_dashboards() -> Vec<String> {
    let board = text(deployed("grafana/reweave.json"));
    let board = serde_json::from_str(&board).expect("a dashboard is JSON");
    let mut asked = Vec::new();
    collect(&board, &mut asked);
    asked
}

fn collect(value: &Value, asked: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let expression = fields.get("expr").and_then(Value::as_str);
            asked.extend(expression.map(str::to_owned));
            fields.values().for_each(|value| collect(value, asked));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, asked)),
        _ => {}
    }
}

fn queried_metrics_are_served() {
    let alone = Alone::start();
    alone.await_state("READY=1", 2);
    let rules = text(deployed("prometheus/reweave.rules.yml"));
    let asked = asked_by_dashboards().join(" ") + &rules;
    let is_missing = |served: &str, name: &str| !served.contains(&format!("# TYPE {name} "));
    // What agents tell comes a moment after they are ready.
    let mut served = String::new();
    let all = wait_for("all that is asked for", STAGE_TIMEOUT, || {
        served = alone.served("/metrics");
        let is_whole = !metrics(&asked)
            .into_iter()
            .any(|it| is_missing(&served, it));
        Ok(is_whole.then_some(()))
    });
    let mut unserved = metrics(&asked);
    unserved.retain(|name| is_missing(&served, name));
    assert!(all.is_ok(), "no program serves {unserved:?}: {served}");
}

fn what_is_served_is_clean() {
    let alone = Alone::start();
    alone.await_state("READY=1", 2);
    promtool::takes(&alone.served("/metrics"));
}

/// Recorded names have colons, and come from these.
fn metrics(asked: &str) -> BTreeSet<&str> {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let names = asked.split(|c| !of_a_name(c));
    let names = names.filter(|name| name.starts_with("reweave_"));
    // Of a histogram, buckets are asked for.
    names
        .map(|name| name.strip_suffix("_bucket").unwrap_or(name))
        .collect()
}
