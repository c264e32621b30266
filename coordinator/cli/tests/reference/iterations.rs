//! Iterations of published task graphs, and of models under plain data parallelism.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::Test;

/// Graph, rate of a link, milliseconds by an independent max-min fluid model, and by how much of
/// that the result may differ.
const GRAPHS: [(&str, u32, f64, f64); 12] = [
    ("direct12", 10, 440.66, DIRECT_TOLERANCE),
    ("direct12", 25, 217.35, DIRECT_TOLERANCE),
    ("direct12", 50, 187.99, DIRECT_TOLERANCE),
    ("direct12", 100, 185.51, DIRECT_TOLERANCE),
    ("switch16_vgg_100g", 100, 211.24, SWITCH_TOLERANCE),
    ("switch16_transformer_100g", 100, 63.82, SWITCH_TOLERANCE),
    ("switch16_dlrm_100g", 100, 60.98, SWITCH_TOLERANCE),
    ("switch16_candle_100g", 100, 472.4, SWITCH_TOLERANCE),
    ("switch16_vgg_400g", 400, 100.48, SWITCH_TOLERANCE),
    ("switch16_transformer_400g", 400, 61.51, SWITCH_TOLERANCE),
    ("switch16_dlrm_400g", 400, 20.30, SWITCH_TOLERANCE),
    ("switch16_candle_400g", 400, 158.7, SWITCH_TOLERANCE),
];
const DIRECT_TOLERANCE: f64 = 0.005;
const SWITCH_TOLERANCE: f64 = 0.01;

/// Graph, and its bounds of computing and of communication at 100 Gb/s.
const BOUNDS: [(&str, f64, f64); 4] = [
    ("switch16_vgg_100g", 100.48, 173.61),
    ("switch16_transformer_100g", 62.20, 33.99),
    ("switch16_dlrm_100g", 17.57, 51.11),
    ("switch16_candle_100g", 113.8, 392.0),
];
/// The table shows so few digits.
const ROUNDING_TOLERANCE: f64 = 0.0005;

/// Graph, rate of a link, and milliseconds by a packet-level simulator.
const PACKET_LEVEL: [(&str, u32, f64); 12] = [
    ("direct12", 10, 439.95),
    ("direct12", 25, 216.91),
    ("direct12", 50, 188.01),
    ("direct12", 100, 185.54),
    ("switch16_vgg_100g", 100, 210.40),
    ("switch16_transformer_100g", 100, 63.97),
    ("switch16_dlrm_100g", 100, 61.16),
    ("switch16_candle_100g", 100, 512.9),
    ("switch16_vgg_400g", 400, 100.48),
    ("switch16_transformer_400g", 400, 61.43),
    ("switch16_dlrm_400g", 400, 20.78),
    ("switch16_candle_400g", 400, 181.0),
];
/// By so much may they lie outside of the interval.
const INTERVAL_TOLERANCE: f64 = 0.002;

/// Model, rate of a port, and its iteration under plain data parallelism.
const JOBS: [(&str, u32, f64); 4] = [
    ("vgg16", 100, 211.24),
    ("transformer16", 100, 63.82),
    ("vgg16", 400, 100.48),
    // Not the 61.51 of the table, which belong to another plan: see SPLIT_OPERATORS.
    ("transformer16", 400, 62.747),
];

/// At 400 Gb/s the published search splits three operators of the transformer over eight servers
/// each; these do as those do. That takes 61.51 ms, of which the busiest server computes 60.58: less
/// than under plain data parallelism, where it computes 62.20.
const SPLIT_OPERATORS: [(&str, &str); 3] = [
    ("dec0_self_attention", EVEN_SERVERS),
    ("enc3_attention", ODD_SERVERS),
    ("enc2_add", EVEN_SERVERS),
];
const EVEN_SERVERS: &str = "servers = [0, 2, 4, 6, 8, 10, 12, 14]";
const ODD_SERVERS: &str = "servers = [1, 3, 5, 7, 9, 11, 13, 15]";

fn halved(data: &Path) -> Result<(), Failed> {
    let models = data.join("topoopt/models");
    let mut text = fs::read_to_string(models.join("transformer16.toml"))?;
    text = text.replace(
        "../profiles",
        &data.join("topoopt/profiles").to_string_lossy(),
    );
    for (operator, servers) in SPLIT_OPERATORS {
        let name = format!("name = \"{operator}\"\n");
        text = text.replace(&name, &format!("{name}{servers}\n"));
    }
    let mut job = tempfile::NamedTempFile::new()?;
    job.write_all(text.as_bytes())?;
    let answer = on_switch(job.path(), 400)?;
    near(&answer, "compute_bound_ms", 60.58, ROUNDING_TOLERANCE)?;
    near(&answer, "iteration_ms", 61.51, SWITCH_TOLERANCE)
}

