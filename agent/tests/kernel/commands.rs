//! Checks what the program prints for a person or a script.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::fabric::{Fabric, host, pin, some_flow, spine_of, wait_for, within};
use crate::flows::shape;
use crate::pins::hold;
use crate::probing::Responder;
use crate::tests;
use crate::traffic::{Session, Stream};

tests! {
    facts_join_interfaces_to_their_neighbours,
    counters_and_flows_have_rates needs "tc",
    trace_lists_each_hop,
    all_next_hops_are_found,
    path_change_is_reported,
    pins_are_listed,
    capabilities_list_missing_rights,
    missing_lldp_is_reported,
    listed_capabilities_work needs "setpriv",
    every_figure_has_unit_or_counts,
    full_disk_is_one_error,
    errors_go_to_standard_error,
    json_log_ends_with_error_object,
}

pub(crate) fn agent(node: &str, arguments: &[&str]) -> Output {
    within(node, || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reweave-agent"));
        let run = command.args(arguments).stdin(Stdio::null()).output();
        run.expect("the program starts")
    })
}

/// As a user who has no rights in the node's network.
pub(crate) fn unprivileged(node: &str, arguments: &[&str]) -> Output {
    within(node, || {
        let mut command = Command::new("unshare");
        let program = ["--user", env!("CARGO_BIN_EXE_reweave-agent")];
        let run = command.args(program).args(arguments).stdin(Stdio::null());
        run.output().expect("unshare runs")
    })
}

/// The answer without its version, which is the first field.
pub(crate) fn json_of(node: &str, arguments: &[&str]) -> Value {
    let run = agent(node, &[arguments, &["--output", "json"]].concat());
    let words = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{arguments:?}: {words}");
    let answer = String::from_utf8_lossy(&run.stdout);
    let begins = answer.starts_with("{\"apiVersion\":\"reweave/v1\",");
    assert!(begins, "{arguments:?}: {answer}");
    let mut answer: Map<String, Value> = serde_json::from_str(&answer).expect("one JSON object");
    answer.remove("apiVersion");
    Value::Object(answer)
}

fn table_of(node: &str, arguments: &[&str]) -> String {
    let run = agent(node, arguments);
    assert!(run.status.success());
    String::from_utf8(run.stdout).expect("UTF-8")
}

fn facts_join_interfaces_to_their_neighbours() {
    let _fabric = Fabric::new();
    let eth0 = json!({"name": "eth0", "addresses": ["10.0.0.1"], "gateways": ["10.0.0.0"]});
    let h0 = json_of("h0", &["facts"]);
    assert_eq!(h0["interfaces"], json!([eth0]));
    assert!(h0["machine"]["cpus"].as_u64() > Some(0), "{h0}");
    hold(&[pin(some_flow(1), 1)]).expect("the kernel takes it");
    let leaf = json_of("leaf0", &["facts"]);
    let interfaces = leaf["interfaces"].as_array().expect("a list");
    assert_eq!(interfaces.len(), 5);
    let up1 = json!({"name": "up1", "addresses": ["172.16.1.0"], "gateways": ["172.16.1.1"]});
    assert!(interfaces.contains(&up1), "{leaf}");
    let table = table_of("h0", &["facts"]);
    let expected = "interface  addresses  gateways\neth0       10.0.0.1   10.0.0.0\n\n";
    assert!(table.starts_with(expected), "{table}");
}

fn counters_and_flows_have_rates() {
    let _fabric = Fabric::new();
    shape();
    let stream = Stream::start(Session::new(0, 2), 1 << 20, Duration::ZERO);
    wait_for("what is sent", || {
        let counters = json_of("h0", &["counters"]);
        let eth0 = &counters["counters"][0];
        assert_eq!(
            (&eth0["interface"], &eth0["up"]),
            (&json!("eth0"), &json!(true))
        );
        (eth0["send_bits_per_s"].as_u64() > Some(0)).then_some(())
    });
    let flows = json_of("h0", &["flows"]);
    let flow = &flows["flows"][0];
    assert_eq!(
        flow["flow"]["source"],
        json!(stream.flow.source.to_string())
    );
    let [least, most] = ["least", "most"].map(|end| flow[format!("{end}_bits_per_s")].as_u64());
    assert!(least.is_some() && least <= most, "{flow}");
    assert!(flow["rtt_us"].as_u64() > Some(0), "{flow}");
    let table = table_of("h0", &["flows"]);
    assert!(table.contains(&stream.flow.to_string()), "{table}");
    assert_eq!(
        json_of("h3", &["flows", "--over-ms", "200"]),
        json!({"flows": []})
    );
    stream.finish();
}

