//! Every figure of a report is measured: it changes with the measured quantity.

use std::collections::BTreeSet;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::report::{figure, flows, jobs, not_met, report_text, word};
use crate::support::{Home, finish, trial};
use crate::{FABRIC, LAB_NEEDS};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "jobs_follow_their_settings",
            LAB_NEEDS,
            jobs_follow_instructions,
        ),
        trial("tcp_losses_are_counted", LAB_NEEDS, losses_over_tcp),
        trial("datagram_losses_are_counted", LAB_NEEDS, losses_over_udp),
        trial(
            "no_rate_exceeds_slowest_link",
            LAB_NEEDS,
            no_rate_exceeds_slowest_link,
        ),
    ]
}

/// Two jobs of the same hosts at different times; the second has several flows for each pair.
const TWO_JOBS: &str = "[[job]]\nname = 'first'\npattern = 'all-to-all'\nhosts = ['h0', 'h1', 'h2']\n\
    bytes = 300_000\ncompute_ms = 50\niterations = 10\n\
    [[job]]\nname = 'second'\npattern = 'all-to-all'\nhosts = ['h0', 'h1', 'h2']\n\
    bytes = 300_000\ncompute_ms = 50\niterations = 10\nflows_per_pair = 3\nstart_s = 1.5\n";

fn jobs_follow_instructions() {
    let home = Home::new();
    let mut command = home.lab(&["run", "--keep", "--output", "json"]);
    command
        .arg(home.file("run.toml", &format!("{FABRIC}{TWO_JOBS}")))
        .current_dir(&home.path)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("the lab's program starts");
    let report = finish(child, "reweave-lab run").expect_code(0).json();
    for (job, pairs) in jobs(&report).iter().zip([6, 18]) {
        assert_eq!(job["iterations"], 10);
        let least = figure(&job["iteration_ms"]["least"]);
        assert!((50.0..150.0).contains(&least), "{least} ms");
        let exposed = figure(&job["exposed_ms"]["least"]);
        assert!(exposed < least - 49.9, "{exposed} of {least} ms");
        let ends: BTreeSet<_> = flows(job)
            .iter()
            .map(|flow| (word(&flow["source"]), word(&flow["destination"])))
            .collect();
        assert_eq!((flows(job).len(), ends.len()), (pairs, pairs), "{job}");
    }
    let ports = |job: &Value| -> BTreeSet<String> {
        let port = |flow: &Value| {
            word(&flow["destination"])
                .rsplit(':')
                .next()
                .map(str::to_owned)
        };
        flows(job).iter().filter_map(port).collect()
    };
    let [first, second] = [0, 1].map(|job| ports(&jobs(&report)[job]));
    assert!(first.is_disjoint(&second), "{first:?} {second:?}");
    let kept = home.path.join(word(&report["artifacts"]));
    let began = |job: &str| first_sample_s(&kept.join(format!("{job}-rank0.jsonl")));
    let apart = began("second") - began("first");
    assert!((1.4..3.0).contains(&apart), "{apart} s");
}

/// When a rank first reported how it was doing.
fn first_sample_s(log: &std::path::Path) -> f64 {
    let log = std::fs::read_to_string(log).expect("it was kept");
    let mut events = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let sample = events.find_map(|event| event["sample"]["at_us"].as_f64());
    sample.expect("it reported") / 1e6
}

/// One link loses 2 % of the packets, in both directions.
fn lossy(transport: &str) -> Value {
    report_text(
        &format!(
            "name = 'run'\nseed = 3\n[fabric]\nkind = 'direct'\nhosts = 2\nlink_gbps = 0.1\nlinks = [[0, 1]]\n\
             [[job]]\nname = 'stream'\npattern = 'streams'\nhosts = ['h0', 'h1']\npairs = [[0, 1]]\n\
             bytes = 10_000_000\niterations = 1\ntransport = '{transport}'\n\
             [[fault]]\nkind = 'link-loss'\nat_s = 0\nlink = ['h0', 'h1']\npercent = 2\n\
             [[expect]]\njob = 'stream'\nmax_retransmits = 0\nmax_lost = 0\n"
        ),
        1,
    )
}

