//! A healthy cluster raises no alarm for an hour.
//!
//! The agents' messages of an hour are recorded while two jobs start and stop, and replayed, once as recorded and once
//! with each node's messages of two seconds merged. The recording that is kept with the tests was made this way.

use std::time::{Duration, Instant};
use std::{env, fs};

use libtest_mimic::Trial;
use reweave_tests::{Leadership, STAGE_TIMEOUT, Stage, wait_for};

use crate::life::{Run, Stamper, live};
use crate::needs::trial;
use crate::play::{STAGE_NEEDS, must};
use crate::scene::{leaf_spine, led};
use crate::thin::thinned;

/// One job after the other, each with a pause after it.
const TURN_COUNT: u32 = 8;
const TRAINING_TIME: Duration = Duration::from_secs(250);
const EXCHANGE_TIME: Duration = Duration::from_secs(140);
const REST_TIME: Duration = Duration::from_secs(30);
/// The folder for a copy of the merged recording.
const KEEP_RECORDING_VARIABLE: &str = "REWEAVE_KEEP_RECORDING";

/// A ring around both racks, and traffic between racks.
const JOB_TABLES: &str = "[[job]]\nname = \"train\"\npattern = \"ring-allreduce\"\n\
    hosts = [\"h0\", \"h1\", \"h2\", \"h3\"]\nbytes = 4_000_000\n\
    compute_ms = 200\niterations = 1_000_000\npaths = \"spread\"\n\
    [[job]]\nname = \"exchange\"\npattern = \"streams\"\n\
    hosts = [\"h0\", \"h1\", \"h2\", \"h3\"]\npairs = [[0, 2], [1, 3], [2, 0], [3, 1]]\n\
    bytes = 2_000_000\ncompute_ms = 100\niterations = 1_000_000\npaths = \"spread\"\n";

pub(crate) fn tests() -> Vec<Trial> {
    // On a busy machine, a cluster is not clean: `make soak` runs this.
    let hour = trial("clean_hour_has_no_alarm", STAGE_NEEDS, clean);
    vec![hour.with_ignored_flag(true)]
}

fn clean() {
    let leadership = Leadership {
        record: Some("run.jsonl".to_owned()),
        ..Leadership::default()
    };
    let stage = led(&leaf_spine(2, 2, 2), JOB_TABLES, &leadership);
    for _ in 0..TURN_COUNT {
        works(&stage, "train", TRAINING_TIME);
        works(&stage, "exchange", EXCHANGE_TIME);
    }
    let text = fs::read_to_string(stage.path("run.jsonl")).expect("it was recorded");
    let thin = thinned(&text);
    if let Some(to) = env::var_os(KEEP_RECORDING_VARIABLE) {
        fs::write(to, &thin).expect("a file can be made there");
    }
    for text in [text, thin] {
        let run = Run::read(&text);
        let looks = live(&run, Stamper::AsRecorded);
        println!("{} inputs; {looks} looks", run.inputs.len());
        assert!(looks > 700);
    }
}

fn works(stage: &Stage, name: &str, long: Duration) {
    let job = must(stage.job(name));
    must(job.watch(long));
    must(job.stop());
    let since = Instant::now();
    must(wait_for("it has rested", REST_TIME + STAGE_TIMEOUT, || {
        Ok((since.elapsed() >= REST_TIME).then_some(()))
    }));
}