fn trace_lists_each_hop() {
    let _fabric = Fabric::new();
    let flow = Session::new(0, 2).flow;
    let [source, destination] = [flow.source, flow.destination].map(|end| end.to_string());
    let asked = ["trace", "tcp", &source, &destination];
    let spine = spine_of(&flow);
    let routers = json!([
        "10.0.0.0",
        format!("172.16.{spine}.1"),
        format!("172.16.{}.0", 2 + spine)
    ]);
    assert_eq!(json_of("h0", &asked)["routers"], routers);
    assert!(table_of("h0", &asked).starts_with("hop  router\n1    10.0.0.0\n2    172.16."));
}

fn all_next_hops_are_found() {
    let _fabric = Fabric::new();
    let like = ["trace", "tcp", "10.0.0.1:40000", "10.1.0.1:5001", "--all"];
    let answer = json_of("h0", &like);
    let fork = |hop: usize, router: Value| {
        let forks = answer["forks"].as_array().expect("a list");
        let found = forks
            .iter()
            .find(|it| it["hop"] == hop && it["router"] == router);
        let found = found.unwrap_or_else(|| panic!("{answer}"));
        assert_eq!(found["complete"], true, "{found}");
        found["next"].clone()
    };
    assert_eq!(fork(0, Value::Null), json!(["10.0.0.0"]));
    assert_eq!(
        fork(1, json!("10.0.0.0")),
        json!(["172.16.0.1", "172.16.1.1"])
    );
    assert_eq!(fork(2, json!("172.16.1.1")), json!(["172.16.3.0"]));
    assert!(answer["flows"].as_u64() >= Some(11), "{answer}");
    let table = table_of("h0", &like);
    assert!(table.contains("172.16.0.1 172.16.1.1"), "{table}");
}

fn path_change_is_reported() {
    let _fabric = Fabric::new();
    let flow = some_flow(1234);
    hold(&[pin(flow, 0)]).expect("the kernel takes it");
    let (source, destination) = (flow.source.to_string(), flow.destination.to_string());
    let mut child = within("h0", || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reweave-agent"));
        command.args(["trace", "tcp", &source, &destination, "--over-ms", "600000"]);
        command.args(["--output", "json"]).stdout(Stdio::piped());
        command.spawn().expect("the program starts")
    });
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut ways = lines.map(|line| {
        let way: Value = serde_json::from_str(&line.expect("UTF-8")).expect("one object a line");
        way["routers"][1].clone()
    });
    assert_eq!(ways.next(), Some(json!("172.16.0.1")));
    hold(&[pin(flow, 1)]).expect("the kernel takes it");
    assert_eq!(ways.next(), Some(json!("172.16.1.1")));
    hold(&[pin(flow, 0)]).expect("the kernel takes it");
    assert_eq!(ways.next(), Some(json!("172.16.0.1")));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

fn capabilities_list_missing_rights() {
    let _fabric = Fabric::new();
    let table = |node| {
        let run = unprivileged(node, &["abilities"]);
        String::from_utf8(run.stdout).expect("UTF-8")
    };
    let says = |node, what: &str, words: &str| {
        let table = table(node);
        let mut lines = table.lines();
        let line = lines.find(|line| line.starts_with(what));
        assert!(line.is_some_and(|it| it.contains(words)), "{table}");
    };
    says("h0", "latency and loss", " yes");
    says("h0", "paths of flows", "setcap cap_net_raw+ep");
    says("h0", "traffic by eBPF", "setcap cap_bpf,cap_net_admin+ep");
    says("h0", "traffic by nftables", "setcap cap_net_admin+ep");
    says("h0", "counters of drivers", " yes");
    says("h0", "RDMA", " no");
    says("leaf0", "pins of flows", "setcap cap_net_admin+ep");
}

