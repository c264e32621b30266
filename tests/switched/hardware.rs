//! Hardware faults that a lab cannot produce. Files stand for what kernels and drivers report on each node; real
//! agents read them, and each fault is found by their reports alone.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use reweave_common::cause::Class;
use reweave_tests::{Leadership, Stage};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, must};
use crate::scene::{leaf_spine, up};
use crate::troubles::{are_found, are_found_while, restart_coordinator};

const NIC_PATH: &str = "sys/class/net/eth0";
const RDMA_DEVICE_PATH: &str = "sys/class/infiniband/mlx5_0";
const ROCE_TOS_PATH: &str = "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos";
const IPV4_GID: &str = "0000:0000:0000:0000:0000:ffff:0a00:0001\n";

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "each_hardware_fault_is_named_alone",
        STAGE_NEEDS,
        each_is_named_alone,
    )]
}

/// Four hosts, so that most of them are alike, and a ring of switches.
fn each_is_named_alone() {
    let mut stage = up(&leaf_spine(2, 2, 2), "");
    must(stage.lead(&Leadership::default()));
    let nodes: Vec<_> = stage.nodes().map(str::to_owned).collect();
    for node in &nodes {
        furnish(&stage, node);
        start_agent(&mut stage, node);
    }
    must(stage.wait_until_known());
    hosts_that_are_made_or_set_otherwise(&mut stage);
    a_bad_optic(&stage);
    a_host_that_keeps_pausing(&mut stage);
    switches_that_wait_for_each_other(&mut stage);
}

/// The folder that is read in place of the node's /sys and /proc.
fn copy(stage: &Stage, node: &str) -> PathBuf {
    stage.path("copies").join(node)
}

/// Writes the file atomically, so that a reader sees the old or the new content.
pub(crate) fn put(stage: &Stage, node: &str, file: &str, text: &str) {
    let path = copy(stage, node).join(file);
    let folder = path.parent().expect("it lies in a folder");
    fs::create_dir_all(folder).expect("folders can be made there");
    let beside = copy(stage, node).join("new");
    let put = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path));
    put.expect("files can be written there");
}

fn take_away(stage: &Stage, node: &str, file: &str) {
    fs::remove_file(copy(stage, node).join(file)).expect("it was there");
}

/// The node's own interfaces with healthy hardware below them.
pub(crate) fn furnish(stage: &Stage, node: &str) {
    let ask =
        "cd /sys/class/net && for it in *; do echo $it $(cat $it/ifindex) $(cat $it/type); done";
    let listed = must(stage.output(node, &["sh", "-c", ask]));
    for line in listed.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [name, index, kind] = words[..] else {
            panic!("{node} has an interface {line:?}")
        };
        let folder = format!("sys/class/net/{name}");
        put(stage, node, &format!("{folder}/ifindex"), index);
        put(stage, node, &format!("{folder}/type"), kind);
        put(stage, node, &format!("{folder}/speed"), "100000\n");
        count_frames(stage, node, name, [0, 0]);
        count_pauses(stage, node, name, Duration::ZERO);
    }
    if node.starts_with('h') {
        give_hardware(stage, node);
    }
}

fn give_hardware(stage: &Stage, host: &str) {
    for which in ["current", "max"] {
        let bus = format!("{NIC_PATH}/device/{which}_link");
        put(stage, host, &format!("{bus}_speed"), "16.0 GT/s PCIe\n");
        put(stage, host, &format!("{bus}_width"), "16\n");
    }
    put_gid(stage, host, 3);
    put(stage, host, ROCE_TOS_PATH, "106\n");
}

/// The GID of RoCE v2 with an IPv4 address.
fn put_gid(stage: &Stage, host: &str, index: u32) {
    let port = format!("{RDMA_DEVICE_PATH}/ports/1");
    put(
        stage,
        host,
        &format!("{port}/gid_attrs/types/{index}"),
        "RoCE v2\n",
    );
    put(stage, host, &format!("{port}/gids/{index}"), IPV4_GID);
}

