//! Flows that collide.

use libtest_mimic::Trial;
use reweave_common::cause::Class;
use reweave_common::finding::Imbalance;
use reweave_common::operator::{Explanation, Outcome, Phase};
use reweave_tests::{Job, Leadership, Progress, STAGE_TIMEOUT, Stage, wait_for};

use crate::hashed::deviation_percent;
use crate::needs::trial;
use crate::play::{STAGE_NEEDS, WATCH_TIME, begun, ended, must, planned, slowest_in, slowest_over};
use crate::scene::{leaf_spine, led, sent_bytes};
use crate::timed::timed_value;

/// From the pins to the higher rate.
const MAX_REPAIR_MS: f64 = 1000.0;
/// The lab reports rates over this time, which the victim has then spent at that rate.
const RATE_WINDOW_MS: f64 = 500.0;
const MIN_GAIN: f64 = 1.9;
/// Flows of equal links hardly ever have equal rates, so an even spread may be off by this.
const MAX_EVEN_PERCENT: f64 = 5.0;
/// The imbalance of two flows on one of four links and one flow on each of two others.
const EXPECTED_UNEVEN_PERCENT: f64 = 50.0;
const SPINES: [&str; 4] = ["spine0", "spine1", "spine2", "spine3"];

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "timed_colliding_flows_are_separated",
        STAGE_NEEDS,
        || {
            timed_value("eight flows with a collision", parted, |figures| {
                let in_time = figures.took_ms.is_some_and(|ms| ms <= MAX_REPAIR_MS);
                in_time && figures.gain >= MIN_GAIN && figures.left_percent <= MAX_EVEN_PERCENT
            });
        },
    )]
}

/// With messages this large, ranks hardly wait for each other while rates are read.
const LARGE_MESSAGE_BYTES: u64 = 20_000_000;

/// Streams of this many bytes between hosts, past one spine or as the hash decides.
fn streams(name: &str, bytes: u64, hosts: &str, pairs: &str, paths: &str) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\npattern = \"streams\"\nhosts = [{hosts}]\npairs = [{pairs}]\n\
         bytes = {bytes}\ncompute_ms = 5\niterations = 1_000_000\n{paths}\n"
    )
}

#[derive(Debug)]
struct Figures {
    /// The time from the pins until the victim reached the rate; none if it never did.
    took_ms: Option<f64>,
    /// Of the victim's rate, as a part of that of a lone flow.
    gain: f64,
    left_percent: f64,
}

/// Background flows between hosts, past a spine.
const BACKGROUND_FLOWS: [(&str, &str, u32); 6] = [
    ("h2", "h6", 2),
    ("h3", "h7", 3),
    ("h4", "h0", 0),
    ("h5", "h1", 1),
    ("h6", "h2", 2),
    ("h7", "h3", 3),
];

/// Two flows meet on the first spine; two more go up there, and four come down, each past a spine of its own.
fn colliding() -> String {
    let via = |spine: u32| format!("via = \"spine{spine}\"");
    let hosts = r#""h0", "h1", "h4", "h5""#;
    let train = streams(
        "train",
        LARGE_MESSAGE_BYTES,
        hosts,
        "[0, 2], [1, 3]",
        &via(0),
    );
    let others = BACKGROUND_FLOWS.map(|(from, to, spine)| {
        let hosts = format!("\"{from}\", \"{to}\"");
        streams(from, LARGE_MESSAGE_BYTES, &hosts, "[0, 1]", &via(spine))
    });
    train + &others.concat()
}

