//! Probes between hosts: what is measured, who is answered, and what strangers can do.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_agent::probing::{Engine, ProbeThread};
use reweave_agent_core::latency::{MAX_RATE, PROBE_WIRE_BYTES};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::probing::{PROBE_PORT, ProbeList, ProbePart, ProbeTally, Routers, Stamps};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;
use serde_json::Value;

use crate::commands::{agent, json_of, unprivileged};
use crate::fabric::{
    Fabric, flow, host, kernel_counter, nft_in, wait_for, wait_until_constant, within,
};
use crate::tests;

tests! {
    hosts_measure_mutual_latency,
    losses_are_split_by_direction needs "nft",
    unknown_probers_ignored_garbage_counted,
    probing_ends_without_fresh_list,
    no_list_exceeds_probe_rate,
    taken_port_costs_only_its_flows,
    operator_probes_without_coordinator,
    host_without_agent_loses_nothing,
    probing_needs_no_rights,
    remote_agent_confirms_trace needs "nft",
    agent_without_rights_confirms_nothing,
    interrupted_probe_prints_partial_result,
    taken_probe_port_is_reported,
}

const ALL: [Ipv4Addr; 4] = [
    Ipv4Addr::new(10, 0, 0, 1),
    Ipv4Addr::new(10, 0, 1, 1),
    Ipv4Addr::new(10, 1, 0, 1),
    Ipv4Addr::new(10, 1, 1, 1),
];

fn probing(number: usize) -> ProbeThread {
    within(&format!("h{number}"), || {
        let mut engine = Engine::new(number as u64 + 1, Duration::from_millis(500));
        engine.answer_on(PROBE_PORT).expect("the port is free");
        ProbeThread::start(engine)
    })
}

pub(crate) fn probe(from: usize, to: usize, port: u16) -> FlowKey {
    let [source, destination] = [(host(from), port), (host(to), PROBE_PORT)];
    let end = |(host, port)| SocketAddrV4::new(host, port);
    flow(Protocol::Udp, end(source), end(destination))
}

pub(crate) fn list(flows: impl IntoIterator<Item = FlowKey>, roster: &[Ipv4Addr]) -> ProbeList {
    ProbeList {
        flows: flows.into_iter().collect(),
        period: TimeSpan::from_millis(10),
        most_rate: MAX_RATE,
        roster: roster.to_vec(),
        valid_for: TimeSpan::from_secs(60),
        trains_every: None,
    }
}

/// What comes of probes, merged, once it is enough.
fn measured(probing: &ProbeThread, enough: impl Fn(&ProbeTally) -> bool) -> ProbeTally {
    let mut merged = ProbeTally::default();
    wait_for("enough probes", || {
        for reading in probing.poll_readings() {
            merged.merge(&reading.tally);
        }
        enough(&merged).then(|| merged.clone())
    })
}

fn hosts_measure_mutual_latency() {
    let _fabric = Fabric::new();
    let [near, far] = [probing(0), probing(2)];
    far.handle_list(list([probe(2, 0, 7400)], &ALL));
    near.handle_list(list((7400..7404).map(|port| probe(0, 2, port)), &ALL));
    for probing in [&near, &far] {
        let tally = measured(probing, |tally| tally.answered >= 200);
        assert_eq!((tally.lost.count(), tally.reordered), (0, 0), "{tally:?}");
        let there = Routers { there: 3, back: 3 };
        assert_eq!(tally.routers, Some(there));
        assert_eq!(
            tally.stamped.mostly(),
            Some(Stamps::Kernel),
            "{:?}",
            tally.stamped
        );
        let [network, prober] =
            [ProbePart::Network, ProbePart::Prober].map(|part| tally.times.of(part).median());
        assert!(network > Some(Duration::ZERO));
        assert!(prober > Some(Duration::ZERO));
        assert!(tally.network().count() + u64::from(tally.untimed) >= tally.answered.into());
    }
}

