//! `reweave diagnose` and `reweave explain` on files: what they find, what they doubt, and what they refuse.

use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::switched::{Desk, holds, leaf_spine};

type Check = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let checks: [(&str, Check); 5] = [
        ("host findings", what_is_wrong),
        ("unknown hops", unknown_hops),
        ("contradictions", contradictions),
        ("lost somewhere", lost_somewhere),
        ("unknown job", unknown_job),
    ];
    let trial = |(name, check): (&str, Check)| Trial::test(format!("causes::{name}"), check);
    checks.into_iter().map(trial)
}

const DIAGNOSE_COMMAND: &str = "diagnose --evidence evidence.json --fabric fabric.toml";

fn desk(evidence: &str) -> Result<Desk, Failed> {
    Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 2, 2)),
        ("evidence.json", evidence),
    ])
}

fn found(answer: &Value) -> Vec<(&str, &Value)> {
    let findings = answer["findings"].as_array().into_iter().flatten();
    findings
        .map(|it| (it["class"].as_str().unwrap_or_default(), &it["subject"]))
        .collect()
}

/// Clocks that tell different stories, probes that never left, and a host that is set otherwise.
fn what_is_wrong() -> Result<(), Failed> {
    let cases = [
        (
            r#"{"hosts": [{"host": "h1", "clock_skew_ms": -2000}]}"#,
            "clocks-apart",
        ),
        (
            r#"{"hosts": [{"host": "h1", "unsent": [{"to": "h3", "due": 20, "forbidden": 20}]}]}"#,
            "unsent-probes",
        ),
        (
            r#"{"hosts": [{"host": "h0", "settings": {"ECN": "on"}}, {"host": "h1"},
                {"host": "h2", "settings": {"ECN": "on"}}, {"host": "h3", "settings": {"ECN": "on"}},
                {"host": "h1", "settings": {"ECN": "off"}}]}"#,
            "",
        ),
        (
            r#"{"hosts": [{"host": "h0", "settings": {"ECN": "on"}}, {"host": "h2", "settings": {"ECN": "on"}},
                {"host": "h3", "settings": {"ECN": "on"}}, {"host": "h1", "settings": {"ECN": "off"}}]}"#,
            "configuration-mismatch",
        ),
    ];
    for (evidence, class) in cases {
        let desk = desk(evidence)?;
        if class.is_empty() {
            desk.says_no(DIAGNOSE_COMMAND, "h1 is given twice, and not the same")?;
            continue;
        }
        let answer = desk.answer(DIAGNOSE_COMMAND)?;
        let host = serde_json::json!({ "host": "h1" });
        holds(found(&answer) == [(class, &host)], &answer.to_string())?;
    }
    Ok(())
}

fn unknown_hops() -> Result<(), Failed> {
    let probes =
        r#"{"probes": [{"path": ["h0", "leaf0", "*", "leaf1", "h2"], "sent": 100, "lost": 60}]}"#;
    let answer = desk(probes)?.answer(DIAGNOSE_COMMAND)?;
    let doubts = answer["doubts"].as_array().map_or(0, Vec::len);
    holds(
        found(&answer).is_empty() && doubts == 1,
        &answer.to_string(),
    )
}

fn contradictions() -> Result<(), Failed> {
    let cases = [
        (
            r#"{"traces": [{"from": "h0", "to": "h2", "hops_there": 4, "hops_back": 4},
                {"from": "h0", "to": "h2", "hops_there": 6, "hops_back": 4}]}"#,
            "the path of h0 to h2 is given twice, and not the same",
        ),
        (
            r#"{"probes": [{"path": ["h0", "leaf0"], "sent": 10, "lost": 11}]}"#,
            "more probes were lost than sent over h0>leaf0",
        ),
        (
            r#"{"flows": [{"path": ["h0", "h2"], "gbps": 1}]}"#,
            "h0 and h2 are not linked in the fabric",
        ),
        (
            r#"{"hosts": [{"host": "h1", "unsent": [{"to": "h3", "due": 2, "no_way": 3}]}]}"#,
            "the number not sent of probes to h3 cannot be 3",
        ),
        (r#"{"proves": []}"#, "proves"),
        ("[]", "invalid type: sequence, expected a map"),
        (
            r#"{"traces": [{"from": "h0", "to": "h0", "hops_there": 4, "hops_back": 4}]}"#,
            "the number of hops of h0 to h0 cannot be 4",
        ),
        (r#"{"hosts": "#, "evidence.json"),
    ];
    let refused =
        |(evidence, report): &(&str, &str)| desk(evidence)?.says_no(DIAGNOSE_COMMAND, report);
    cases.iter().try_for_each(refused)
}

/// What is said on the page of losses without a known place.
fn lost_somewhere() -> Result<(), Failed> {
    let probes = r#"{"probes": [{"path": ["h0", "leaf0", "spine0", "leaf1", "h2"], "sent": 100, "lost": 60}]}"#;
    let output = desk(probes)?.run(DIAGNOSE_COMMAND)?;
    let [page, said] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    let is_said = said == "60 of 100 probes were lost at an unknown place\n";
    holds(
        is_said && page.starts_with("no cause found"),
        &format!("{page}{said}"),
    )?;
    let bus = r#"{"hosts": [{"host": "h0", "pcie_gts": 8, "pcie_most_gts": 16}]}"#;
    let answer = desk(bus)?.answer(DIAGNOSE_COMMAND)?;
    let said = &answer["findings"][0]["evidence"][0];
    holds(
        *said == "its NIC runs at 8 GT/s and could at 16 GT/s",
        &answer.to_string(),
    )
}

fn unknown_job() -> Result<(), Failed> {
    let desk = desk("{}")?;
    let words = "explain train --evidence evidence.json --fabric fabric.toml";
    desk.says_no(words, "train")
}
