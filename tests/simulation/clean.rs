//! An hour of a clean cluster raises no alarm. What its agents said was recorded in the lab, with real
//! traffic of a job that came and went:
//!
//!     REWEAVE_KEEP_RECORDING=run.jsonl cargo test --test switched -- --ignored an_hour
//!     gzip -9 < run.jsonl > tests/recorded/clean.jsonl.gz

use std::process::Command;

use crate::life::{AN_HOUR, Run, Stamper, live};

fn recorded() -> Run {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/recorded/clean.jsonl.gz");
    let output = Command::new("gzip").args(["-dc", file]).output();
    let text = String::from_utf8(output.expect("gzip can be run").stdout);
    let run = Run::read(&text.expect("a recording is text"));
    assert!(run.inputs.len() > 1000, "{} inputs", run.inputs.len());
    run
}

#[test]
fn a_recorded_hour_of_a_clean_cluster_has_no_alarm() {
    assert!(live(&recorded(), AN_HOUR, Stamper::AsRecorded) > 500);
}

/// Queues, clocks that wander and long tails are no change of a link.
#[test]
fn probes_that_cards_stamp_raise_no_alarm_on_a_clean_cluster() {
    assert!(live(&recorded(), AN_HOUR / 4, Stamper::Cards) > 125);
}
