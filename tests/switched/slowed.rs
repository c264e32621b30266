//! The latency of a link grows in one direction, with its rate and loss unchanged.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use reweave_common::cause::{Cause, Class};
use reweave_tests::{Leadership, Program, STAGE_TIMEOUT, Stage, wait_for};

use crate::needs::{Need, trial};
use crate::play::{causes, must};
use crate::scene::{leaf_spine, led};

const NEEDS: &[Need] = &[Need::Lab, Need::Program("python3")];
const SLOW_PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/switched/slow.py");
/// Baselines take three rounds of five seconds for a flow, and sixteen for a link.
const LEARNING_TIME: Duration = Duration::from_secs(150);
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(180);
const ADDED_DELAY_MS: &str = "5";

pub(crate) fn tests() -> Vec<Trial> {
    // Baselines take minutes to learn: `make soak` runs this.
    let name = "slower_link_direction_is_named_alone";
    vec![trial(name, NEEDS, one_way).with_ignored_flag(true)]
}

/// Delays what a node sends to the next one from now on.
fn slow_down(stage: &Stage, [from, to]: [&str; 2]) -> Program {
    let mut slow = stage.inside(from, "python3");
    slow.args([SLOW_PROGRAM, &stage.port(from, to), ADDED_DELAY_MS]);
    must(stage.start("slow", slow))
}

/// With fewer than four leaves, the same probes would cross both links of a spine.
fn one_way() {
    let stage = led(&leaf_spine(4, 2, 2), "", &Leadership::default());
    let since = Instant::now();
    must(wait_for(
        "it has learned",
        LEARNING_TIME + STAGE_TIMEOUT,
        || Ok((since.elapsed() >= LEARNING_TIME).then_some(())),
    ));
    assert_eq!(causes(&stage), []);
    let _slow = slow_down(&stage, ["leaf2", "spine1"]);
    let began = Instant::now();
    let found = must(wait_for("something is found", DIAGNOSIS_TIMEOUT, || {
        Ok(Some(causes(&stage)).filter(|all| !all.is_empty()))
    }));
    let reports = found.iter().map(Cause::to_string).collect::<Vec<_>>();
    println!(
        "after {:.0} s: {}",
        began.elapsed().as_secs_f64(),
        reports.join("; and ")
    );
    let named = found.iter().map(|it| (it.class, it.subject.to_string()));
    let expected = (Class::Latency, "leaf2-spine1 from leaf2".to_owned());
    assert_eq!(named.collect::<Vec<_>>(), [expected]);
}