/// Where no daemon can be asked for neighbours, that is said, and not that there are none.
fn missing_lldp_is_reported() {
    let _fabric = Fabric::new();
    let facts = json_of("h0", &["facts"]);
    assert_eq!(facts["neighbours"], json!([]));
    let off = facts["off"].as_array().expect("a list");
    let lack = off
        .iter()
        .find(|it| it["measurement"] == "neighbours by LLDP");
    let remedy = lack.and_then(|it| it["remedy"].as_str());
    assert!(remedy.is_some_and(|it| it.contains("lldpd")), "{facts}");
}

/// The agent's program, as root without some of root's rights.
fn without(rights: &str, node: &str, arguments: &[&str]) -> Output {
    within(node, || {
        let less = rights.replace("cap_", "-");
        let mut command = Command::new("setpriv");
        if !less.is_empty() {
            command.args(["--inh-caps", &less, "--bounding-set", &less]);
        }
        command.arg(env!("CARGO_BIN_EXE_reweave-agent"));
        let run = command.args(arguments).stdin(Stdio::null()).output();
        run.expect("setpriv runs")
    })
}

/// What the list says is held against what the commands do, with one right taken away at a time.
fn listed_capabilities_work() {
    let _fabric = Fabric::new();
    // An administrator's right stands for that to load programs.
    for rights in ["", "cap_net_raw", "cap_bpf,cap_sys_admin", "cap_net_admin"] {
        let run = |node, arguments: &[&str]| without(rights, node, arguments);
        let listed = |node, what: &str| {
            let answer = run(node, &["abilities", "--output", "json"]);
            let answer: Value = serde_json::from_slice(&answer.stdout).expect("one JSON object");
            let all = answer["abilities"].as_array().expect("a list");
            let it = all.iter().find(|it| it["measurement"] == what);
            it.unwrap_or_else(|| panic!("{answer}"))["because"].is_null()
        };
        let counts_by = |source: &str| {
            let asked = [
                "traffic",
                "--source",
                source,
                "--over-ms",
                "200",
                "--output",
                "json",
            ];
            let answer: Value = serde_json::from_slice(&run("h0", &asked).stdout).expect("JSON");
            answer["source"] == source
        };
        let traced = run("h0", &["trace", "tcp", "10.0.0.1:1", "10.1.0.1:2"]);
        let untraced = String::from_utf8_lossy(&traced.stderr).contains("raw socket");
        assert_eq!(listed("h0", "paths of flows"), !untraced, "{rights}");
        assert_eq!(
            listed("h0", "traffic by eBPF"),
            counts_by("ebpf"),
            "{rights}"
        );
        assert_eq!(
            listed("h0", "traffic by nftables"),
            counts_by("nftables"),
            "{rights}"
        );
        assert!(listed("h0", "latency and loss"), "{rights}");
        assert_eq!(listed("leaf0", "pins of flows"), rights != "cap_net_admin");
    }
}

fn pins_are_listed() {
    let _fabric = Fabric::new();
    let rules = [pin(some_flow(1), 0), pin(some_flow(2), 1)];
    hold(&rules).expect("the kernel takes them");
    assert_eq!(json_of("leaf0", &["pins"]), json!({"pins": rules}));
    let expected = "flow                          interface  next hop\n\
                    tcp 10.0.0.1:1 > 10.1.0.1:5001  up0        172.16.0.1\n\
                    tcp 10.0.0.1:2 > 10.1.0.1:5001  up1        172.16.1.1\n";
    let report = table_of("leaf0", &["pins"]);
    let words = |table: &str| {
        table
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&report), words(expected));
}

fn full_disk_is_one_error() {
    let full = std::fs::File::create("/dev/full").expect("it is there");
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave-agent"));
    let run = command.arg("facts").stdin(Stdio::null()).stdout(full);
    let run = run.output().expect("the program starts");
    assert_eq!(run.status.code(), Some(1));
    let words = String::from_utf8_lossy(&run.stderr);
    let errors: Vec<_> = words
        .lines()
        .filter(|it| !it.starts_with("off: "))
        .collect();
    assert_eq!(
        errors,
        ["error: cannot print: No space left on device (os error 28)"]
    );
}

