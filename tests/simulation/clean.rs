//! An hour of a clean cluster raises no alarm. What its agents said in that hour was recorded in the lab,
//! with real traffic of two jobs that came and went, and is kept with two seconds of each node together:
//!
//!     REWEAVE_KEEP_RECORDING=run.jsonl cargo test --test switched -- --ignored clean_hour
//!     xz -9 < run.jsonl > tests/recorded/clean.jsonl.xz

use std::process::Command;

use crate::life::{Run, Stamper, live};

fn recorded() -> Run {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/recorded/clean.jsonl.xz");
    let output = Command::new("xz").args(["-dc", file]).output();
    let text = String::from_utf8(output.expect("xz can be run").stdout);
    Run::read(&text.expect("a recording is text"))
}

#[test]
fn recorded_clean_hour_has_no_alarm() {
    assert!(live(&recorded(), Stamper::AsRecorded) > 700);
}

/// Queues, clocks that wander and long tails are no change of a link.
#[test]
fn hardware_stamped_probes_raise_no_alarm() {
    assert!(live(&recorded(), Stamper::Cards) > 700);
}
