//! The traffic matrix of a host that exchanges with several others, both ways, by TCP and by UDP: what its
//! agent counts in the kernel, against what tshark counts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Child, Stdio};

use libtest_mimic::Trial;
use reweave_tests::Stage;
use serde_json::Value;

use crate::needs::{Need, trial};
use crate::play::must;
use crate::scene::{host, lab};
use crate::shark::{Packet, Shark};

const NEEDS: &[Need] = &[Need::Lab, Need::Program("tshark"), Need::Program("iperf3")];
const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                      host_gbps = 0.2\nuplink_gbps = 0.2\n";
/// Whom h0 exchanges with: one on its own leaf, and two behind the spines.
const PEER_HOSTS: [u8; 3] = [1, 2, 3];
/// Of a second each; the transfers take 15 s.
const MAX_SAMPLES: usize = 120;
/// Each pair of hosts exchanges far more by each protocol.
const MIN_PAIR_BYTES: u64 = 500_000;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial("traffic_matrix_matches_tshark", NEEDS, || {
        let matrix = matrix();
        assert!(matrix.agree(), "{matrix:?}");
    })]
}

/// What was exchanged with a host by a protocol, in a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    peer: Ipv4Addr,
    is_udp: bool,
    is_sent: bool,
}

type Cells = BTreeMap<Cell, u64>;

#[derive(Debug)]
struct Matrix {
    sources: BTreeSet<String>,
    /// By flows, which have protocols.
    agents: Cells,
    /// Of each peer, sent and received, by all protocols.
    agents_peers: BTreeMap<Ipv4Addr, [u64; 2]>,
    tsharks: Cells,
}

impl Matrix {
    fn agree(&self) -> bool {
        let cells = cells();
        let agree = cells.iter().all(|cell| {
            let theirs = self.tsharks.get(cell).copied().unwrap_or(0);
            theirs > MIN_PAIR_BYTES && is_near(self.agents.get(cell).copied(), theirs)
        });
        agree
            && self.sources == ["ebpf".to_owned()].into()
            && PEER_HOSTS.iter().all(|&peer| self.agree_on(host(peer)))
    }

    fn agree_on(&self, peer: Ipv4Addr) -> bool {
        let ours = self.agents_peers.get(&peer);
        [true, false].into_iter().enumerate().all(|(way, is_sent)| {
            let both = self.tsharks.iter();
            let theirs = both.filter(|(cell, _)| cell.peer == peer && cell.is_sent == is_sent);
            is_near(ours.map(|it| it[way]), theirs.map(|(_, bytes)| bytes).sum())
        })
    }
}

fn is_near(ours: Option<u64>, theirs: u64) -> bool {
    ours.is_some_and(|ours| (ours as f64 / theirs as f64 - 1.0).abs() <= 0.01)
}

fn cells() -> Vec<Cell> {
    let mut cells = vec![];
    for peer in PEER_HOSTS.map(host) {
        for (is_udp, is_sent) in [(false, false), (false, true), (true, false), (true, true)] {
            cells.push(Cell {
                peer,
                is_udp,
                is_sent,
            });
        }
    }
    cells
}

fn matrix() -> Matrix {
    let stage = lab(FABRIC, "");
    for node in ["h0", "h1", "h2", "h3"] {
        // Packets as they go on a wire, which captures see otherwise when they are large.
        let cut = ["ip", "link", "set", "eth0", "gso_max_segs", "1"];
        must(stage.output(node, &cut));
    }
    let shark = Shark::start(&stage, "h0", "tcp or udp");
    let mut servers: Vec<_> = PEER_HOSTS.iter().map(|peer| serve(&stage, *peer)).collect();
    let samples = traffic_of_transfers(&stage);
    for server in &mut servers {
        let _ = (server.kill(), server.wait());
    }
    let source = |sample: &Value| sample["source"].as_str().map(str::to_owned);
    let matrix = Matrix {
        sources: samples.iter().filter_map(source).collect(),
        agents: by_flows(&samples),
        agents_peers: by_peers(&samples),
        tsharks: by_packets(&shark.seen(&stage, "h0")),
    };
    println!("{matrix:#?}");
    matrix
}