fn errors_go_to_standard_error() {
    let _fabric = Fabric::new();
    let deaf = agent("h0", &["trace", "tcp", "10.0.0.1:1", "10.1.0.77:2"]);
    assert_eq!(deaf.status.code(), Some(1));
    assert!(deaf.stdout.is_empty());
    let words = String::from_utf8_lossy(&deaf.stderr);
    assert_eq!(
        words,
        "error: 10.1.0.77 does not answer ICMP echo, so its distance is unknown\n"
    );
    let others = agent("h0", &["trace", "udp", "10.9.9.9:1", "10.1.0.1:2"]);
    assert_eq!(others.status.code(), Some(1));
    let words = String::from_utf8_lossy(&others.stderr);
    let text = "error: 10.9.9.9 is not an address of this host: a flow is traced at its source";
    assert!(words.starts_with(text), "{words}");
    let bad = agent("h0", &["trace", "sctp", "10.0.0.1:1", "10.1.0.1:2"]);
    assert_eq!(bad.status.code(), Some(2));
}

const UNIT_SUFFIXES: [&str; 7] = ["bytes", "us", "ns", "ms", "percent", "per_s", "share"];
/// Numbers of things, and what things are numbered by.
const COUNT_KEYS: &str = "\
    answered arrived back confirmed cpus dropped_packets duplicated flows foreign grown hardware hop index \
    iterations kernel lanes large_lost large_sent late lost lost_back lost_there malformed node numa_node of packets \
    packets_per_train port program refused reordered retransmits routers_back sent somewhere stalled streams \
    there total trains unknown_packets unsent unsent_forbidden unsent_no_room untimed";

/// The names of numbers that have no meaning without the program's sources.
fn nameless(name: &str, value: &Value) -> Vec<String> {
    let has_unit = UNIT_SUFFIXES.iter().any(|unit| {
        let rest = name.strip_suffix(unit);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    });
    match value {
        _ if has_unit => vec![],
        Value::Number(_) if COUNT_KEYS.split_whitespace().any(|count| count == name) => vec![],
        Value::Number(_) => vec![name.to_owned()],
        Value::Array(values) => values.iter().flat_map(|it| nameless(name, it)).collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, it)| nameless(name, it))
            .collect(),
        _ => vec![],
    }
}

fn every_figure_has_unit_or_counts() {
    let _fabric = Fabric::new();
    let _responder = Responder::start("h2", &["10.0.0.1"]);
    let to = host(2).to_string();
    let ends = [(host(0), 7), (host(2), 9)].map(|(host, port)| format!("{host}:{port}"));
    let asked: [&[&str]; 8] = [
        &["facts"],
        &["counters"],
        &["traffic", "--over-ms", "300"],
        &["flows", "--over-ms", "300"],
        &["trace", "udp", &ends[0], &ends[1]],
        &["trace", "udp", &ends[0], &ends[1], "--all"],
        &["probe", &to, "--over-ms", "1000"],
        &["bandwidth", &to, "--trains", "6"],
    ];
    let answer = asked.map(|words| json_of("h0", words));
    let nameless = answer.iter().flat_map(|it| nameless("", it));
    assert_eq!(nameless.collect::<Vec<_>>(), Vec::<String>::new());
}

fn json_log_ends_with_error_object() {
    let folder = tempfile::tempdir().expect("a folder");
    let identity = folder.path().join("none");
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave-agent"));
    command.args(["--log-format", "json", "run", "--coordinator", "127.0.0.1"]);
    let run = command.arg("--identity").arg(&identity).output();
    let run = run.expect("the program starts");
    assert_ne!(run.status.code(), Some(0));
    let words = String::from_utf8_lossy(&run.stderr);
    for line in words.lines() {
        let line: Value = serde_json::from_str(line).expect(line);
        assert!(line.pointer("/timestamp").is_some(), "{line}");
    }
    let last = words.lines().last().expect("it says why it ends");
    let last: Value = serde_json::from_str(last).expect("it was read");
    let message = last.pointer("/fields/message").and_then(Value::as_str);
    let names_it = message.is_some_and(|it| it.contains(&*identity.to_string_lossy()));
    assert!(names_it && last["level"] == "ERROR", "{last}");
}
