//! Measures the cost of a history: bytes on disk by kind and resolution, CPU seconds, and memory.
//!
//!     cargo run --release -p reweave-history --example cost -- FOLDER AGENTS SECONDS
//!
//! Each agent reports once a second 2 links, 8 flows, 64 probed pairs and itself. Figures vary like measured ones.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::LinkId;
use reweave_common::moment::Moment;
use reweave_common::probing::{ProbePart, ProbeReading, ProbeTally};
use reweave_common::sample::{Counters, FlowReading};
use reweave_common::split_mix::SplitMix64;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Rate};
use reweave_history::{Chronicle, Entry, Far, Probed, Rules};

/// The start at a full hour keeps merges out of the measurement, unless it is long.
const START_S: u64 = 1_795_183_200;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [folder, agents, seconds] = &arguments[..] else {
        eprintln!("give a folder that does not exist, how many agents, and how many seconds");
        std::process::exit(2);
    };
    let numbers = [agents, seconds].map(|text| text.parse::<u64>().expect("a whole number"));
    let [agents, seconds] = numbers;
    let crowd: Vec<_> = (0..agents).map(Agent::new).collect();
    let making_us = made_alone(&crowd);
    let mut chronicle = Chronicle::open(folder, Rules::default(), 1).expect("a folder to write to");
    let began_s = core_s();
    let mut rng = SplitMix64::new(1);
    for second in 0..seconds {
        let now = Moment::from_micros((START_S + second) * 1_000_000);
        chronicle.advance(now).expect("it can be written");
        for agent in &crowd {
            agent.tell(second, &mut rng, |entry| chronicle.observe(now, &entry));
        }
    }
    chronicle.close().expect("it can be written");
    report_bytes(folder, agents, seconds);
    let readings = (agents * seconds * READINGS_PER_S) as f64;
    let each_us = (core_s() - began_s) / readings * 1e6;
    println!(
        "{readings} readings: {:.2} us of a core each, and {making_us:.2} us to make one up",
        each_us - making_us
    );
    println!("{:.0} MiB at the most", peak_mib());
}

/// The number of readings of an agent per second.
const READINGS_PER_S: u64 = 1 + 2 + 64 + 8;

struct Agent {
    number: u64,
    name: Arc<str>,
    /// The path of its flows.
    hops: Arc<str>,
}

impl Agent {
    fn new(number: u64) -> Self {
        Self {
            number,
            name: format!("h{number}").into(),
            hops: format!("h{number}/{number} leaf0/7 spine1/9 leaf3/12").into(),
        }
    }

    fn tell(&self, second: u64, rng: &mut SplitMix64, mut observe: impl FnMut(Entry)) {
        let Self { number, name, hops } = self;
        let to: Arc<str> = "h1".into();
        observe(Entry::agent(name, true, Some(75)));
        for port in 0..2 {
            let far = Far {
                node: "leaf0",
                link: LinkId::from_index((number * 2 + port) as usize),
            };
            observe(Entry::link(name, Some(far), &counters(port, second, rng)));
        }
        for peer in 0..64 {
            let probed = Probed::of(&probes(*number, peer, rng));
            observe(Entry::probes(name, Some(&to), &probed));
        }
        for port in 0..8 {
            let reading = reading(*number, port, second, rng);
            let hops = Some(Arc::clone(hops));
            observe(Entry::flow(name, Some(&to), hops, &reading));
        }
    }
}

/// Returns the CPU time in microseconds to make each entry, without recording it.
fn made_alone(crowd: &[Agent]) -> f64 {
    let times = 1 + 2_000_000 / (crowd.len() as u64 * READINGS_PER_S);
    let began_s = core_s();
    for second in 0..times {
        for agent in crowd {
            agent.tell(second, &mut SplitMix64::new(1), |entry| {
                drop(black_box(entry));
            });
        }
    }
    (core_s() - began_s) / (times * READINGS_PER_S) as f64 / crowd.len() as f64 * 1e6
}

/// Returns the CPU time of this process by the kernel's count, in hundredths of a second.
fn core_s() -> f64 {
    let line = fs::read_to_string("/proc/self/stat").expect("Linux");
    let (_, fields) = line.rsplit_once(')').expect("a name in brackets");
    let ticks = fields.split_ascii_whitespace().skip(11).take(2);
    let ticks = ticks.map(|ticks| ticks.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() / 100.0
}

fn peak_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next());
    kib.and_then(|kib| kib.parse::<f64>().ok()).expect("a size") / 1024.0
}

fn address(agent: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 | (agent as u32))
}

fn rate(rng: &mut SplitMix64) -> Rate {
    Rate::from_bits_per_s(380_000_000_000 + rng.below_u64(20_000_000_000))
}

fn counters(port: u64, second: u64, rng: &mut SplitMix64) -> Counters {
    Counters {
        interface: format!("eth{port}"),
        up: true,
        sent: Bytes::new(second * 48_000_000_000 + rng.below_u64(1 << 30)),
        received: Bytes::new(second * 47_000_000_000 + rng.below_u64(1 << 30)),
        dropped_packets: 0,
        send_rate: Some(rate(rng)),
        receive_rate: Some(rate(rng)),
    }
}

fn flow(agent: u64, peer: u64, port: u64) -> FlowKey {
    let end = |agent, port| SocketAddrV4::new(address(agent), port);
    FlowKey {
        protocol: Protocol::Tcp,
        source: end(agent, 49_152 + port as u16),
        destination: end(agent + peer + 1, 5001),
    }
}

fn probes(agent: u64, peer: u64, rng: &mut SplitMix64) -> ProbeReading {
    let mut tally = ProbeTally {
        answered: 1,
        ..ProbeTally::default()
    };
    tally.times.record(
        ProbePart::Network,
        Duration::from_nanos(8_000 + rng.below_u64(4_000)),
    );
    ProbeReading {
        flow: flow(agent, peer, 0),
        tally,
    }
}

fn reading(agent: u64, port: u64, second: u64, rng: &mut SplitMix64) -> FlowReading {
    FlowReading {
        flow: flow(agent, port, port),
        bytes: Bytes::new(second * 6_000_000_000 + rng.below_u64(1 << 28)),
        rate: Some(rate(rng)),
        rtt: Some(TimeSpan::from_nanos(8_000 + rng.below_u64(4_000))),
        retransmits: Some(0),
    }
}

fn report_bytes(folder: &str, agents: u64, seconds: u64) {
    let mut bytes = BTreeMap::new();
    add_up(Path::new(folder), "", &mut bytes);
    let per_hour = 3_600_000.0 / (agents * seconds) as f64;
    for (what, bytes) in &bytes {
        println!(
            "{what}: {:.1} MB for 1000 agents in an hour",
            *bytes as f64 * per_hour / 1e6
        );
    }
}

fn add_up(folder: &Path, what: &str, bytes: &mut BTreeMap<String, u64>) {
    for entry in fs::read_dir(folder).expect("a folder to read").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if !path.is_dir() {
            let length = path.metadata().map_or(0, |data| data.len());
            *bytes.entry(what.to_owned()).or_default() += length;
        } else if name.starts_with("day=") || name.starts_with("hour=") {
            add_up(&path, what, bytes);
        } else {
            add_up(&path, &format!("{what} {name}"), bytes);
        }
    }
}