pub(crate) fn tests() -> impl Iterator<Item = (String, Test)> {
    let graphs = GRAPHS.into_iter().map(|(graph, gbps, ms, tolerance)| {
        let test = move |data: &Path| {
            near(
                &replay(data, graph, gbps, &[])?,
                "iteration_ms",
                ms,
                tolerance,
            )
        };
        (
            format!("graphs::{graph} at {gbps}G"),
            Box::new(test) as Test,
        )
    });
    let bounds = BOUNDS.into_iter().map(|(graph, compute_ms, comm_ms)| {
        let test = move |data: &Path| {
            let answer = replay(data, graph, 100, &[])?;
            near(&answer, "compute_bound_ms", compute_ms, ROUNDING_TOLERANCE)?;
            near(&answer, "comm_bound_ms", comm_ms, ROUNDING_TOLERANCE)
        };
        (format!("bounds::{graph}"), Box::new(test) as Test)
    });
    let jobs = JOBS.into_iter().map(|(model, gbps, ms)| {
        let test = move |data: &Path| {
            near(
                &job(data, model, gbps)?,
                "iteration_ms",
                ms,
                SWITCH_TOLERANCE,
            )
        };
        (format!("jobs::{model} at {gbps}G"), Box::new(test) as Test)
    });
    let packets = PACKET_LEVEL.into_iter().map(|(graph, gbps, ms)| {
        let test = move |data: &Path| inside(&replay(data, graph, gbps, INTERVAL_OPTIONS)?, ms);
        (
            format!("packets::{graph} at {gbps}G"),
            Box::new(test) as Test,
        )
    });
    let halved: Test = Box::new(halved);
    let halved = (
        "jobs::transformer16, partly halved, at 400G".to_owned(),
        halved,
    );
    let all = graphs.chain(bounds).chain(jobs).chain(packets);
    all.chain([halved])
}

fn inside(answer: &Value, ms: f64) -> Result<(), Failed> {
    let interval = &answer["breakdown"]["interval"];
    let [low, high] = ["low_ms", "high_ms"].map(|end| interval[end].as_f64().unwrap_or(f64::NAN));
    if (low * (1.0 - INTERVAL_TOLERANCE)..=high * (1.0 + INTERVAL_TOLERANCE)).contains(&ms) {
        Ok(())
    } else {
        Err(format!("{ms} ms are not in {low}..{high}").into())
    }
}

/// There is one way only between any two hosts here, so that hashes make no difference.
const INTERVAL_OPTIONS: &[&str] = &["--interval", "--seeds", "0"];

fn replay(data: &Path, graph: &str, gbps: u32, options: &[&str]) -> Result<Value, Failed> {
    let file = data.join(format!("topoopt/graphs/{graph}.fbuf"));
    let rate = if graph.starts_with("direct") {
        "--link-gbps"
    } else {
        "--nic-gbps"
    };
    let gbps = gbps.to_string();
    let arguments: [&OsStr; 4] = [
        "replay".as_ref(),
        file.as_ref(),
        rate.as_ref(),
        gbps.as_ref(),
    ];
    let options = options.iter().map(AsRef::as_ref);
    sim(&arguments.into_iter().chain(options).collect::<Vec<_>>())
}

fn job(data: &Path, model: &str, gbps: u32) -> Result<Value, Failed> {
    on_switch(&data.join(format!("topoopt/models/{model}.toml")), gbps)
}

fn on_switch(job: &Path, gbps: u32) -> Result<Value, Failed> {
    let mut fabric = tempfile::NamedTempFile::new()?;
    writeln!(fabric, "kind = \"ideal\"\nhosts = 16\nnic_gbps = {gbps}")?;
    let flag: &OsStr = "--fabric".as_ref();
    sim(&["job".as_ref(), job.as_ref(), flag, fabric.path().as_ref()])
}

fn sim(arguments: &[&OsStr]) -> Result<Value, Failed> {
    let mut reweave = Command::new(env!("CARGO_BIN_EXE_reweave"));
    reweave
        .arg("sim")
        .args(arguments)
        .args(["--output", "json"]);
    let output = reweave.output()?;
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout)?)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
    }
}

fn near(answer: &Value, key: &str, expected: f64, tolerance: f64) -> Result<(), Failed> {
    let found = answer[key].as_f64().unwrap_or(f64::NAN);
    let error = (found / expected - 1.0).abs();
    if error <= tolerance {
        Ok(())
    } else {
        Err(format!("{key} is {found}, and should be {expected}").into())
    }
}