fn losses_are_split_by_direction() {
    let _fabric = Fabric::new();
    let [near, _far] = [probing(0), answering(2)];
    // Every tenth probe is lost there, and every fifth answer back.
    nft_in(
        "leaf1",
        "table ip lossy { chain forward { type filter hook forward priority 0; \
         udp dport 7333 numgen inc mod 10 0 drop; udp sport 7333 numgen inc mod 5 0 drop; }; }",
    );
    near.handle_list(list((7400..7404).map(|port| probe(0, 2, port)), &[]));
    let tally = measured(&near, |tally| tally.sent() >= 1000);
    let share = |count: u32| f64::from(count) / tally.sent() as f64;
    let [there, back] = [tally.lost.there, tally.lost.back].map(share);
    assert!((there - 0.1).abs() < 0.01, "{:?}", tally.lost);
    assert!((back - 0.18).abs() < 0.015, "{:?}", tally.lost);
    let loss = tally.loss().expect("there were probes");
    assert!(loss.least < 0.28 && 0.28 < loss.most, "{loss:?}");
}

/// A host that only answers.
fn answering(number: usize) -> ProbeThread {
    let probing = probing(number);
    probing.handle_list(list([], &ALL));
    probing
}

fn unknown_probers_ignored_garbage_counted() {
    let _fabric = Fabric::new();
    let [near, far] = [probing(0), probing(2)];
    far.handle_list(list([], &ALL[..1]));
    near.handle_list(list([probe(0, 2, 7400)], &[]));
    measured(&near, |tally| tally.answered >= 20);
    let stranger = within("h1", || UdpSocket::bind((host(1), 7400)).expect("bind"));
    let to = (host(2), PROBE_PORT);
    let mut probe = [0; 64];
    probe[..5].copy_from_slice(b"RwP1\x01");
    let mut seed: u32 = 1;
    for turn in 0..2000_usize {
        // Probes, what is left of probes, and bytes of any length.
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let garbage: Vec<_> = (0..turn % 1400)
            .map(|at| (seed >> (at % 24)) as u8)
            .collect();
        stranger.send_to(&garbage, to).expect("sent");
        stranger.send_to(&probe[..turn % 64], to).expect("sent");
        if turn % 10 == 0 {
            stranger.send_to(&probe, to).expect("sent");
        }
    }
    // Nothing the stranger sent to the port that asks is taken for an answer either.
    for bytes in [&probe[..], &[0xff; 64], &[]] {
        stranger.send_to(bytes, (host(0), 7400)).expect("sent");
    }
    let strays = wait_for("the strays are counted", || {
        let strays = far.strays().answering;
        (strays.foreign > 0).then_some(strays)
    });
    assert!(strays.malformed > 0, "{strays:?}");
    wait_for("those at the port that asks", || {
        (near.strays().asking.malformed >= 2).then_some(())
    });
    assert!(near.strays().asking.foreign >= 1);
    // Probes that are answered from now on were behind the stranger's at the same socket.
    near.poll_readings();
    measured(&near, |tally| tally.answered >= 20);
    stranger.set_nonblocking(true).expect("a setting");
    assert!(
        stranger.recv(&mut [0; 64]).is_err(),
        "a stranger was answered"
    );
}

/// Datagrams that host 0 has sent.
fn sent() -> u64 {
    kernel_counter("h0", "Udp", "OutDatagrams")
}

fn probing_ends_without_fresh_list() {
    let _fabric = Fabric::new();
    let [near, _far] = [probing(0), answering(2)];
    let mut short = list([probe(0, 2, 7400)], &[]);
    short.valid_for = TimeSpan::from_millis(1500);
    // It is kept fresh that long: the machine may stall for longer than it is valid.
    measured(&near, |tally| {
        near.handle_list(short.clone());
        tally.answered >= 10
    });
    wait_until_constant(
        "the last of the probes of h0",
        Duration::from_millis(500),
        sent,
    );
}

fn no_list_exceeds_probe_rate() {
    let _fabric = Fabric::new();
    let [near, _far] = [probing(0), answering(2)];
    let mut greedy = list((7400..7408).map(|port| probe(0, 2, port)), &[]);
    greedy.period = TimeSpan::ZERO;
    greedy.most_rate = Rate::from_bits_per_s(176_000);
    near.handle_list(greedy);
    measured(&near, |tally| tally.answered >= 10);
    // Counted within the time that is measured, however long the test stands still in between.
    let begun = Instant::now();
    let before = sent();
    measured(&near, |tally| tally.answered >= 600);
    let sent = (sent() - before) as f64;
    let most = 176_000.0 / 8.0 / PROBE_WIRE_BYTES as f64 * begun.elapsed().as_secs_f64();
    assert!(
        sent <= most * 1.02 + 5.0,
        "{sent} probes where {most} may be"
    );
}

