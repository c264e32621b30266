//! Labs to measure in, and the agent's commands in their nodes.

use std::net::Ipv4Addr;
use std::process::{Child, Stdio};

use reweave_tests::{Labs, STAGE_TIMEOUT, Setting, Stage, StageError, wait_for};
use serde_json::Value;

use crate::play::must;

/// A lab of this fabric, in which nothing runs.
pub(crate) fn lab(fabric: &str, faults: &str) -> Stage {
    let scenario =
        format!("name = \"accuracy\"\nmanagement = true\nfabric = \"two-leaves.toml\"\n{faults}");
    let setting = Setting {
        scenario: &scenario,
        fabric,
    };
    must(Stage::up(setting, Labs::Hidden))
}

/// Two hosts on one link.
pub(crate) fn pair(latency_us: u32, gbps: f64) -> String {
    format!(
        "kind = \"graph\"\n\
         node = [{{ name = \"a\", role = \"host\" }}, {{ name = \"b\", role = \"host\" }}]\n\
         link = [{{ a = \"a\", b = \"b\", gbps = {gbps}, latency_us = {latency_us} }}]\n"
    )
}

/// What the agent's command prints as JSON in a node.
pub(crate) fn agent(stage: &Stage, node: &str, words: &[&str]) -> Value {
    let agent = stage.programs().agent();
    let agent = agent.to_string_lossy();
    let all = [&[&*agent][..], words, &["--output", "json"]].concat();
    let said = must(stage.output(node, &all));
    serde_json::from_str(&said).expect("one JSON object")
}

/// `probe --respond` in a node, until dropped.
pub(crate) struct Responder(Child);

impl Responder {
    pub(crate) fn start(stage: &Stage, node: &str, prober: &str) -> Self {
        let mut command = stage.inside(node, stage.programs().agent());
        command
            .args(["probe", "--respond", prober])
            .stderr(Stdio::null());
        // One that was killed may take a moment to go.
        let gone = || Ok((!is_listening(stage, node)?).then_some(()));
        must(wait_for("the last responder is gone", STAGE_TIMEOUT, gone));
        let child = command.spawn().expect("the agent starts");
        let listens = || Ok(is_listening(stage, node)?.then_some(()));
        must(wait_for("the responder listens", STAGE_TIMEOUT, listens));
        Self(child)
    }
}

/// At port 7333, on all addresses.
fn is_listening(stage: &Stage, node: &str) -> Result<bool, StageError> {
    let sockets = stage.output(node, &["cat", "/proc/net/udp"])?;
    Ok(sockets.contains("00000000:1CA5"))
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lab's address of the n-th host.
pub(crate) fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

/// Packets that have left a node by an interface, or come in by it.
pub(crate) fn packets(stage: &Stage, node: &str, interface: &str, way: &str) -> u64 {
    let file = format!("/sys/class/net/{interface}/statistics/{way}_packets");
    let count = must(stage.output(node, &["cat", &file]));
    count.trim().parse().expect("a number")
}
