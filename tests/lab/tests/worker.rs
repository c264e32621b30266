//! Ranks as real processes, on addresses of the loopback interface.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use reweave_common::ids::Rank;
use reweave_common::units::Bytes;
use reweave_common::workload::{Pattern, Program, Step};
use serde_json::{Value, json};

const TRANSPORTS: [&str; 2] = ["tcp", "udp"];
const FLOWS_PER_PAIR: usize = 2;
/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// More than any test lets happen.
const ENDLESS: u32 = 1_000_000;

/// A job whose ranks all run on this machine, each with an address of its own.
struct Job {
    ranks: Vec<Process>,
    flows: Vec<Flow>,
}

struct Process {
    child: Child,
    said: Receiver<Value>,
}

/// Which ranks a flow joins, and its ends.
#[derive(Clone)]
struct Flow {
    pair: [usize; 2],
    nth: usize,
    ends: [SocketAddrV4; 2],
}

/// Addresses that no other test uses, in this process or in others.
fn unused_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let process = std::process::id();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    Ipv4Addr::new(127, 16 + (process >> 8) as u8 % 200, process as u8, last)
}

/// Bytes that an iteration moves between each pair.
fn volumes(programs: &[Program]) -> BTreeMap<[usize; 2], u64> {
    let mut volumes = BTreeMap::new();
    for (from, program) in programs.iter().enumerate() {
        for step in program {
            let Step::Exchange { sends, .. } = step else {
                continue;
            };
            for send in sends {
                *volumes.entry([from, send.peer.index()]).or_default() += send.bytes.count();
            }
        }
    }
    volumes
}

fn flows(programs: &[Program], transport: &str) -> Vec<Flow> {
    let addresses: Vec<_> = programs.iter().map(|_| unused_address()).collect();
    let port = if transport == "udp" { 4791 } else { 5001 };
    let flow = |(id, (pair, nth)): (usize, ([usize; 2], usize))| {
        let [from, to]: [usize; 2] = pair;
        let source = SocketAddrV4::new(addresses[from], 0xC000 + id as u16);
        let ends = [source, SocketAddrV4::new(addresses[to], port)];
        Flow { pair, nth, ends }
    };
    let pairs = volumes(programs).into_keys();
    let flows = pairs.flat_map(|pair| (0..FLOWS_PER_PAIR).map(move |nth| (pair, nth)));
    flows.enumerate().map(flow).collect()
}

fn assignment(
    rank: usize,
    program: &Program,
    iterations: u32,
    transport: &str,
    flows: &[Flow],
) -> Value {
    let own = flows
        .iter()
        .enumerate()
        .filter(|(_, flow)| flow.pair.contains(&rank));
    let own = own.map(|(id, Flow { pair, nth, ends })| {
        json!({"id": id, "from": pair[0], "to": pair[1], "nth": nth, "source": ends[0], "destination": ends[1]})
    });
    let flows: Vec<_> = own.collect();
    json!({"rank": rank, "program": program, "iterations": iterations, "transport": transport, "flows": flows})
}

impl Job {
    /// All ranks are connected, and nothing is sent yet.
    fn launch(programs: &[Program], iterations: u32, transport: &str) -> Self {
        let flows = flows(programs, transport);
        let start = |(rank, program)| {
            let mut process = Process::start();
            process.tell(&assignment(rank, program, iterations, transport, &flows));
            process
        };
        let ranks = programs.iter().enumerate().map(start).collect();
        let mut job = Self { ranks, flows };
        job.hear_from_all("listening");
        job.tell_all("connect");
        job.hear_from_all("connected");
        job
    }

    fn tell_all(&mut self, order: &str) {
        for rank in &mut self.ranks {
            rank.tell(&json!(order));
        }
    }

    fn hear_from_all(&mut self, word: &str) {
        for rank in &self.ranks {
            assert_eq!(rank.hear(), json!(word));
        }
    }

