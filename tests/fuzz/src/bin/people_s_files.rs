//! What people write: fabrics, scenarios and jobs (TOML), flows (CSV), problems (raw).

#![no_main]

use std::sync::LazyLock;

use reweave_common::fabric::Fabric;
use reweave_common::scenario::Scenario;
use reweave_repair::paths::ecmp::Ecmp;
use reweave_sim::engine::network::{Costs, Network};
use reweave_sim::engine::{flows, raw};
use reweave_sim::workload::job::JobFile;

/// What is larger is rightly slow.
const MAX_INPUT_BYTES: usize = 2048;

/// On which flows are read.
static FABRIC: LazyLock<(Fabric, Network)> = LazyLock::new(|| {
    let fabric = include_str!("../../seeds/people_s_files/leaf-spine.toml");
    let fabric = Fabric::parse("fabric.toml", fabric).expect("it is one");
    let network = Network::of(&fabric, Costs::default());
    (fabric, network)
});

libfuzzer_sys::fuzz_target!(|text: &str| {
    if text.len() > MAX_INPUT_BYTES || asks_for_much(text) {
        return;
    }
    let _ = Fabric::parse("fabric.toml", text);
    let _ = Scenario::parse("scenario.toml", text, |_| Err("there is none".to_owned()));
    let _ = raw::parse("problem.raw", text);
    let _ = JobFile::parse("job.toml", text);
    let (fabric, network) = &*FABRIC;
    let _ = flows::parse("flows.csv", text, fabric, network, &Ecmp::default());
});

/// A short file may ask for a fabric of a million hosts, and would get it.
fn asks_for_much(text: &str) -> bool {
    let digits = text.split(|it: char| !it.is_ascii_digit() && it != '_');
    digits.into_iter().any(|it| it.len() > 3)
}
