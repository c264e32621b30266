//! NCCL settings for a job's hosts, from a coordinator that knows their links through running agents. Files stand for
//! what kernels report of RDMA devices.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use libtest_mimic::Trial;
use reweave_tests::{Leadership, STAGE_TIMEOUT, Stage, wait_for};

use crate::hardware::{furnish, put, start_agent};
use crate::needs::trial;
use crate::play::{STAGE_NEEDS, must};
use crate::scene::{leaf_spine, up};

/// Large messages are moved without a copy; small ones must not wait for fences.
const LARGE_MESSAGE_BYTES: &str = "67108864";
const SMALL_MESSAGE_BYTES: &str = "1024";
/// This file links a device to its interface.
const DEVICE_NAME_PATH: &str = "sys/class/infiniband/mlx5_0/device/net/eth0/name";

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "nccl_settings_follow_links_of_job",
        STAGE_NEEDS,
        nccl_settings_follow_links,
    )]
}

/// Between racks there are two paths, and within a rack there is one.
fn nccl_settings_follow_links() {
    let stage = with_devices();
    let across = wait_for_settings(&stage, "h[0-3]");
    assert_eq!(value(&across, "NCCL_IB_HCA"), Some("=mlx5_0"), "{across}");
    assert_eq!(value(&across, "NCCL_IB_QPS_PER_CONNECTION"), Some("2"));
    let within = wait_for_settings(&stage, "h[2-3]");
    assert_eq!(value(&within, "NCCL_IB_QPS_PER_CONNECTION"), Some("1"));
    the_size_decides(&stage);
    a_command_finds_the_same(&stage);
    what_makes_no_sense_is_refused(&stage);
    a_device_at_a_link_that_is_down_is_left_out(&stage);
}

fn with_devices() -> Stage {
    let mut stage = up(&leaf_spine(2, 2, 2), "");
    must(stage.lead(&Leadership::default()));
    let nodes: Vec<_> = stage.nodes().map(str::to_owned).collect();
    for node in &nodes {
        furnish(&stage, node);
        if node.starts_with('h') {
            put(&stage, node, DEVICE_NAME_PATH, "eth0\n");
        }
        start_agent(&mut stage, node);
    }
    must(stage.wait_until_known());
    stage
}

fn exported(stage: &Stage, hosts: &str, options: &[&str]) -> Output {
    let words = ["export", "nccl", "--hosts", hosts];
    let output = stage
        .operator()
        .command(&[&words[..], options].concat())
        .output();
    output.expect("it was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Devices are known once agents have reported them.
fn wait_for_settings(stage: &Stage, hosts: &str) -> String {
    must(wait_for("devices are known", STAGE_TIMEOUT, || {
        let report = text(&exported(stage, hosts, &[]).stdout);
        Ok(value(&report, "NCCL_IB_HCA").is_some().then_some(report))
    }))
}

fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

fn sized(stage: &Stage, bytes: &str) -> String {
    let size = ["--all-reduce-bytes", bytes, "--ranks-per-host", "8"];
    let output = exported(stage, "h[0-3]", &size);
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

fn the_size_decides(stage: &Stage) {
    let [large, small] =
        [LARGE_MESSAGE_BYTES, SMALL_MESSAGE_BYTES].map(|bytes| sized(stage, bytes));
    assert_eq!(value(&large, "NCCL_PROTO"), Some("simple"), "{large}");
    assert_ne!(value(&small, "NCCL_PROTO"), Some("simple"), "{small}");
    let trees = value(&small, "NCCL_ALGO");
    assert_eq!(trees, Some("allreduce:tree"), "{small}");
    for report in [&large, &small] {
        assert!(value(report, "NCCL_ALGO").is_some(), "{report}");
        assert_eq!(value(report, "NCCL_IB_QPS_PER_CONNECTION"), Some("2"));
    }
}

/// `reweave run` sets the same variables; the command has the name of a launcher that reaches all ranks.
fn a_command_finds_the_same(stage: &Stage) {
    let launcher = stage.path("mpirun");
    symlink("/bin/sh", &launcher).expect("links can be made there");
    let launcher = launcher.display().to_string();
    let words = [
        "run",
        "--job",
        "train",
        "--nccl",
        "2.28",
        "--hosts",
        "h[0-3]",
        "--all-reduce-bytes",
        LARGE_MESSAGE_BYTES,
        "--slots",
        "8",
        "--",
        &launcher,
        "-c",
        "env | grep ^NCCL_ | grep -v PROFILER",
    ];
    let output = unset(stage.operator().command(&words)).output();
    let output = output.expect("it was built");
    assert!(output.status.success(), "{output:?}");
    let sorted = |line: &str| {
        let mut lines: Vec<_> = line.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = sized(stage, LARGE_MESSAGE_BYTES);
    assert_eq!(
        sorted(&text(&output.stdout)),
        sorted(&expected),
        "{output:?}"
    );
}

/// Removes all NCCL settings from the environment.
fn unset(mut command: Command) -> Command {
    for name in [
        "NCCL_IB_HCA",
        "NCCL_IB_QPS_PER_CONNECTION",
        "NCCL_ALGO",
        "NCCL_PROTO",
        "HOME",
        "NCCL_CONF_FILE",
    ] {
        command.env_remove(name);
    }
    command
}

fn what_makes_no_sense_is_refused(stage: &Stage) {
    for (hosts, options, code, why) in [
        ("h[0-9]", &[][..], 2, "\"h4\""),
        ("leaf0,h0", &[], 2, "leaf0"),
        ("h[0-3", &[], 2, "a bracket that is not closed"),
        ("h[3-0]", &[], 2, "3-0 ends before it begins"),
        ("h0,h0", &[], 2, "h0 is listed twice"),
        ("h[0-3]", &["--nccl", "2.9"], 2, "came with 2.10"),
        ("h[0-3]", &["--nccl", "3"], 2, "3"),
        (
            "h[0-3]",
            &["--ranks-per-host", "8"],
            2,
            "--all-reduce-bytes",
        ),
        (
            "h[0-3]",
            &[
                "--all-reduce-bytes",
                SMALL_MESSAGE_BYTES,
                "--ranks-per-host",
                "0",
            ],
            2,
            "0",
        ),
    ] {
        let output = exported(stage, hosts, options);
        let said = text(&output.stderr);
        let report = (output.status.code(), output.stdout.len());
        assert_eq!(report, (Some(code), 0), "{hosts} {options:?}: {said}");
        assert!(said.contains(why), "{hosts} {options:?}: {said}");
    }
}

fn a_device_at_a_link_that_is_down_is_left_out(stage: &Stage) {
    must(stage.sever("leaf0", "h1"));
    let said = must(wait_for("the device is left out", STAGE_TIMEOUT, || {
        let output = exported(stage, "h[0-3]", &[]);
        let is_left = output.stdout.is_empty();
        Ok(is_left.then(|| text(&output.stderr)))
    }));
    assert!(said.contains("of h1 is down, or drained"), "{said}");
    let others = wait_for_settings(stage, "h0,h[2-3]");
    assert_eq!(value(&others, "NCCL_IB_HCA"), Some("=mlx5_0"));
    must(stage.join("leaf0", "h1"));
}