fn parted() -> Figures {
    let stage = led(&leaf_spine(2, 4, 4), &colliding(), &Leadership::default());
    let others = BACKGROUND_FLOWS.map(|(from, ..)| must(stage.job(from)));
    let mut job = must(stage.job("train"));
    must(job.wait_until("it sends", |progress| {
        progress.iterations >= 2 && progress.slowest_mbps() > 30.0
    }));
    let lone = &others[0];
    let (before, uneven_percent) = counted(&stage, || Compared::watch(&mut job, lone));
    assert!(
        (uneven_percent - EXPECTED_UNEVEN_PERCENT).abs() < MAX_EVEN_PERCENT,
        "{uneven_percent}"
    );
    is_explained(&stage);
    planned(&stage);
    let count = job.progress().len();
    begun(&stage);
    let pinned_ms = last_before_pins(&stage, &job);
    let fast = |progress: &Progress| progress.slowest_mbps() >= MIN_GAIN * before.victim_mbps;
    let _ = job.wait_until("the victim is fast", fast);
    let since = job.progress().split_off(count);
    let took_ms = since
        .iter()
        .find(|it| fast(it))
        .map(|it| it.at_ms - RATE_WINDOW_MS - pinned_ms);
    let record = ended(&stage);
    if record.outcome != Outcome::Committed {
        println!("{record:#?}");
        // On a busy machine, flows that stay become slower too, and the plan is rolled back.
        return Figures {
            took_ms: None,
            gain: 0.0,
            left_percent: uneven_percent,
        };
    }
    let (after, left_percent) = counted(&stage, || Compared::watch(&mut job, lone));
    println!(
        "{uneven_percent:.1} % uneven by counters, then {left_percent:.1}; {:?}; {before:.1?}, then \
         {after:.1?}",
        spread(&stage)
    );
    for job in others.into_iter().chain([job]) {
        let report = must(job.stop());
        assert!(report.kept_all_sessions(), "{report:#?}");
    }
    Figures {
        took_ms,
        gain: after.fraction() / before.fraction(),
        left_percent,
    }
}

/// What slows the machine slows both.
#[derive(Debug, Clone, Copy)]
struct Compared {
    victim_mbps: f64,
    /// Of a flow that shares no link.
    lone_mbps: f64,
}

impl Compared {
    fn watch(victim: &mut Job, lone: &Job) -> Self {
        let count = lone.progress().len();
        Self {
            victim_mbps: slowest_over(victim, WATCH_TIME),
            lone_mbps: slowest_in(&lone.progress()[count..]),
        }
    }

    fn fraction(self) -> f64 {
        self.victim_mbps / self.lone_mbps
    }
}

/// The imbalance of the uplinks of the first leaf by the counters of their ports, while `look` runs.
fn counted<T>(stage: &Stage, look: impl FnOnce() -> T) -> (T, f64) {
    let sent = || SPINES.map(|spine| sent_bytes(stage, "leaf0", spine) as f64);
    let (before, seen, after) = (sent(), look(), sent());
    let grown: [f64; SPINES.len()] = std::array::from_fn(|nth| after[nth] - before[nth]);
    (seen, deviation_percent(&grown))
}

/// `reweave explain` leads from the job's hosts to a link where its flows meet.
fn is_explained(stage: &Stage) {
    let operator = stage.operator();
    let words = ["explain", "train", "--hosts", "h0,h1,h4,h5"];
    let explanation = must(wait_for("the job is explained", STAGE_TIMEOUT, || {
        let explanation: Explanation = operator.ask(&words)?;
        let class = explanation.cause.as_ref().map(|cause| cause.class);
        Ok((class == Some(Class::EcmpCollision)).then_some(explanation))
    }));
    println!("{explanation:#?}");
    assert_eq!(explanation.path[1..4], ["leaf0", "spine0", "leaf1"]);
    let link = explanation
        .link
        .map(|link| link.to_string())
        .unwrap_or_default();
    assert!(["leaf0-spine0 from leaf0", "leaf1-spine0 from spine0"].contains(&&*link));
    let by_host: Explanation = must(operator.ask(&["explain", "h1"]));
    assert_eq!(by_host.job, "h1 and h5");
}

/// The job's clock when the coordinator still showed no pins.
fn last_before_pins(stage: &Stage, job: &Job) -> f64 {
    let now = || job.latest().map_or(0.0, |progress| progress.at_ms);
    let mut before = now();
    must(wait_for("the pins have come", STAGE_TIMEOUT, || {
        let asked = now();
        let changes = stage.operator().status()?.changes;
        let is_on = |phase| matches!(phase, Phase::Approved | Phase::Applying);
        let is_open = changes.iter().any(|it| is_on(it.phase));
        if is_open {
            before = asked;
        }
        Ok((!is_open).then_some(()))
    }));
    before
}

/// The worst imbalance, once flows are spread as evenly as possible.
fn spread(stage: &Stage) -> Imbalance {
    must(wait_for("flows are spread evenly", STAGE_TIMEOUT, || {
        let worst = stage.operator().status()?.flow_imbalance.map(|it| it.worst);
        Ok(worst.filter(|worst| worst.fim_percent <= worst.floor_percent))
    }))
}
