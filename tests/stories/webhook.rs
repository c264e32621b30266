//! Programs that are notified of what happens: signed, in order, and again when one was not there; and as a trace.

use std::fs;
use std::path::Path;

use libtest_mimic::Trial;
use reweave_tests::{Labs, Leadership, Program, STAGE_TIMEOUT, Setting, Stage, wait_for};
use serde_json::Value;

use crate::collector::Collector;
use crate::needs::{Need, trial};
use crate::play::{collide, ended, must};

const RECEIVER_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/stories/receiver.py");
const RECEIVER_PORT: &str = "8090";
const RECEIVED_LINES_FILE: &str = "received.jsonl";

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "webhook_reports_collision_and_repair",
        &[Need::Lab, Need::Program("python3")],
        hook_is_called,
    )]
}

fn hook_is_called() {
    let mut stage = must(Stage::up(Setting::DEMO_SETTING, Labs::Hidden));
    let secret = must(stage.write("secret", "a secret that only both know\n"));
    let _receiver = receive(&stage, &secret);
    let collector = Collector::start(&stage);
    let hook = |of| {
        format!(
            "[[webhook]]\nurl = \"http://127.0.0.1:{RECEIVER_PORT}/\"\nsecret_file = \"secret\"\nof = {of}\n"
        )
    };
    must(stage.lead(&Leadership {
        auto: true,
        tables: hook(r#"["finding", "change"]"#),
        head: Collector::TRACES_SETTING.to_owned(),
        ..Leadership::without_rate_rollback()
    }));
    must(stage.start_agents());
    must(stage.wait_until_known());
    let job = collide(&stage);
    let record = ended(&stage);
    let lines = must(wait_for(
        "the collision's end is reported",
        STAGE_TIMEOUT,
        || {
            let lines = lines(&stage);
            Ok(lines
                .iter()
                .any(|line| line["event"] == "finding.ended")
                .then_some(lines))
        },
    ));
    must(job.stop());
    assert!(
        lines.iter().all(|line| line["is_signed"] == true),
        "{lines:#?}"
    );
    let again = |line: &&Value| line["is_again"] == true;
    assert_eq!(lines.iter().filter(again).count(), 1, "{lines:#?}");
    assert_eq!(
        lines[0]["body"], lines[1]["body"],
        "what was refused comes again"
    );
    let of = |event: &str| {
        let reports = lines.iter().find(|line| line["event"] == event);
        reports.unwrap_or_else(|| panic!("nothing of {event}: {lines:#?}"))["body"].clone()
    };
    let began = of("finding.began");
    assert!(began["finding"]["ecmp-collision"].is_object(), "{began:#}");
    assert_eq!(of("finding.ended")["event"], "finding.ended");
    let generation = record.plan.generation.0;
    assert_eq!(of("change.began")["change"]["generation"], generation);
    assert_eq!(of("change.ended")["record"]["outcome"], "committed");
    assert_eq!(
        of("change.ended")["record"]["plan"]["generation"],
        generation
    );
    is_traced(&collector);
    is_counted(&stage);
}

fn is_traced(collector: &Collector) {
    let trace = collector.trace("the trace of what was kept", |it| it.failed().is_none());
    let outline = trace.outline();
    let stages = outline.iter().filter(|line| !line.starts_with("step "));
    let expected = [
        "rollout < -",
        "plan < rollout",
        "approval < rollout",
        "round 1 < rollout",
        "confirm 1 < rollout",
        "verify < rollout",
    ];
    assert_eq!(stages.collect::<Vec<_>>(), expected, "{outline:?}");
    assert!(trace.has("step leaf0", "round 1"), "{outline:?}");
}

/// As the metrics say, which are asked for where the coordinator is.
fn is_counted(stage: &Stage) {
    let fetch = "import urllib.request as it; print(it.urlopen('http://127.0.0.1:7334/metrics').read().decode())";
    let served = must(stage.output(Stage::STATION_NAME, &["python3", "-c", fetch]));
    let has = |line: &str| served.lines().any(|it| it == line);
    assert!(
        has("reweave_plans_total{outcome=\"committed\"} 1"),
        "{served}"
    );
    let hook = "reweave_webhook_deliveries_total{hook=\"1\",host=\"127.0.0.1\",outcome=";
    let lost = format!("{hook}\"failed\"}} 0");
    assert!(
        has(&lost) && !has(&format!("{hook}\"taken\"}} 0")),
        "{served}"
    );
}

fn receive(stage: &Stage, secret: &Path) -> Program {
    let mut command = stage.inside(Stage::STATION_NAME, "python3");
    command.arg(RECEIVER_PATH).args([RECEIVER_PORT]).arg(secret);
    command.arg(stage.path(RECEIVED_LINES_FILE));
    must(stage.start("receiver", command))
}

fn lines(stage: &Stage) -> Vec<Value> {
    let text = fs::read_to_string(stage.path(RECEIVED_LINES_FILE)).unwrap_or_default();
    // The last may be half written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().map(serde_json::from_str);
    lines.map(|line| line.expect("it writes JSON")).collect()
}
