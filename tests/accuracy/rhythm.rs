//! The beat of jobs, against what their ranks say of their iterations.

use std::collections::BTreeMap;
use std::process::Stdio;

use libtest_mimic::Trial;
use reweave_tests::{Progress, Stage};
use serde_json::Value;

use crate::needs::{Need, trial};
use crate::play::{must, once_right};
use crate::scene::lab;

pub(crate) fn tests() -> Vec<Trial> {
    let needs = &[Need::Lab];
    vec![
        trial("the_beat_of_a_ring_is_what_its_ranks_say", needs, || {
            is_right("ring-allreduce", "ring", &["h0", "h5"]);
        }),
        trial(
            "the_beat_of_an_all_to_all_is_what_its_ranks_say",
            needs,
            || {
                is_right("all-to-all", "all_to_all", &["h0", "h5"]);
            },
        ),
        // The first stage, one in the middle and the last.
        trial(
            "the_beat_of_a_pipeline_is_what_its_ranks_say",
            needs,
            || {
                is_right("pipeline", "pipeline", &["h0", "h1", "h5"]);
            },
        ),
    ]
}

fn is_right(pattern: &str, shape: &str, hosts: &[&str]) {
    let play = || beats(pattern, shape, hosts);
    once_right(play, |beats| beats.iter().all(Beat::is_right));
}

#[derive(Debug)]
#[allow(dead_code, reason = "it is shown")]
struct Beat {
    host: String,
    has_shape: bool,
    found_ms: f64,
    ranks_ms: f64,
    iterations: u64,
}

impl Beat {
    fn is_right(&self) -> bool {
        self.has_shape
            && self.iterations >= LEAST_ITERATIONS
            && (self.found_ms / self.ranks_ms - 1.0).abs() <= 0.02
    }
}

/// What the agents of these hosts find, and the mean of the same iterations.
fn beats(pattern: &str, shape: &str, hosts: &[&str]) -> Vec<Beat> {
    let stage = lab(FABRIC, &job(pattern));
    let mut job = must(stage.job("train"));
    must(job.wait_until("it runs", |progress| progress.iterations >= 2));
    let watching: Vec<_> = hosts.iter().map(|host| watch(&stage, host)).collect();
    let told = watching.into_iter().map(|child| {
        let output = child.wait_with_output().expect("the agent ends");
        serde_json::from_slice::<Value>(&output.stdout).expect("one JSON object")
    });
    let told: Vec<_> = told.collect();
    let took = took(&job.progress());
    let beat = |(host, told): (&&str, Value)| {
        let found = &told["rhythm"]["found"];
        let iterations = found["iterations"].as_u64().unwrap_or(0);
        let last: Vec<_> = took.values().rev().take(iterations as usize).collect();
        Beat {
            host: (*host).to_owned(),
            has_shape: found["shape"] == shape,
            found_ms: found["period_us"].as_f64().unwrap_or(0.0) / 1e3,
            ranks_ms: last.iter().copied().sum::<f64>() / last.len() as f64,
            iterations,
        }
    };
    hosts.iter().zip(told).map(beat).collect()
}

const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
                      host_gbps = 0.4\nuplink_gbps = 0.4\n";

/// Iterations of about a third of a second.
fn job(pattern: &str) -> String {
    let (bytes, compute_ms, more) = match pattern {
        "pipeline" => (1_000_000, 20, "microbatches = 4\n"),
        _ => (6_000_000, 150, ""),
    };
    format!(
        "[[job]]\nname = \"train\"\npattern = \"{pattern}\"\nhosts = [\"h0\", \"h1\", \"h4\", \"h5\"]\n\
         bytes = {bytes}\ncompute_ms = {compute_ms}\niterations = 100000\n{more}"
    )
}

/// Long enough for 60 iterations.
const WATCHED_MS: &str = "24000";
const LEAST_ITERATIONS: u64 = 50;

fn watch(stage: &Stage, host: &str) -> std::process::Child {
    let mut command = stage.inside(host, stage.programs().agent());
    command.args(["rhythm", "--over-ms", WATCHED_MS, "--output", "json"]);
    command
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent starts")
}

/// How long each iteration took, by its number.
fn took(progress: &[Progress]) -> BTreeMap<usize, f64> {
    let told = progress.iter();
    told.filter_map(|it| Some((it.iterations, it.iteration_ms?)))
        .collect()
}
