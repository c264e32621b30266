//! Losses: as many as there are, and none where there is none.

use libtest_mimic::Trial;
use reweave_tests::{STAGE_TIMEOUT, Stage, wait_for};
use serde_json::Value;

use crate::needs::{Need, trial};
use crate::play::must;
use crate::scene::{Responder, agent, host, lab, packets, pair};

const MTR_NEEDS: &[Need] = &[Need::Lab, Need::Program("mtr")];
const SWITCHES: [&str; 4] = ["leaf0", "leaf1", "spine0", "spine1"];

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "loss_interval_contains_counted_loss",
            &[Need::Lab],
            one_percent,
        ),
        trial(
            "rate_limited_routers_lose_nothing",
            MTR_NEEDS,
            behind_reluctant_routers,
        ),
    ]
}

/// Losses at the end, and where the answers that reported one were lost too, have no path.
const MAX_UNTRACED_LOSSES: u64 = 3;

/// A large probe that arrived has shown what it was sent for, answered or not. Half a percent of the
/// 300 answers is one or two, and more than this once in 100 000 runs.
const MAX_ANSWERED_LARGE_PROBES: u64 = 8;

/// Of the 25 000 probes that a machine without stalls sends.
const MIN_SENT: u64 = 5000;
/// Of 20 000 probes of which one percent is lost, the 95 % interval is 0.0028 wide, and narrower by the root of more.
const MAX_INTERVAL_WIDTH_OF_20_000: f64 = 0.004;

/// What is lost half a percent each way is lost one percent there and back. The interval is compared with what
/// the counters of this run's link show: one in twenty intervals does not hold the setting itself.
fn one_percent() {
    let faults =
        "[[fault]]\nkind = \"link-loss\"\nat_s = 0\npercent = 0.50126\nlink = [\"a\", \"b\"]\n";
    let stage = lab(&pair(0, 1.0), faults);
    must(wait_for("the link loses packets", STAGE_TIMEOUT, || {
        let said = stage.output("a", &["ping", "-f", "-q", "-c", "2000", "b"])?;
        Ok((!said.contains(" 0% packet loss")).then_some(()))
    }));
    let _responder = Responder::start(&stage, "b", "a");
    let ways = [("a", "tx"), ("b", "rx"), ("b", "tx"), ("a", "rx")];
    let counters = || ways.map(|(node, way)| packets(&stage, node, "eth0", way));
    let before = counters();
    let words = ["probe", "b", "--over-ms", "25000", "--rate", "1000"];
    let result = agent(&stage, "a", &words);
    let after = counters();
    let [sent, arrived, answered, back] = [0, 1, 2, 3].map(|at| after[at] - before[at]);
    let summary = &result["hosts"][0]["summary"];
    let count = |name: &str| summary[name].as_u64().expect("a count");
    assert!(count("sent") >= MIN_SENT, "{summary}");
    let [there, home] = [sent - arrived, answered - back];
    let both = there + home;
    println!("by the counters, {there} were lost there and {home} back: {summary}");
    let known = count("lost") + count("large_lost");
    let every = known..=known + MAX_ANSWERED_LARGE_PROBES + count("stalled");
    assert!(every.contains(&both), "all that the link lost");
    let result = [count("lost_there"), count("lost_back")];
    assert!(
        result[0] <= there && result[1] <= home,
        "none on the wrong way"
    );
    let unsure = count("lost") - result[0] - result[1];
    assert!(
        unsure <= MAX_UNTRACED_LOSSES,
        "of {unsure} the path was not reported"
    );
    let [min, max] = ["least_share", "most_share"].map(|name| bound(summary, name));
    let lost_share = both as f64 / count("sent") as f64;
    assert!((min..=max).contains(&lost_share), "{lost_share}: {summary}");
    let max_width = MAX_INTERVAL_WIDTH_OF_20_000 * (20_000.0 / count("sent") as f64).sqrt();
    assert!(max - min < max_width, "{summary}");
}

fn bound(summary: &Value, name: &str) -> f64 {
    summary["loss"][name].as_f64().expect("a bound")
}

/// A router that is asked too often says nothing, which tools that ask routers show as loss.
fn behind_reluctant_routers() {
    let stage = lab(include_str!("../lab/scenarios/two-leaves.toml"), "");
    for switch in SWITCHES {
        reluctant(&stage, switch);
    }
    let _responder = Responder::start(&stage, "h4", "h0");
    let mtr = ["mtr", "--report", "--no-dns", "-c", "20", "-i", "0.1", "h4"];
    let mtrs = must(stage.output("h0", &mtr));
    println!("{mtrs}");
    let lossy = mtrs
        .lines()
        .filter(|line| line.contains("|--") && !line.contains(" 0.0%"));
    assert!(lossy.count() >= 1, "the routers were to answer seldom");
    let summary = probed(&stage);
    assert_eq!(summary["lost"], 0, "{summary}");
}

/// Of a thousand probes, or fewer where the machine stalls. Those in flight meanwhile are set aside, and not lost.
fn probed(stage: &Stage) -> Value {
    let words = ["probe", "h4", "--over-ms", "5000", "--rate", "200"];
    let output = agent(stage, "h0", &words);
    let summary = output["hosts"][0]["summary"].clone();
    assert_eq!(output["hosts"][0]["host"], host(4).to_string());
    assert!(summary["sent"].as_u64() >= Some(100), "{summary}");
    assert_eq!(
        summary["routers"],
        serde_json::json!({"there": 3, "back": 3})
    );
    summary
}

fn reluctant(stage: &Stage, switch: &str) {
    let limit = "echo 1000 >/proc/sys/net/ipv4/icmp_ratelimit";
    must(stage.output(switch, &["sh", "-c", limit]));
}
