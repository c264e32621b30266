//! Flows that collide, and how unevenly flows are spread.

use std::collections::BTreeMap;
use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::cause::Class;
use reweave_common::finding::Imbalance;
use reweave_common::operator::{Explanation, Outcome, Phase};
use reweave_planner::fim::{Load, imbalance};
use reweave_tests::{Job, Leadership, PATIENCE, Progress, Stage, wait_for};

use crate::needs::trial;
use crate::play::{LOOK, STAGE, ended, must, once_right, planned, slowest_over};
use crate::scene::{leaf_spine, led};

/// From the pins on.
const PARTED_WITHIN_MS: f64 = 1000.0;
/// The lab tells rates over so long: of the time in which the victim was that fast already.
const TOLD_OVER_MS: f64 = 500.0;
const LEAST_GAIN: f64 = 1.9;
/// How far the live figure may be from what the counters of links say.
const MOST_APART: f64 = 0.1;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "eight_flows_with_a_collision_are_parted_within_a_second",
            STAGE,
            || {
                once_right(parted, |figures| {
                    let in_time = figures.took_ms.is_some_and(|ms| ms <= PARTED_WITHIN_MS);
                    in_time && figures.gain >= LEAST_GAIN
                });
            },
        ),
        trial(
            "live_flow_imbalance_is_what_the_counters_of_links_say",
            STAGE,
            counted,
        ),
    ]
}

/// So much that ranks hardly wait for each other while rates are looked at.
const LONG: u64 = 20_000_000;
const SHORT: u64 = 4_000_000;

/// Streams of so many bytes from host to host, past one spine or as hashes have it.
fn streams(name: &str, bytes: u64, hosts: &str, pairs: &str, paths: &str) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\npattern = \"streams\"\nhosts = [{hosts}]\npairs = [{pairs}]\n\
         bytes = {bytes}\ncompute_ms = 5\niterations = 1_000_000\n{paths}\n"
    )
}

#[derive(Debug)]
struct Figures {
    /// From the pins on, until it began that the victim had so much more; nothing if it never had.
    took_ms: Option<f64>,
    gain: f64,
}

/// Two flows meet on the first spine; two more go up there, and four come down the other way, each
/// past a spine of its own.
fn parted() -> Figures {
    let via = |spine: u32| format!("via = \"spine{spine}\"");
    let mut jobs = streams(
        "train",
        LONG,
        r#""h0", "h1", "h4", "h5""#,
        "[0, 2], [1, 3]",
        &via(0),
    );
    let others = [
        ("h2", "h6", 2),
        ("h3", "h7", 3),
        ("h4", "h0", 0),
        ("h5", "h1", 1),
        ("h6", "h2", 2),
        ("h7", "h3", 3),
    ];
    for (from, to, spine) in others {
        jobs += &streams(
            from,
            LONG,
            &format!("\"{from}\", \"{to}\""),
            "[0, 1]",
            &via(spine),
        );
    }
    let stage = led(&leaf_spine(2, 4, 4), &jobs, &Leadership::default());
    let others: Vec<_> = others
        .iter()
        .map(|(from, ..)| must(stage.job(from)))
        .collect();
    let mut job = must(stage.job("train"));
    must(job.wait_until("it sends", |progress| {
        progress.iterations >= 2 && progress.slowest_mbps() > 30.0
    }));
    let before = slowest_over(&mut job, LOOK);
    is_explained(&stage);
    let plan = planned(&stage);
    let told = job.progress().len();
    assert_eq!(must(stage.operator().begin(&plan)).code, Some(0));
    let pinned_ms = last_before_pins(&stage, &job);
    let fast = |progress: &Progress| progress.slowest_mbps() >= LEAST_GAIN * before;
    let _ = job.wait_until("the victim is fast", fast);
    let since = job.progress().split_off(told);
    let took_ms = since
        .iter()
        .find(|it| fast(it))
        .map(|it| it.at_ms - TOLD_OVER_MS - pinned_ms);
    if ended(&stage).outcome != Outcome::Committed {
        // On a machine that is busy, flows that stay become slower meanwhile, and it is taken back.
        return Figures {
            took_ms: None,
            gain: 0.0,
        };
    }
    let gain = slowest_over(&mut job, LOOK) / before;
    let after = live(&stage);
    println!("{after:?}");
    assert_eq!(after.fim_percent, after.floor_percent);
    for job in others.into_iter().chain([job]) {
        let report = must(job.stop());
        assert!(report.kept_all_sessions(), "{report:#?}");
    }
    Figures { took_ms, gain }
}

