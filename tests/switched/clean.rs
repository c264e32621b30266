//! A cluster that nothing is wrong with: no alarm in an hour of it.
//!
//! What agents say is recorded for some minutes, while a job comes and goes; then an hour is lived
//! through by it. The hour that is kept beside the tests was recorded here.

use std::time::Duration;
use std::{env, fs};

use libtest_mimic::Trial;
use reweave_tests::Leadership;

use crate::life::{AN_HOUR, Run, Stamper, live};
use crate::needs::trial;
use crate::play::{STAGE, must};
use crate::scene::{leaf_spine, led};

const RECORDED: Duration = Duration::from_secs(120);
/// Where a copy of the recording is wanted.
const KEEP: &str = "REWEAVE_KEEP_RECORDING";

/// A ring around both racks.
const JOB: &str = "[[job]]\nname = \"train\"\npattern = \"ring-allreduce\"\n\
    hosts = [\"h0\", \"h1\", \"h2\", \"h3\"]\nbytes = 4_000_000\n\
    compute_ms = 200\niterations = 1_000_000\npaths = \"spread\"\n";

pub(crate) fn tests() -> Vec<Trial> {
    // On a machine that is busy with other things, a cluster is not clean: `make soak` asks for it.
    let hour = trial("an_hour_of_a_clean_cluster_has_no_alarm", STAGE, clean);
    vec![hour.with_ignored_flag(true)]
}

fn clean() {
    let leadership = Leadership {
        record: Some("run.jsonl".to_owned()),
        ..Leadership::default()
    };
    let stage = led(&leaf_spine(2, 2, 2), JOB, &leadership);
    for _ in 0..2 {
        let mut job = must(stage.job("train"));
        must(job.watch(RECORDED / 2));
        must(job.stop());
    }
    let recording = stage.path("run.jsonl");
    if let Some(to) = env::var_os(KEEP) {
        fs::copy(&recording, to).expect("a file can be made there");
    }
    let text = fs::read_to_string(recording).expect("it was recorded");
    let run = Run::read(&text);
    let looks = live(&run, AN_HOUR, Stamper::AsRecorded);
    println!("{} inputs; {looks} looks", run.inputs.len());
    assert!(looks > 500);
}
