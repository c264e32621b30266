//! The beat of jobs, against what their ranks say of their iterations.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::process::{Child, Stdio};

use libtest_mimic::Trial;
use reweave_tests::{Progress, Stage};
use serde_json::Value;

use crate::flows::start_at_random;
use crate::needs::{Need, trial};
use crate::play::must;
use crate::scene::{host, lab};

pub(crate) fn tests() -> Vec<Trial> {
    let needs = &[Need::Lab];
    vec![
        trial("ring_period_matches_its_ranks", needs, || {
            is_right("ring-allreduce", "ring", &["h0", "h5"]);
        }),
        trial("all_to_all_period_matches_ranks", needs, || {
            is_right("all-to-all", "all_to_all", &["h0", "h5"]);
        }),
        // The first stage, one in the middle and the last.
        trial("pipeline_period_matches_its_ranks", needs, || {
            is_right("pipeline", "pipeline", &["h0", "h1", "h5"]);
        }),
        trial("random_traffic_has_no_period", needs, || {
            for mean_pause_ms in [80, 400] {
                random_has_none(mean_pause_ms);
            }
        }),
    ]
}

/// Both hosts send bursts, each without a rhythm and without knowing of the other's.
fn random_has_none(mean_pause_ms: u64) {
    let stage = lab(FABRIC, "");
    let ends = [0, 5].map(|number| SocketAddrV4::new(host(number), 9));
    let [near, far] = ends;
    let over_ms = WATCH_TIME_MS.parse::<u64>().expect("a number") + 5_000;
    let sending = [("h0", [near, far]), ("h5", [far, near])];
    let sending = sending.map(|(node, ends)| {
        let seed = mean_pause_ms + u64::from(ends[0].ip().octets()[3]);
        start_at_random(&stage, node, ends, [seed, mean_pause_ms, over_ms])
    });
    for report in heard(["h0", "h5"].map(|node| watch(&stage, node))) {
        println!("pauses of {mean_pause_ms} ms on average: {report}");
        assert!(report["rhythm"]["none"].is_object(), "{report}");
    }
    for mut child in sending {
        let ended = child.wait().expect("it ends");
        assert!(ended.success(), "it sent until the end");
    }
}

/// What they say at the end.
fn heard(watching: impl IntoIterator<Item = Child>) -> Vec<Value> {
    let reports = watching.into_iter().map(|child| {
        let output = child.wait_with_output().expect("the agent ends");
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    });
    reports.collect()
}

/// Plays again where the machine was busy with other things, as the ranks' own record shows.
fn is_right(pattern: &str, shape: &str, hosts: &[&str]) {
    for _ in 0..MAX_PLAYS {
        let play = play(pattern, shape, hosts);
        eprintln!("{play:?}");
        if play.beats.iter().all(FoundPeriod::is_right) {
            return;
        }
        assert!(play.uneven > MAX_ITERATION_SPREAD, "{play:#?}");
    }
    panic!("this machine is too busy with other things to hear a beat by");
}

const MAX_PLAYS: usize = 8;
/// So even are iterations on a machine that is busy with nothing else.
const MAX_ITERATION_SPREAD: f64 = 0.04;

#[derive(Debug)]
struct Play {
    beats: Vec<FoundPeriod>,
    /// By how much the slowest ranks of all iterations took longer together than any one rank: where each
    /// takes the same, not at all.
    uneven: f64,
}

#[derive(Debug)]
#[allow(dead_code, reason = "it is shown")]
struct FoundPeriod {
    host: String,
    has_shape: bool,
    found_ms: f64,
    ranks_ms: f64,
    iterations: u64,
}

impl FoundPeriod {
    fn is_right(&self) -> bool {
        self.has_shape
            && self.iterations >= MIN_ITERATIONS
            && (self.found_ms / self.ranks_ms - 1.0).abs() <= 0.02
    }
}

/// What the agents of these hosts find, and the mean of the same iterations.
fn play(pattern: &str, shape: &str, hosts: &[&str]) -> Play {
    let stage = lab(FABRIC, &job(pattern));
    let job = must(stage.job("train"));
    must(job.wait_until("it runs", |progress| progress.iterations >= 2));
    let watching: Vec<_> = hosts.iter().map(|host| watch(&stage, host)).collect();
    let report = heard(watching);
    let record = Record::of(&job.progress());
    let beat = |(host, report): (&&str, Value)| {
        let found = &report["rhythm"]["found"];
        let iterations = found["iterations"].as_u64().unwrap_or(0);
        FoundPeriod {
            host: (*host).to_owned(),
            has_shape: found["shape"] == shape,
            found_ms: found["period_us"].as_f64().unwrap_or(0.0) / 1e3,
            ranks_ms: record.mean_ms(iterations as usize),
            iterations,
        }
    };
    Play {
        beats: hosts.iter().zip(report).map(beat).collect(),
        uneven: record.uneven(),
    }
}

const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
                      host_gbps = 0.2\nuplink_gbps = 0.2\n";

/// Iterations of about a third of a second.
fn job(pattern: &str) -> String {
    let (bytes, compute_ms, more) = match pattern {
        "pipeline" => (500_000, 20, "microbatches = 4\n"),
        _ => (3_000_000, 150, ""),
    };
    format!(
        "[[job]]\nname = \"train\"\npattern = \"{pattern}\"\nhosts = [\"h0\", \"h1\", \"h4\", \"h5\"]\n\
         bytes = {bytes}\ncompute_ms = {compute_ms}\niterations = 100000\n{more}"
    )
}

/// Long enough for 60 iterations.
const WATCH_TIME_MS: &str = "24000";
const MIN_ITERATIONS: u64 = 50;

fn watch(stage: &Stage, host: &str) -> Child {
    let mut command = stage.inside(host, stage.programs().agent());
    command.args(["rhythm", "--over-ms", WATCH_TIME_MS, "--output", "json"]);
    command
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent starts")
}

/// By their number: how long iterations took up to this one, and what the slowest rank took for it.
struct Record(BTreeMap<usize, [f64; 2]>);

impl Record {
    fn of(progress: &[Progress]) -> Self {
        let reports = progress.iter();
        let reports =
            reports.filter_map(|it| Some((it.iterations, [it.iterations_ms, it.iteration_ms?])));
        Self(reports.collect())
    }

    /// Of the last this many.
    fn mean_ms(&self, iterations: usize) -> f64 {
        let Some((&last, [end_ms, _])) = self.0.last_key_value() else {
            return f64::NAN;
        };
        let before = self.0.range(..=last.saturating_sub(iterations));
        let (&first, [begin_ms, _]) = before.last().unwrap_or((&0, &[0.0; 2]));
        (end_ms - begin_ms) / (last - first) as f64
    }

    fn uneven(&self) -> f64 {
        let slowest: f64 = self.0.values().map(|[_, slowest_ms]| slowest_ms).sum();
        slowest / self.0.len() as f64 / self.mean_ms(usize::MAX) - 1.0
    }
}