/// What the agent counts each second, from before the first transfer until no peer sends any longer.
fn traffic_of_transfers(stage: &Stage) -> Vec<Value> {
    let words = "traffic --watch --over-ms 1000 --output json";
    let mut agent = stage.inside("h0", stage.programs().agent());
    agent.args(words.split(' ')).stdout(Stdio::piped());
    let mut agent = agent.spawn().expect("the agent starts");
    let lines = BufReader::new(agent.stdout.take().expect("a pipe")).lines();
    let mut samples = lines.map(|line| -> Value {
        serde_json::from_str(&line.expect("text")).expect("one JSON object")
    });
    samples.next().expect("it counts");
    let mut client = transfer(stage);
    let mut traffic = vec![];
    for _ in 0..MAX_SAMPLES {
        let has_ended = client.try_wait().expect("a shell runs").is_some();
        let sample = samples.next().expect("the agent goes on");
        let is_quiet = sample["peers"].as_array().is_some_and(Vec::is_empty);
        traffic.push(sample);
        if has_ended && is_quiet {
            break;
        }
    }
    let _ = (agent.kill(), agent.wait());
    let status = client.try_wait().expect("a shell runs");
    let has_sent_all = status.is_some_and(|status| status.success());
    let _ = (client.kill(), client.wait());
    assert!(has_sent_all, "{status:?} after {} samples", traffic.len());
    traffic
}

fn serve(stage: &Stage, peer: u8) -> Child {
    let mut server = stage.inside(&format!("h{peer}"), "iperf3");
    let server = server.arg("-s").stdout(Stdio::null()).spawn();
    server.expect("iperf3 starts")
}

/// Both ways at once, by each protocol, with one host after the other.
fn transfer(stage: &Stage) -> Child {
    let script = "for peer in h1 h2 h3; do \
                  until iperf3 -c $peer -t 2 --bidir >/dev/null; do sleep 0.2; done; \
                  until iperf3 -c $peer -u -b 20M -t 2 --bidir >/dev/null; do sleep 0.2; done; \
                  done";
    let mut client = stage.inside("h0", "sh");
    let client = client.args(["-c", script]).spawn();
    client.expect("a shell starts")
}

/// All entries of these lists in the agent's samples.
fn entries<'t>(samples: &'t [Value], list: &'static str) -> impl Iterator<Item = &'t Value> {
    let entries = move |sample: &'t Value| sample[list].as_array().expect("a list");
    samples.iter().flat_map(entries)
}

fn by_flows(samples: &[Value]) -> Cells {
    let mut cells = Cells::new();
    for it in entries(samples, "flows") {
        let is_sent = it["received"] == false;
        let end = if is_sent { "destination" } else { "source" };
        let end = it["flow"][end].as_str().and_then(|it| it.parse().ok());
        let end: SocketAddrV4 = end.expect("an address and a port");
        let cell = Cell {
            peer: *end.ip(),
            is_udp: it["flow"]["protocol"] == "udp",
            is_sent,
        };
        *cells.entry(cell).or_default() += it["bytes"].as_u64().expect("a count");
    }
    cells
}

fn by_peers(samples: &[Value]) -> BTreeMap<Ipv4Addr, [u64; 2]> {
    let mut peers = BTreeMap::<_, [u64; 2]>::new();
    for it in entries(samples, "peers") {
        let peer: Ipv4Addr = it["peer"]
            .as_str()
            .and_then(|it| it.parse().ok())
            .expect("an address");
        let sum = peers.entry(peer).or_default();
        for (sum, way) in sum.iter_mut().zip(["sent", "received"]) {
            *sum += it[way]["bytes"].as_u64().expect("a count");
        }
    }
    peers
}

fn by_packets(packets: &[Packet]) -> Cells {
    let mut cells = Cells::new();
    for it in packets {
        let is_sent = it.ends[0] == host(0);
        let cell = Cell {
            peer: it.ends[usize::from(is_sent)],
            is_udp: it.source_port.is_some(),
            is_sent,
        };
        *cells.entry(cell).or_default() += it.bytes;
    }
    cells
}
