//! Bandwidth by trains of packets, against the rates that links are shaped to and against iperf3.

use std::process::{Child, Command, Stdio};

use libtest_mimic::Trial;
use reweave_tests::{STAGE_TIMEOUT, Stage, wait_for};
use serde_json::Value;

use crate::needs::{Need, trial};
use crate::play::must;
use crate::scene::{Responder, agent, lab, pair};
use crate::timed::timed_value;

const NEEDS: &[Need] = &[Need::Lab, Need::Program("iperf3")];
/// The lab's frames with their headers, and what TCP leaves of them.
const FRAME_BYTES: f64 = 9014.0;
const SEGMENT_BYTES: f64 = 8948.0;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("timed_bandwidth_at_100_mbps", NEEDS, || {
            rate_of_a_link(0.1, 0.02);
        }),
        trial("timed_bandwidth_at_1_gbps", NEEDS, || {
            rate_of_a_link(1.0, 0.10);
        }),
        trial(
            "timed_bandwidth_behind_faster_link",
            NEEDS,
            behind_a_faster_link,
        ),
    ]
}

#[derive(Debug)]
#[allow(dead_code, reason = "it is shown")]
struct Seen {
    link_mbps: f64,
    trains_mbps: f64,
    bounds_mbps: [f64; 2],
    iperf3_mbps: f64,
}

impl Seen {
    fn is_within(&self, share: f64) -> bool {
        let near = |rate: f64| (self.trains_mbps / rate - 1.0).abs() <= share;
        let [least, most] = self.bounds_mbps;
        let between = least <= self.trains_mbps && self.trains_mbps <= most;
        // On a busy machine iperf3 does not fill a fast link, which trains do.
        near(self.link_mbps) && between && self.iperf3_mbps <= self.trains_mbps * (1.0 + share)
    }
}

fn rate_of_a_link(gbps: f64, share: f64) {
    let stage = lab(&pair(0, gbps), "");
    timed_value(
        "bandwidth by trains",
        || measure(&stage, ["a", "b"], gbps * 1e3),
        |seen: &Seen| seen.is_within(share),
    );
}

/// A host's link of 400 Mb/s, and the spines' of 200.
fn behind_a_faster_link() {
    let fabric = "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\n\
                  host_gbps = 0.4\nuplink_gbps = 0.2\n";
    let stage = lab(fabric, "");
    timed_value(
        "bandwidth by trains",
        || measure(&stage, ["h0", "h1"], 200.0),
        |seen: &Seen| seen.is_within(0.02),
    );
}

fn measure(stage: &Stage, [from, to]: [&str; 2], link_mbps: f64) -> Seen {
    let _responder = Responder::start(stage, to, from);
    let output = agent(stage, from, &["bandwidth", to]);
    let path = &output["hosts"][0]["paths"][0];
    let known = &path["bandwidth"]["known"];
    let mbps = |name: &str| {
        known[format!("{name}_bits_per_s")]
            .as_f64()
            .unwrap_or(f64::NAN)
            / 1e6
    };
    println!("{path}");
    Seen {
        link_mbps,
        trains_mbps: mbps("rate"),
        bounds_mbps: ["least", "most"].map(mbps),
        iperf3_mbps: iperf3(stage, from, to),
    }
}

/// What iperf3 gets over, as frames.
fn iperf3(stage: &Stage, from: &str, to: &str) -> f64 {
    let _server = Server::start(stage.inside(to, "iperf3"), stage, to);
    let words = ["iperf3", "-c", to, "-t", "5", "-O", "1", "--json"];
    let said: Value = serde_json::from_str(&must(stage.output(from, &words))).expect("JSON");
    let payload = said["end"]["sum_received"]["bits_per_second"].as_f64();
    payload.expect("a rate") * FRAME_BYTES / SEGMENT_BYTES / 1e6
}

/// iperf3's other side, until dropped.
struct Server(Child);

impl Server {
    fn start(mut command: Command, stage: &Stage, node: &str) -> Self {
        let quiet = command.args(["-s", "-1"]).stdout(Stdio::null());
        let server = Self(quiet.spawn().expect("iperf3 starts"));
        let listens = || {
            let sockets = stage.output(node, &["cat", "/proc/net/tcp6", "/proc/net/tcp"])?;
            // Port 5201, listening.
            let listening = |line: &str| line.contains(":1451 ") && line.contains(" 0A ");
            Ok(sockets.lines().any(listening).then_some(()))
        };
        must(wait_for("iperf3 listens", STAGE_TIMEOUT, listens));
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
