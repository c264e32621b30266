//! What measuring costs a cluster, as tshark counts it, and the traffic matrix beside it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_tests::{Job, Leadership, PATIENCE, Stage, wait_for};

use crate::needs::{Need, trial};
use crate::play::{must, once_right};
use crate::scene::{agent, host, lab, pair};

const NEEDS: &[Need] = &[Need::Lab, Need::Program("tshark")];
const WITH_IPERF3: &[Need] = &[Need::Lab, Need::Program("tshark"), Need::Program("iperf3")];
/// Every host computes for a while, and then sends to the next.
const JOB: &str = "[[job]]\nname = \"train\"\npattern = \"ring-allreduce\"\nbytes = 4_000_000\n\
                   compute_ms = 400\niterations = 1_000_000\n\
                   hosts = [\"h0\", \"h1\", \"h2\", \"h3\", \"h4\", \"h5\", \"h6\", \"h7\"]\n";
/// The slowest link of a host in the lab's fabric, of which measuring takes one part in a thousand.
const SLOWEST_BITS_PER_S: f64 = 400e6;
const MEASURING: f64 = 0.001;
const WATCHED: Duration = Duration::from_secs(60);
/// From which probes go, and trains.
const PROBE_PORTS: std::ops::Range<u16> = 7400..7404;
const TRAIN_PORTS: std::ops::Range<u16> = 7432..7436;
/// Less is no job's data.
const DATA_BYTES: u64 = 1000;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "the_traffic_matrix_is_what_tshark_counts",
            WITH_IPERF3,
            || {
                once_right(matrix, Matrix::agree);
            },
        ),
        trial(
            "probes_and_trains_stay_below_their_caps_and_trains_in_the_gaps",
            NEEDS,
            || {
                once_right(measuring_beside_a_job, Measuring::is_right);
            },
        ),
    ]
}

/// Packets as tshark saw them.
#[derive(Debug, Clone, Copy)]
struct Packet {
    at_s: f64,
    ends: [Ipv4Addr; 2],
    bytes: u64,
    /// Of UDP.
    source_port: Option<u16>,
}

/// tshark on the first interface of a node, until it is asked what it saw.
struct Shark {
    child: Child,
    file: std::path::PathBuf,
}

impl Shark {
    fn start(stage: &Stage, node: &str, filter: &str) -> Self {
        let file = stage.path(&format!("{node}.pcapng"));
        let mut command: Command = stage.inside(node, "tshark");
        let words = [
            "-q", "-i", "eth0", "-s", "64", "-B", "64", "-f", filter, "-w",
        ];
        let quiet = command.args(words).arg(&file).stderr(Stdio::null());
        let shark = Self {
            child: quiet.spawn().expect("tshark starts"),
            file,
        };
        must(wait_for("tshark captures", PATIENCE, || {
            let written = std::fs::metadata(&shark.file).is_ok_and(|it| it.len() > 0);
            Ok(written.then_some(()))
        }));
        shark
    }

    fn seen(mut self, stage: &Stage, node: &str) -> Vec<Packet> {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, Signal::SIGINT).expect("it runs");
        let _ = self.child.wait();
        let file = self.file.to_string_lossy();
        let mut words = vec!["tshark", "-r", &file, "-T", "fields"];
        for field in [
            "frame.time_epoch",
            "ip.src",
            "ip.dst",
            "frame.len",
            "udp.srcport",
        ] {
            words.extend(["-e", field]);
        }
        let said = must(stage.output(node, &words));
        said.lines().filter_map(packet).collect()
    }
}

fn packet(line: &str) -> Option<Packet> {
    let fields: Vec<_> = line.split('\t').collect();
    let [at, source, destination, bytes, port] = fields.as_slice() else {
        return None;
    };
    Some(Packet {
        at_s: at.parse().ok()?,
        ends: [source.parse().ok()?, destination.parse().ok()?],
        bytes: bytes.parse().ok()?,
        source_port: port.parse().ok(),
    })
}

/// Bytes to the other host and from it, by the agent and by tshark.
#[derive(Debug)]
struct Matrix {
    agents: [u64; 2],
    tsharks: [u64; 2],
}

impl Matrix {
    fn agree(&self) -> bool {
        let pairs = self.agents.iter().zip(&self.tsharks);
        let near = |(ours, theirs): (&u64, &u64)| {
            (*ours as f64 / *theirs as f64 - 1.0).abs() <= 0.01 && *theirs > 100_000
        };
        pairs.into_iter().all(near)
    }
}