/// Lost packets and those sent again, of about 1100.
fn assert_counted(report: &Value) -> &Value {
    let flow = &flows(&jobs(report)[0])[0];
    for what in ["lost", "retransmits"] {
        let count = figure(&flow[what]);
        assert!((5.0..60.0).contains(&count), "{what}: {flow}");
    }
    let failed = not_met(report);
    for (failed, what) in failed
        .iter()
        .zip(["retransmits <= 0: ", "packets lost <= 0: "])
    {
        assert!(failed.starts_with(what), "{failed}");
    }
    assert_eq!(failed.len(), 2, "{failed:?}");
    flow
}

fn losses_over_tcp() {
    let report = lossy("tcp");
    let flow = assert_counted(&report);
    // Data after a gap count as out of order in TCP.
    assert!(flow["reordered"].as_u64() > Some(0), "{flow}");
}

fn losses_over_udp() {
    assert_counted(&lossy("udp"));
}

/// Returns the maximum of 50 Mb/s, given how late the first packet of a message is read.
fn most_mbps(job: &Value) -> f64 {
    const MEASUREMENT_DELAY_S: f64 = 0.0005;
    let count = |it: &Value| it.as_f64().expect("it is counted");
    let message_bits = 8.0 * count(&flows(job)[0]["bytes"]) / count(&job["iterations"]);
    let takes_s = message_bits / 50e6;
    message_bits / 1e6 / (takes_s - MEASUREMENT_DELAY_S)
}

/// Messages of all sizes over slow NICs: the buckets of the links must not pass for their rate. A machine that is busy
/// for a moment lets one of them be read late once, a bucket makes it too fast each time.
fn no_rate_exceeds_slowest_link() {
    let text = messages_of_all_sizes();
    let mut too_fast = rates_above_the_link(&text);
    for _ in 0..2 {
        if too_fast.is_empty() {
            return;
        }
        let again = rates_above_the_link(&text);
        too_fast.retain(|job| again.contains(job));
    }
    assert!(too_fast.is_empty(), "{too_fast:?} each time");
}

fn messages_of_all_sizes() -> String {
    let job = |transport: &str, bytes: u64, start: f64| {
        let iterations = (4_000_000 / bytes).clamp(4, 60);
        format!(
            "[[job]]\nname = '{transport}-{bytes}'\npattern = 'streams'\nhosts = ['h0', 'h1']\n\
             pairs = [[0, 1]]\nbytes = {bytes}\ncompute_ms = 5\niterations = {iterations}\n\
             transport = '{transport}'\nstart_s = {start}\n"
        )
    };
    let sizes = [2_000, 20_000, 50_000, 100_000, 300_000, 1_000_000];
    let mut text = FABRIC.replace("0.1", "0.05");
    let all = ["tcp", "udp"]
        .into_iter()
        .flat_map(|transport| sizes.map(|size| (transport, size)));
    for (nth, (transport, size)) in all.enumerate() {
        text += &job(transport, size, nth as f64 * 1.2);
    }
    text
}

/// The jobs by whose rate their link would be faster than it is.
fn rates_above_the_link(text: &str) -> Vec<String> {
    let report = report_text(text, 0);
    let (mut reported, mut too_fast) = (0, vec![]);
    for job in jobs(&report) {
        let rate = &flows(job)[0]["rate_mbps"];
        println!("{} {rate} Mb/s", job["name"]);
        if let Some(rate) = rate.as_f64() {
            reported += 1;
            if rate > most_mbps(job) {
                too_fast.push(word(&job["name"]).to_owned());
            }
        }
    }
    assert!(reported >= 4, "long messages tell a rate");
    too_fast
}
