//! The station, and jobs in a running lab, as programs that run the cluster need them.

use std::fs::{self, File};
use std::process::{Child, Stdio};

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::commands::signal;
use crate::support::{Lab, finish, trial, wait_until};
use crate::{LAB_NEEDS, PING_NEEDS};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "station_and_nodes_reach_each_other",
            PING_NEEDS,
            station_and_nodes_reach_each_other,
        ),
        trial(
            "station_and_fabric_networks_stay_separate",
            PING_NEEDS,
            the_networks_do_not_meet,
        ),
        trial("unmanaged_lab_has_no_station", LAB_NEEDS, no_station),
        trial(
            "endless_job_runs_until_ended",
            LAB_NEEDS,
            job_runs_until_stopped,
        ),
        trial("finished_job_ends_unaided", LAB_NEEDS, a_job_ends_alone),
        trial(
            "job_survives_temporary_route_loss",
            LAB_NEEDS,
            a_job_outlives_a_lost_route,
        ),
        trial("unknown_job_is_refused", LAB_NEEDS, an_unknown_job),
    ]
}

const MANAGED_SCENARIO: &str = r#"
name = "managed"
management = true
[fabric]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 2
host_gbps = 0.2
uplink_gbps = 0.2
[[job]]
name = "endless"
pattern = "streams"
hosts = ["h0", "h2"]
pairs = [[0, 1]]
bytes = 500_000
iterations = 1_000_000
[[job]]
name = "short"
pattern = "streams"
hosts = ["h1", "h3"]
pairs = [[0, 1]]
bytes = 500_000
iterations = 3
"#;

fn reaches(lab: &Lab, from: &str, to: &str) -> bool {
    lab.exec(from, &["ping", "-c1", "-W1", to]).code == Some(0)
}

/// On a busy machine an answer may be late, or be lost during address resolution.
fn in_the_end_reaches(lab: &Lab, from: &str, to: &str) {
    wait_until(&format!("{from} reaches {to}"), || reaches(lab, from, to));
}

fn station_and_nodes_reach_each_other() {
    let lab = Lab::up_text(MANAGED_SCENARIO);
    for node in lab.nodes() {
        let managed = format!("{node}.mgmt");
        in_the_end_reaches(&lab, "station", &managed);
        in_the_end_reaches(&lab, &node, "station");
        in_the_end_reaches(&lab, "h0", &managed);
    }
    let of_h1 = &lab.came_up["nodes"][1];
    let addresses = lab.json("h1", &["ip", "-j", "address", "show", "dev", "mgmt0"]);
    assert_eq!(of_h1["management"], addresses[0]["addr_info"][0]["local"]);
}

/// Even with a route through a leaf, no packet passes between the networks; nor from a host to the management address
/// of another over the fabric.
fn the_networks_do_not_meet() {
    let lab = Lab::up_text(MANAGED_SCENARIO);
    assert!(!reaches(&lab, "station", "10.0.0.0"), "no route");
    let through = [
        "ip",
        "route",
        "add",
        "10.0.0.0/8",
        "via",
        "leaf0.mgmt",
        "onlink",
    ];
    let leaf = lab.output("leaf0", &["ip", "-4", "-o", "addr", "show", "mgmt0"]);
    let leaf = leaf
        .split_whitespace()
        .nth(3)
        .and_then(|text| text.split('/').next());
    let leaf = leaf.expect("leaf0 has a management address").to_owned();
    let index = lab
        .nodes()
        .iter()
        .position(|node| node == "leaf0")
        .expect("it is there");
    let port = format!("m{index}");
    let words = through.map(|word| {
        if word == "leaf0.mgmt" {
            leaf.as_str()
        } else {
            word
        }
    });
    lab.output("station", &[&words[..], &["dev", &port]].concat());
    assert!(
        !reaches(&lab, "station", "10.0.0.0"),
        "leaf0 passes nothing on"
    );
    let seen = lab.output("leaf0", &["cat", "/proc/sys/net/ipv4/conf/swp0/forwarding"]);
    assert_eq!(seen.trim(), "1", "though it does for the fabric");
}