    /// The ids and ends of the flows between two ranks.
    fn flows_of(&self, pair: [usize; 2]) -> impl Iterator<Item = (usize, &Flow)> {
        self.flows
            .iter()
            .enumerate()
            .filter(move |(_, flow)| flow.pair == pair)
    }
}

impl Process {
    fn start() -> Self {
        let mut child = worker();
        let stdout = child.stdout.take().unwrap();
        let (tell, said) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let value = serde_json::from_str(&line.unwrap()).unwrap();
                let _ = tell.send(value);
            }
        });
        Self { child, said }
    }

    fn tell(&mut self, order: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{order}").unwrap();
    }

    fn hear(&self) -> Value {
        self.said
            .recv_timeout(DEADLINE)
            .expect("a rank says something in time")
    }

    /// What stands in the next event of this name; others are passed over.
    fn hear_of(&self, event: &str) -> Value {
        let deadline = Instant::now() + DEADLINE;
        while Instant::now() < deadline {
            if let Some(value) = self.hear().get_mut(event) {
                return value.take();
            }
        }
        panic!("no {event} in time");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn worker() -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reweave-lab"));
    command
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The report on a flow.
fn flow_report(report: &Value, side: &str, id: usize) -> Value {
    let flows = report[side].as_array().unwrap();
    flows.iter().find(|flow| flow["id"] == id).unwrap().clone()
}

fn ring(ranks: usize) -> Vec<Program> {
    Pattern::RingAllReduce.programs(ranks, Bytes::new(1_000_000))
}

/// Runs a job to its end, and compares what its ranks report with what their programs say.
fn completes(pattern: &Pattern, ranks: usize, transport: &str) {
    const ITERATIONS: u32 = 3;
    let place = format!("{pattern:?} over {transport}");
    let mut programs = pattern.programs(ranks, Bytes::new(500_003));
    programs[0].insert(0, Step::Compute(Duration::from_millis(5)));
    let mut job = Job::launch(&programs, ITERATIONS, transport);
    job.tell_all("start");
    for rank in &job.ranks {
        for index in 0..ITERATIONS {
            assert_eq!(rank.hear_of("iteration")["index"], index, "{place}");
        }
    }
    let reports: Vec<_> = job
        .ranks
        .iter()
        .map(|rank| rank.hear_of("report"))
        .collect();
    for report in &reports {
        assert_eq!(
            (&report["broken"], &report["stopped"]),
            (&json!(null), &json!(false)),
            "{place}"
        );
    }
    for (pair, bytes) in volumes(&programs) {
        for (side, rank) in [("sent", pair[0]), ("received", pair[1])] {
            let reported = job
                .flows_of(pair)
                .map(|(id, _)| flow_report(&reports[rank], side, id));
            let reported: Vec<_> = reported.collect();
            let total: u64 = reported
                .iter()
                .map(|flow| flow["bytes"].as_u64().unwrap())
                .sum();
            assert_eq!(
                total,
                bytes * u64::from(ITERATIONS),
                "{pair:?} {side}, {place}"
            );
            for flow in reported {
                let seen =
                    ["connections", "resets", "corrupted"].map(|key| flow[key].as_u64().unwrap());
                assert_eq!(seen, [1, 0, 0], "{place}: {flow}");
            }
        }
    }
}

#[test]
fn every_pattern_completes_over_every_transport() {
    let pairs = [[0, 2], [1, 2], [0, 1]]
        .map(|pair| pair.map(Rank::from_index))
        .to_vec();
    let patterns = [
        (Pattern::RingAllReduce, 4),
        (Pattern::HierarchicalAllReduce { group_size: 2 }, 4),
        (Pattern::AllToAll, 4),
        (Pattern::Pipeline { microbatches: 2 }, 3),
        (Pattern::Streams { pairs }, 3),
    ];
    for transport in TRANSPORTS {
        for (pattern, ranks) in &patterns {
            completes(pattern, *ranks, transport);
        }
    }
}

#[test]
fn datagrams_tell_what_became_of_them() {
    let mut job = Job::launch(&ring(2), 1, "udp");
    job.tell_all("start");
    let report = job.ranks[0].hear_of("report");
    for (id, _) in job.flows_of([0, 1]) {
        let flow = flow_report(&report, "sent", id);
        for key in ["retransmits", "lost", "rtt_us"] {
            assert!(flow[key].is_u64(), "{key} in {flow}");
        }
        assert_eq!(flow["lost"], 0, "a loopback loses nothing: {flow}");
    }
}

#[test]
fn the_peers_of_a_killed_rank_name_the_flow_that_broke() {
    for transport in TRANSPORTS {
        let mut job = Job::launch(&ring(4), ENDLESS, transport);
        job.tell_all("start");
        job.ranks[1].hear_of("iteration");
        job.ranks[1].child.kill().unwrap();
        for (peer, pair, side) in [(0, [0, 1], "sent"), (2, [1, 2], "received")] {
            let report = job.ranks[peer].hear_of("report");
            let broken = report["broken"].as_str().unwrap();
            let named = job.flows_of(pair).any(|(_, flow)| {
                let [source, destination] = flow.ends;
                broken.contains(&format!("flow {source} > {destination}: "))
            });
            assert!(named, "{transport}: {broken}");
            let resets = job
                .flows_of(pair)
                .map(|(id, _)| flow_report(&report, side, id)["resets"].as_u64());
            assert!(resets.flatten().sum::<u64>() > 0, "{transport}: {report}");
        }
    }
}

#[test]
fn a_rank_that_is_stopped_reports_at_once() {
    for transport in TRANSPORTS {
        let mut job = Job::launch(&ring(3), ENDLESS, transport);
        job.tell_all("start");
        for rank in &job.ranks {
            rank.hear_of("iteration");
        }
        job.tell_all("stop");
        for rank in &job.ranks {
            let report = rank.hear_of("report");
            assert_eq!(report["stopped"], true, "{transport}: {report}");
            assert_eq!(report["broken"], json!(null), "{transport}: {report}");
            assert!(
                report["received"][0]["bytes"].as_u64().unwrap() > 0,
                "{transport}: {report}"
            );
        }
    }
}

#[test]
fn a_rank_that_is_stopped_before_it_starts_has_done_nothing() {
    let mut job = Job::launch(&ring(2), 1, "udp");
    job.tell_all("stop");
    let report = job.ranks[0].hear_of("report");
    assert_eq!(
        (&report["stopped"], &report["sent"][0]["bytes"]),
        (&json!(true), &json!(0))
    );
}

#[test]
fn a_flow_to_nobody_is_an_error_that_names_it() {
    for transport in TRANSPORTS {
        let programs = ring(2);
        let flows = flows(&programs, transport);
        let lines = [
            assignment(0, &programs[0], 1, transport, &flows),
            json!("connect"),
        ];
        let output = answer(&lines.map(|line| line.to_string()).join("\n"));
        let said = String::from_utf8(output.stderr).unwrap();
        let [source, destination] = flows[0].ends;
        assert_eq!(output.status.code(), Some(1), "{transport}: {said}");
        assert!(
            said.starts_with(&format!(
                "error: cannot open flow {source} > {destination}: "
            )),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn what_is_no_assignment_is_one_clear_error() {
    let programs = ring(2);
    let sound = assignment(0, &programs[0], 1, "tcp", &[]);
    let with = |key: &str, value: Value| {
        let mut unsound = sound.clone();
        unsound[key] = value;
        unsound.to_string()
    };
    let lines = [
        String::new(),
        "listen!".to_owned(),
        json!({"rank": 0}).to_string(),
        with("transport", json!("carrier pigeon")),
        with("iterations", json!(-1)),
        with("colour", json!("blue")),
        format!("{sound}\n\"dance\""),
    ];
    for line in lines {
        let output = answer(&line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(
            said.starts_with("error: what stands on standard input is no work for a rank: "),
            "{line}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
    }
}

/// What a worker says to all that it is told at once.
fn answer(told: &str) -> Output {
    let mut child = worker();
    writeln!(child.stdin.take().unwrap(), "{told}").unwrap();
    child.wait_with_output().unwrap()
}