/// The counters of received frames and of frames with errors.
fn count_frames(stage: &Stage, node: &str, port: &str, [all, mangled]: [u64; 2]) {
    let folder = format!("sys/class/net/{port}/statistics");
    put(
        stage,
        node,
        &format!("{folder}/rx_packets"),
        &all.to_string(),
    );
    put(
        stage,
        node,
        &format!("{folder}/rx_crc_errors"),
        &mangled.to_string(),
    );
}

/// How long the peer has paused this port, as drivers count it.
fn count_pauses(stage: &Stage, node: &str, port: &str, still: Duration) {
    let text = format!("     rx_prio3_pause_duration: {}\n", still.as_micros());
    put(stage, node, &format!("ethtool/{port}"), &text);
}

/// A restarted agent reports all readings at once.
pub(crate) fn start_agent(stage: &mut Stage, node: &str) {
    let script = format!("exec \"$@\" --root {}", copy(stage, node).display());
    must(stage.start_agent_under(node, &["sh", "-c", &script, "sh"]));
}

/// Restarts the agent, so that it reports the host's settings now and not in half a minute.
fn report_settings_now(stage: &mut Stage, host: &str) {
    start_agent(stage, host);
    must(stage.wait_until_known());
}

/// Restarts agent and coordinator, so that both forget the counters.
fn forget(stage: &mut Stage, node: &str) {
    start_agent(stage, node);
    restart_coordinator(stage);
}

/// One fault after the other, each on another host, which is restored afterwards.
fn hosts_that_are_made_or_set_otherwise(stage: &mut Stage) {
    let width = format!("{NIC_PATH}/device/current_link_width");
    let speed = format!("{NIC_PATH}/speed");
    let files = [
        (Class::PcieDowngrade, "h0", &width[..], ["8\n", "16\n"]),
        (
            Class::ConfigurationMismatch,
            "h1",
            &speed[..],
            ["25000\n", "100000\n"],
        ),
        (
            Class::ConfigurationMismatch,
            "h2",
            ROCE_TOS_PATH,
            ["0\n", "106\n"],
        ),
    ];
    for (class, host, file, [odd, usual]) in files {
        put(stage, host, file, odd);
        report_settings_now(stage, host);
        are_found(stage, &[(class, host)]);
        put(stage, host, file, usual);
        report_settings_now(stage, host);
    }
    take_away(stage, "h3", &format!("{RDMA_DEVICE_PATH}/ports/1/gids/3"));
    put_gid(stage, "h3", 5);
    report_settings_now(stage, "h3");
    are_found(stage, &[(Class::ConfigurationMismatch, "h3")]);
    put_gid(stage, "h3", 3);
    report_settings_now(stage, "h3");
    are_found(stage, &[]);
}

/// One frame in a thousand is damaged in one direction of a link.
fn a_bad_optic(stage: &Stage) {
    let (port, since) = (stage.port("leaf1", "spine0"), Instant::now());
    let found = [(Class::BadOptic, "leaf1-spine0 from spine0")];
    are_found_while(stage, &found, || {
        let mangled = since.elapsed().as_millis() as u64;
        count_frames(stage, "leaf1", &port, [1000 * mangled, mangled]);
    });
}

/// The host sends pause frames for two fifths of the time.
fn a_host_that_keeps_pausing(stage: &mut Stage) {
    let since = Instant::now();
    forget(stage, "leaf1");
    let port = stage.port("leaf0", "h1");
    are_found_while(stage, &[(Class::PfcStorm, "h1")], || {
        count_pauses(stage, "leaf0", &port, since.elapsed() * 2 / 5);
    });
}

/// Each switch pauses the next one all the time.
fn switches_that_wait_for_each_other(stage: &mut Stage) {
    let since = Instant::now();
    forget(stage, "leaf0");
    let circle = ["leaf0", "spine0", "leaf1", "spine1"];
    let next = circle.iter().cycle().skip(1);
    let ports = circle.iter().zip(next);
    let ports: Vec<_> = ports
        .map(|(at, next)| (*at, stage.port(at, next)))
        .collect();
    let subject = circle.join(", ");
    are_found_while(stage, &[(Class::PfcDeadlock, &subject)], || {
        for (switch, port) in &ports {
            count_pauses(stage, switch, port, since.elapsed());
        }
    });
}