/// From the job to a link where its flows meet, by its hosts alone.
fn is_explained(stage: &Stage) {
    let operator = stage.operator();
    let words = ["explain", "train", "--hosts", "h0,h1,h4,h5"];
    let told = must(wait_for("the job is explained", PATIENCE, || {
        let told: Explanation = operator.ask(&words)?;
        let class = told.cause.as_ref().map(|cause| cause.class);
        Ok((class == Some(Class::EcmpCollision)).then_some(told))
    }));
    println!("{told:#?}");
    assert_eq!(told.path[1..4], ["leaf0", "spine0", "leaf1"]);
    let link = told.link.map(|link| link.to_string()).unwrap_or_default();
    assert!(["leaf0-spine0 from leaf0", "leaf1-spine0 from spine0"].contains(&&*link));
    let by_host: Explanation = must(operator.ask(&["explain", "h1"]));
    assert_eq!(by_host.job, "h1 and h5");
}

/// Up to when the pins had not come yet, by the job's clock, as far as the coordinator tells.
fn last_before_pins(stage: &Stage, job: &Job) -> f64 {
    let now = || job.latest().map_or(0.0, |progress| progress.at_ms);
    let mut before = now();
    must(wait_for("the pins have come", PATIENCE, || {
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

/// Where flows are spread most unevenly.
fn live(stage: &Stage) -> Imbalance {
    let status = must(wait_for(
        "flows are known to go somewhere",
        PATIENCE,
        || Ok(stage.operator().status()?.flow_imbalance),
    ));
    status.worst
}

/// Sixteen flows as the hash has them, each as many bytes as the others.
fn counted() {
    let pairs: Vec<_> = (0..16)
        .map(|it| format!("[{}, {}]", it / 4, 4 + it % 4))
        .collect();
    let hosts: Vec<_> = (0..8).map(|it| format!("\"h{it}\"")).collect();
    let jobs = streams("train", SHORT, &hosts.join(", "), &pairs.join(", "), "");
    let stage = led(&leaf_spine(2, 4, 4), &jobs, &Leadership::default());
    let before = sent(&stage);
    let mut job = must(stage.job("train"));
    let flows = must(wait_for("all ways are known", PATIENCE, || {
        known_flows(&stage, &mut job)
    }));
    must(job.watch(Duration::from_secs(20)));
    let said = live(&stage);
    must(job.stop());
    let after = sent(&stage);
    let bytes: Vec<_> = after
        .iter()
        .map(|(link, sent)| sent - before[link])
        .collect();
    let of_one = bytes.iter().sum::<u64>() as f64 / flows as f64;
    let loads = bytes.iter().map(|&bytes| Load {
        flows: (bytes as f64 / of_one).round() as u64,
        weight: bytes,
    });
    let counted = imbalance(&loads.collect::<Vec<_>>()).expect("something was sent");
    println!("live {said:?}\nby counters {counted:?}");
    assert!((said.fim_percent - counted.fim_percent).abs() <= MOST_APART);
}

/// How many flows there are, once the ways of all sixteen that go up are known.
fn known_flows(stage: &Stage, job: &mut Job) -> Result<Option<usize>, reweave_tests::StageError> {
    job.watch(Duration::from_secs(1))?;
    let flows = stage.operator().status()?.flows;
    let up = flows
        .iter()
        .filter(|flow| flow.path.as_ref().is_some_and(|path| path.len() == 4));
    let up = up.filter(|flow| {
        flow.path
            .as_ref()
            .is_some_and(|path| path[1].from == "leaf0")
    });
    let count = up.count();
    Ok((count >= 16).then_some(count))
}

/// What the first leaf has sent to each spine.
fn sent(stage: &Stage) -> BTreeMap<String, u64> {
    let fabric = stage.fabric();
    let leaf = fabric.find("leaf0").expect("it is there");
    let ups = fabric.links_of(leaf).iter().filter(|&&link| {
        let far = fabric.link(link).far(leaf).node;
        fabric.name(far).starts_with("spine")
    });
    let count = |&link| {
        let mut ports = fabric.link(link).ports().into_iter();
        let port = ports.find(|port| port.node == leaf).expect("it ends there");
        let file = format!("/sys/class/net/swp{}/statistics/tx_bytes", port.index);
        let said = must(stage.output("leaf0", &["cat", &file]));
        (
            fabric.link_name(link),
            said.trim().parse().expect("a count"),
        )
    };
    ups.map(count).collect()
}