fn taken_port_costs_only_its_flows() {
    let _fabric = Fabric::new();
    let [near, _far] = [probing(0), answering(2)];
    let _taken = within("h0", || UdpSocket::bind((host(0), 7400)).expect("bind"));
    near.handle_list(list((7400..7402).map(|port| probe(0, 2, port)), &[]));
    let tally = measured(&near, |tally| tally.answered >= 50);
    assert_eq!(tally.lost.count() + tally.unsent.count(), 0, "{tally:?}");
}

/// The other side of a person's probes, until dropped.
pub(crate) struct Responder(Child);

impl Responder {
    pub(crate) fn start(node: &str, of: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_reweave-agent")), node, of)
    }

    fn start_without_rights(node: &str, of: &[&str]) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--user", env!("CARGO_BIN_EXE_reweave-agent")]);
        Self::start_by(command, node, of)
    }

    fn start_by(mut command: Command, node: &str, of: &[&str]) -> Self {
        command.args(["probe", "--respond"]).args(of);
        let start = || command.stderr(Stdio::null()).spawn();
        Self(within(node, start).expect("it starts"))
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn summary(answer: &Value, host: usize) -> &Value {
    &answer["hosts"][host]["summary"]
}

/// The summaries of a probe run. Probes in flight during a stall of the machine are discarded: a run in which a host lost
/// all of its probes that way is repeated.
fn probe_without_stall(mut probe: impl FnMut() -> Value) -> Value {
    let is_discarded = |host: &Value| {
        let it = &host["summary"];
        it["sent"] == 0 && it["stalled"].as_u64() > Some(0)
    };
    wait_for("probes during which the machine does not stall", || {
        let probe_result = probe();
        let mut hosts = probe_result["hosts"].as_array().expect("a list").iter();
        (!hosts.any(is_discarded)).then_some(probe_result)
    })
}

fn operator_probes_without_coordinator() {
    let _fabric = Fabric::new();
    let _responders = ["h1", "h2"].map(|node| Responder::start(node, &["10.0.0.1"]));
    let asked = [
        "probe",
        "10.0.1.1",
        "10.1.0.1",
        "--over-ms",
        "2000",
        "--rate",
        "100",
    ];
    let answer = probe_without_stall(|| json_of("h0", &asked));
    assert_eq!(answer["hosts"][0]["host"], "10.0.1.1");
    for (number, routers) in [(0, 1), (1, 3)] {
        let it = summary(&answer, number);
        assert!(it["sent"].as_u64() > Some(0), "{it}");
        assert_eq!(it["routers"]["there"], routers);
        assert!(it["network_us"]["median"].as_f64() > Some(0.0), "{it}");
        let paths = answer["hosts"][number]["paths"].as_array().expect("a list");
        assert_eq!(paths.len(), 4);
    }
    let heading = "host      sent  lost  there, back  loss, 95 %";
    let asked = ["probe", "10.0.1.1", "--over-ms", "3000", "--rate", "50"];
    let table = wait_for(
        "a table of probes during which the machine does not stall",
        || {
            let table = String::from_utf8(agent("h0", &asked).stdout).expect("UTF-8");
            assert!(table.starts_with(heading), "{table}");
            let mut row = table.lines().nth(1).expect("one host").split_whitespace();
            (row.nth(1) != Some("0")).then_some(table)
        },
    );
    assert!(table.contains("kernel"), "{table}");
}

fn interrupted_probe_prints_partial_result() {
    let _fabric = Fabric::new();
    let _responder = Responder::start("h2", &["10.0.0.1"]);
    let probe_result = probe_without_stall(interrupted_probe);
    let it = summary(&probe_result, 0);
    assert!(it["sent"].as_u64() > Some(0), "{it}");
}

fn interrupted_probe() -> Value {
    let before = sent();
    let probing = within("h0", || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reweave-agent"));
        command.args(["probe", "10.1.0.1", "--rate", "100"]);
        command.args(["--over-ms", "3600000", "--output", "json"]);
        command.stdout(Stdio::piped()).spawn().expect("it starts")
    });
    // The fate of a probe is decided a second after it was sent.
    wait_for("probes of more than a second", || {
        (sent() - before > 250).then_some(())
    });
    let pid = Pid::from_raw(probing.id().cast_signed());
    kill(pid, Signal::SIGINT).expect("it runs");
    let output = probing.wait_with_output().expect("it ends");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn host_without_agent_loses_nothing() {
    let _fabric = Fabric::new();
    let asked = ["probe", "10.1.0.1", "--over-ms", "3000", "--rate", "50"];
    let answer = probe_without_stall(|| json_of("h0", &asked));
    let it = summary(&answer, 0);
    assert_eq!(it["lost"], 0, "{it}");
    assert!(it["refused"].as_u64() > Some(0), "{it}");
    let table = agent("h0", &["probe", "10.1.0.1", "--over-ms", "1000"]);
    let words = String::from_utf8_lossy(&table.stderr);
    assert!(words.contains("probe --respond"), "{words}");
    let unresolved = agent("h0", &["probe", "no-such-host.invalid"]);
    assert_eq!(unresolved.status.code(), Some(2));
    let words = String::from_utf8_lossy(&unresolved.stderr);
    assert!(
        words.contains("no-such-host.invalid") && words.contains("IPv4"),
        "{words}"
    );
}

fn probing_needs_no_rights() {
    let _fabric = Fabric::new();
    let _responder = Responder::start("h2", &["10.0.0.1"]);
    let asked = ["probe", "10.1.0.1", "--over-ms", "2000", "--output", "json"];
    let probe_result = probe_without_stall(|| {
        let run = unprivileged("h0", &asked);
        let words = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{words}");
        serde_json::from_slice(&run.stdout).expect("one JSON object")
    });
    let it = summary(&probe_result, 0);
    assert!(it["stamped"]["kernel"].as_u64() > Some(0), "{it}");
    assert_eq!(it["unsent_forbidden"], 0, "{it}");
}

fn remote_agent_confirms_trace() {
    let _fabric = Fabric::new();
    let trace = ["trace", "udp", "10.0.0.1:40000", "10.1.0.1:4791"];
    let answer = json_of("h0", &trace);
    assert_eq!(
        (&answer["confirmed"], &answer["routers_back"]),
        (&Value::Bool(false), &Value::Null)
    );
    let _responder = Responder::start("h2", &["10.0.0.1"]);
    wait_for("the agent confirms", || {
        let answer = json_of("h0", &trace);
        let routers = answer["routers"].as_array().expect("a list").len();
        (answer["confirmed"] == true && routers == 3 && answer["routers_back"] == 3).then_some(())
    });
    // Where packets of this flow do not arrive, those of others confirm nothing.
    let drop_the_flow = "table ip narrow { chain on { type filter hook forward priority 0; udp dport 4791 drop; }; }";
    nft_in("leaf1", drop_the_flow);
    let answer = once_answered(&trace);
    assert_eq!(answer["confirmed"], false, "{answer}");
    nft_in("leaf1", "delete table ip narrow");
    // Where the host answers no echo, the agent's word is enough.
    nft_in(
        "h2",
        "table ip deaf { chain in { type filter hook input priority 0; icmp type echo-request drop; }; }",
    );
    wait_for("its word is enough", || {
        (json_of("h0", &trace)["confirmed"] == true).then_some(())
    });
}

/// On a busy machine the agent at the other end may answer too late to be heard.
fn once_answered(trace: &[&str]) -> Value {
    wait_for("the agent answers", || {
        let answer = json_of("h0", trace);
        (answer["routers_back"] == 3).then_some(answer)
    })
}

/// It answers probes, so it is known how far it is, and no more.
fn agent_without_rights_confirms_nothing() {
    let _fabric = Fabric::new();
    let _responder = Responder::start_without_rights("h2", &["10.0.0.1"]);
    let trace = ["trace", "tcp", "10.0.0.1:40000", "10.1.0.1:5001"];
    let report = once_answered(&trace);
    assert_eq!(report["confirmed"], false, "{report}");
    assert_eq!(report["routers"].as_array().map(Vec::len), Some(3));
}

/// As by a coordinator on the same machine, whose joins have this port by default.
fn taken_probe_port_is_reported() {
    let _fabric = Fabric::new();
    within("h0", || {
        let taken = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PROBE_PORT)).expect("the port is free");
        let mut engine = Engine::new(1, Duration::ZERO);
        engine.answer_after(PROBE_PORT);
        assert_eq!(engine.lack(), None);
        assert!(engine.handle_list(list([], &[])).is_err());
        let lack = engine.lack().expect("it answers no probe");
        assert!(lack.because.contains("7333"), "{lack:?}");
        assert!(lack.remedy.contains("`door`"), "{lack:?}");
        drop(taken);
        engine.handle_list(list([], &[])).expect("the port is free");
        assert_eq!(engine.lack(), None);
    });
}
