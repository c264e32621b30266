//! A cluster that nothing is wrong with: no alarm in an hour of it.
//!
//! What agents say is recorded for some minutes, while a job comes and goes; then it is lived through
//! again and again, each time from where the clock stands, until an hour is over.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::member::{Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{Finding, Request, Response};
use reweave_core::{Core, Effect, Input, Policy, Recorded};
use reweave_tests::{Leadership, Stage};
use serde_json::Value;

use crate::needs::trial;
use crate::play::{STAGE, must};
use crate::scene::{leaf_spine, led};

const RECORDED: Duration = Duration::from_secs(120);
const AN_HOUR: Duration = Duration::from_secs(3600);
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A ring around both racks.
const JOB: &str = "[[job]]\nname = \"train\"\npattern = \"ring-allreduce\"\n\
    hosts = [\"h0\", \"h1\", \"h2\", \"h3\", \"h4\", \"h5\", \"h6\", \"h7\"]\nbytes = 4_000_000\n\
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
    let stage = led(&leaf_spine(2, 2, 4), JOB, &leadership);
    let mut job = must(stage.job("train"));
    must(job.watch(RECORDED / 2));
    must(job.stop());
    let mut job = must(stage.job("train"));
    must(job.watch(RECORDED / 2));
    must(job.stop());
    let inputs = recorded(&stage);
    let mut life = Life::new(&stage);
    let mut rounds = 0;
    while life.lived < AN_HOUR {
        life.live(&inputs);
        rounds += 1;
    }
    println!(
        "{} inputs, {rounds} times; {} looks",
        inputs.len(),
        life.looks
    );
    assert!(life.looks > 500);
}

/// What is being written just now counts no more.
fn recorded(stage: &Stage) -> Vec<Recorded> {
    let text = fs::read_to_string(stage.path("run.jsonl")).expect("it was recorded");
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let inputs = lines.filter_map(|line| serde_json::from_value(line.get("input")?.clone()).ok());
    let inputs: Vec<Recorded> = inputs.collect();
    let asks = |it: &Recorded| matches!(it.input, Input::Operator { .. });
    inputs.into_iter().filter(|it| !asks(it)).collect()
}

struct Life {
    core: Core,
    now: Moment,
    lived: Duration,
    looked: Moment,
    looks: usize,
}

impl Life {
    fn new(stage: &Stage) -> Self {
        Self {
            core: Core::new(Policy::default(), Arc::new(stage.fabric().clone())),
            now: Moment::default(),
            lived: Duration::ZERO,
            looked: Moment::default(),
            looks: 0,
        }
    }

    /// All inputs once more, from now on.
    fn live(&mut self, inputs: &[Recorded]) {
        let (began, first) = (self.now, inputs[0].at);
        for Recorded { at, input } in inputs {
            self.now = began + at.since(first);
            self.hand_in(input.clone());
            if self.now.since(self.looked) >= LOOK_EVERY {
                self.look();
            }
        }
        self.lived += self.now.since(began);
    }

    fn hand_in(&mut self, input: Input) -> Vec<Response> {
        self.core.handle(self.now, input);
        let mut said = Vec::new();
        while let Some(effect) = self.core.poll_effect() {
            match effect {
                Effect::Append(command) => self.core.apply(command),
                Effect::Reply { response, .. } => said.push(response),
                _ => {}
            }
        }
        said
    }

    fn look(&mut self) {
        self.looked = self.now;
        self.looks += 1;
        let said = self.hand_in(Input::Operator {
            id: 1,
            principal: Member::new(Role::Operator, "ada"),
            request: Request::Diagnose,
        });
        for response in said {
            let Response::Findings(found) = response else {
                panic!("{response:?}")
            };
            let alarm = found
                .findings
                .iter()
                .find(|it| matches!(it, Finding::Cause(_)));
            assert_eq!(alarm, None, "after {:?}", self.now);
        }
    }
}