fn matrix() -> Matrix {
    let stage = lab(&pair(0, 0.2), "");
    for node in ["a", "b"] {
        // Packets as they go on a wire, which captures see otherwise when they are large.
        let cut = ["ip", "link", "set", "eth0", "gso_max_segs", "1"];
        must(stage.output(node, &cut));
    }
    let shark = Shark::start(&stage, "a", "tcp");
    let mut server = stage.inside("b", "iperf3");
    let server = server.args(["-s", "-1"]).stdout(Stdio::null()).spawn();
    let mut server = server.expect("iperf3 starts");
    // Both ways, one after the other, within what the agent watches.
    let transfer = "until iperf3 -c b -t 3 --bidir >/dev/null; do sleep 0.2; done";
    let mut client = stage.inside("a", "sh");
    let client = client.args(["-c", &format!("sleep 3; {transfer}")]).spawn();
    let mut client = client.expect("a shell starts");
    let told = agent(&stage, "a", &["traffic", "--over-ms", "12000"]);
    let _ = (client.wait(), server.kill(), server.wait());
    let packets = shark.seen(&stage, "a");
    let peers = told["peers"].as_array().expect("a list");
    let other = host(1).to_string();
    let peer = peers.iter().find(|it| it["peer"] == other.as_str());
    let peer = peer.expect("the other host is a peer");
    println!("counted by {}: {peer}", told["source"]);
    let bytes = |way: &str| peer[way]["bytes"].as_u64().expect("a count");
    let to = |end: usize| {
        let there = packets.iter().filter(move |it| it.ends[end] == host(1));
        there.map(|it| it.bytes).sum()
    };
    Matrix {
        agents: [bytes("sent"), bytes("received")],
        tsharks: [to(1), to(0)],
    }
}

/// What one host sent to measure, while its job ran.
#[derive(Debug)]
struct Measuring {
    watched_s: f64,
    probe_bytes: u64,
    train_bytes: u64,
    trains: usize,
    /// Between the first and the last packet of which the job sent or received.
    beside_the_job: usize,
    /// Paths of which the coordinator knows something by trains.
    told: usize,
}

impl Measuring {
    fn is_right(&self) -> bool {
        let most = SLOWEST_BITS_PER_S / 8.0 * MEASURING * self.watched_s;
        self.probe_bytes > 0
            && (self.probe_bytes as f64) < most
            && (self.train_bytes as f64) < most
            && self.trains >= 3
            && self.beside_the_job * 10 <= self.trains
            && self.told > 0
    }
}

fn measuring_beside_a_job() -> Measuring {
    let fabric = include_str!("../lab/scenarios/two-leaves.toml");
    let mut stage = lab(fabric, JOB);
    must(stage.lead(&Leadership::default()));
    must(stage.start_agents());
    must(stage.wait_until_known());
    let shark = Shark::start(&stage, "h0", "tcp or udp port 7333");
    let mut job: Job = must(stage.job("train"));
    let began = Instant::now();
    must(job.watch(WATCHED));
    let watched_s = began.elapsed().as_secs_f64();
    let told = must(stage.operator().status()).bandwidths.len();
    let packets = shark.seen(&stage, "h0");
    drop(job);
    measuring(&packets, watched_s, told)
}

fn measuring(packets: &[Packet], watched_s: f64, told: usize) -> Measuring {
    let own = |ports: &std::ops::Range<u16>| {
        let (from, ports) = (host(0), ports.clone());
        let sent = packets.iter().filter(move |it| it.ends[0] == from);
        sent.filter(move |it| it.source_port.is_some_and(|port| ports.contains(&port)))
    };
    let bytes = |ports| own(&ports).map(|it| it.bytes).sum();
    let data = packets
        .iter()
        .filter(|it| it.source_port.is_none() && it.bytes > DATA_BYTES);
    let data: Vec<_> = data.map(|it| it.at_s).collect();
    let trains = trains(own(&TRAIN_PORTS).filter(|it| it.bytes > DATA_BYTES));
    let beside = |[first, last]: &&[f64; 2]| data.iter().any(|at| (*first..=*last).contains(at));
    Measuring {
        watched_s,
        probe_bytes: bytes(PROBE_PORTS),
        train_bytes: bytes(TRAIN_PORTS),
        trains: trains.len(),
        beside_the_job: trains.iter().filter(beside).count(),
        told,
    }
}

/// When each train's first and last packet went.
fn trains<'p>(packets: impl Iterator<Item = &'p Packet>) -> Vec<[f64; 2]> {
    let mut by_port: BTreeMap<_, Vec<[f64; 2]>> = BTreeMap::new();
    for packet in packets {
        let trains = by_port
            .entry((packet.source_port, packet.ends))
            .or_default();
        match trains.last_mut() {
            Some(last) if packet.at_s - last[1] < 0.5 => last[1] = packet.at_s,
            _ => trains.push([packet.at_s; 2]),
        }
    }
    by_port.into_values().flatten().collect()
}
