//! What measuring costs a cluster, as tshark counts it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use reweave_tests::{Job, Leadership};

use crate::needs::{Need, trial};
use crate::play::must;
use crate::scene::{host, lab};
use crate::shark::{Packet, Shark};
use crate::timed::timed_value;

const NEEDS: &[Need] = &[Need::Lab, Need::Program("tshark")];
/// Every host computes for a while, and then sends to the next.
const JOB: &str = "[[job]]\nname = \"train\"\npattern = \"ring-allreduce\"\nbytes = 4_000_000\n\
                   compute_ms = 400\niterations = 1_000_000\n\
                   hosts = [\"h0\", \"h1\", \"h2\", \"h3\", \"h4\", \"h5\", \"h6\", \"h7\"]\n";
/// The slowest link of a host in the lab's fabric, of which measuring takes one part in a thousand.
const MIN_LINK_BITS_PER_S: f64 = 400e6;
const MAX_MEASURING_SHARE: f64 = 0.001;
const WATCH_TIME: Duration = Duration::from_secs(60);
/// From which probes go, and trains.
const PROBE_SOURCE_PORTS: std::ops::Range<u16> = 7400..7404;
const TRAIN_SOURCE_PORTS: std::ops::Range<u16> = 7432..7436;
/// Less is no job's data.
const MAX_CONTROL_BYTES: u64 = 1000;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial("timed_probe_traffic_within_caps", NEEDS, || {
        timed_value(
            "the cost of measuring",
            measuring_beside_a_job,
            Measuring::is_right,
        );
    })]
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
    known_paths: usize,
}

impl Measuring {
    fn is_right(&self) -> bool {
        let most = MIN_LINK_BITS_PER_S / 8.0 * MAX_MEASURING_SHARE * self.watched_s;
        self.probe_bytes > 0
            && (self.probe_bytes as f64) < most
            && (self.train_bytes as f64) < most
            && self.trains >= 3
            && self.beside_the_job * 10 <= self.trains
            && self.known_paths > 0
    }
}

fn measuring_beside_a_job() -> Measuring {
    let fabric = include_str!("../lab/scenarios/two-leaves.toml");
    let mut stage = lab(fabric, JOB);
    must(stage.lead(&Leadership::default()));
    must(stage.start_agents());
    must(stage.wait_until_known());
    let shark = Shark::start(&stage, "h0", "tcp or udp port 7333");
    let job: Job = must(stage.job("train"));
    let began = Instant::now();
    must(job.watch(WATCH_TIME));
    let watched_s = began.elapsed().as_secs_f64();
    let known_paths = must(stage.operator().status()).bandwidths.len();
    let packets = shark.seen(&stage, "h0");
    drop(job);
    measuring(&packets, watched_s, known_paths)
}

fn measuring(packets: &[Packet], watched_s: f64, known_paths: usize) -> Measuring {
    let own = |ports: &std::ops::Range<u16>| {
        let (from, ports) = (host(0), ports.clone());
        let sent = packets.iter().filter(move |it| it.ends[0] == from);
        sent.filter(move |it| it.source_port.is_some_and(|port| ports.contains(&port)))
    };
    let bytes = |ports| own(&ports).map(|it| it.bytes).sum();
    let data = packets
        .iter()
        .filter(|it| it.source_port.is_none() && it.bytes > MAX_CONTROL_BYTES);
    let data: Vec<_> = data.map(|it| it.at_s).collect();
    let trains = trains(own(&TRAIN_SOURCE_PORTS).filter(|it| it.bytes > MAX_CONTROL_BYTES));
    let beside = |[first, last]: &&[f64; 2]| data.iter().any(|at| (*first..=*last).contains(at));
    Measuring {
        watched_s,
        probe_bytes: bytes(PROBE_SOURCE_PORTS),
        train_bytes: bytes(TRAIN_SOURCE_PORTS),
        trains: trains.len(),
        beside_the_job: trains.iter().filter(beside).count(),
        known_paths,
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