fn no_station() {
    let lab = Lab::up("ideal");
    let said = lab.exec("station", &["true"]).expect_code(2);
    assert!(said.stderr.contains("has no node \"station\""), "{said:?}");
}

fn job(lab: &Lab, name: &str) -> Child {
    let arguments = ["job", "--lab", &lab.name, name, "--output", "json"];
    let mut command = lab.home.lab(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

fn lines(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).expect("each line is JSON");
    text.lines().map(parse).collect()
}

fn job_runs_until_stopped() {
    let lab = Lab::up_text(MANAGED_SCENARIO);
    let running = job(&lab, "endless");
    let is_sent = || {
        let counters = lab.json("h0", &["ip", "-s", "-j", "link", "show", "dev", "eth0"]);
        counters[0]["stats64"]["tx"]["bytes"].as_u64() > Some(5_000_000)
    };
    wait_until("the job sends", is_sent);
    signal(&running, Signal::SIGTERM);
    let reported = lines(&finish(running, "job").expect_code(0).stdout);
    assert_eq!(reported[0]["began"]["job"], "endless");
    let progress: Vec<_> = reported.iter().map(|line| &line["progress"]).collect();
    let last = progress.iter().rfind(|progress| progress.is_object());
    let last = last.expect("it reported how it did");
    let way: Value = ["h0", "leaf0", "spine0", "leaf1", "h2"].into();
    assert_eq!(last["flows"][0]["path"], way);
    assert!(last["iterations"].as_u64() > Some(5), "{last}");
    let report = &reported.last().expect("there are lines")["report"];
    let flow = &report["flows"][0];
    let sound = (&flow["resets"], &flow["corrupted"]);
    assert_eq!(sound, (&0.into(), &0.into()), "{flow}");
}

fn a_job_outlives_a_lost_route() {
    let lab = Lab::up_text(MANAGED_SCENARIO);
    let said = lab.home.file("said.jsonl", "");
    let mut command = lab
        .home
        .lab(&["job", "--lab", &lab.name, "endless", "--output", "json"]);
    let report = File::create(&said).expect("the file is there");
    let running = command.stdout(report).spawn().expect("the program starts");
    let last_way = || {
        let text = fs::read_to_string(&said).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let last: Value = serde_json::from_str(whole.lines().last()?).ok()?;
        Some(last["progress"]["flows"][0]["path"].as_array()?.len())
    };
    wait_until("its way is known", || last_way() == Some(5));
    let routes = lab.output("leaf0", &["ip", "route", "show", "10.0.0.2"]);
    lab.output("leaf0", &["ip", "route", "del", "10.0.0.2"]);
    wait_until("it has none", || last_way() == Some(0));
    let back = routes.split_whitespace().collect::<Vec<_>>();
    lab.output("leaf0", &[&["ip", "route", "add"][..], &back].concat());
    wait_until("it is known again", || last_way() == Some(5));
    signal(&running, Signal::SIGTERM);
    finish(running, "job").expect_code(0);
}

fn a_job_ends_alone() {
    let lab = Lab::up_text(MANAGED_SCENARIO);
    let reported = lines(&finish(job(&lab, "short"), "job").expect_code(0).stdout);
    let report = &reported.last().expect("there are lines")["report"];
    assert_eq!(
        (&report["name"], &report["iterations"]),
        (&"short".into(), &3.into())
    );
    // The lab is still there for the next.
    finish(job(&lab, "short"), "job").expect_code(0);
}

fn an_unknown_job() {
    let lab = Lab::up_text(MANAGED_SCENARIO);
    let said = finish(job(&lab, "shrot"), "job").expect_code(2);
    assert!(
        said.stderr
            .contains("has no job \"shrot\"; it has endless short"),
        "{said:?}"
    );
}
