//! What a history costs: bytes on disk by kind and resolution, and time to write it.
//!
//!     cargo run --release -p reweave-history --example cost -- FOLDER AGENTS SECONDS
//!
//! Each agent tells once a second of 2 links, 8 flows, 64 probed pairs and itself; figures vary as
//! measured ones do.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::{Duration, Instant};

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::LinkId;
use reweave_common::moment::Moment;
use reweave_common::probing::{ProbeReading, Tally};
use reweave_common::sample::{Counters, FlowReading};
use reweave_common::units::{Bytes, Rate};
use reweave_history::{Chronicle, Entry, Far, Rules};

/// Whole hours keep the merging out of the measurement unless it is long.
const START_S: u64 = 1_795_183_200;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [folder, agents, seconds] = &arguments[..] else {
        eprintln!("give a folder that does not exist, how many agents, and how many seconds");
        std::process::exit(2);
    };
    let numbers = [agents, seconds].map(|text| text.parse::<u64>().expect("a whole number"));
    let [agents, seconds] = numbers;
    let mut chronicle = Chronicle::open(folder, Rules::default(), 1).expect("a folder to write to");
    let began = Instant::now();
    let mut dice = Dice(1);
    for second in 0..seconds {
        let now = Moment::from_micros((START_S + second) * 1_000_000);
        chronicle.advance(now).expect("it can be written");
        (0..agents).for_each(|agent| tell(&mut chronicle, now, agent, second, &mut dice));
    }
    chronicle.close().expect("it can be written");
    report(folder, agents, seconds, began.elapsed());
}

/// Good enough to vary figures: a linear congruence.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn tell(chronicle: &mut Chronicle, now: Moment, agent: u64, second: u64, dice: &mut Dice) {
    let node = format!("h{agent}");
    chronicle.observe(now, Entry::agent(&node, true, Some(75)));
    for port in 0..2 {
        let far = Far {
            node: "leaf0",
            link: LinkId::from_index((agent * 2 + port) as usize),
        };
        chronicle.observe(
            now,
            Entry::link(&node, Some(far), &counters(port, second, dice)),
        );
    }
    for peer in 0..64 {
        chronicle.observe(
            now,
            Entry::probes(&node, Some("h1"), &probes(agent, peer, dice)),
        );
    }
    for port in 0..8 {
        let reading = reading(agent, port, second, dice);
        let hops = Some(format!("h{agent}/{agent} leaf0/7 spine1/9 leaf3/12"));
        chronicle.observe(now, Entry::flow(&node, Some("h1"), hops, &reading));
    }
}

fn address(agent: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 | (agent as u32))
}

fn rate(dice: &mut Dice) -> Rate {
    Rate::from_bits_per_s(380_000_000_000 + dice.below(20_000_000_000))
}

fn counters(port: u64, second: u64, dice: &mut Dice) -> Counters {
    Counters {
        interface: format!("eth{port}"),
        up: true,
        sent: Bytes::new(second * 48_000_000_000 + dice.below(1 << 30)),
        received: Bytes::new(second * 47_000_000_000 + dice.below(1 << 30)),
        dropped_packets: 0,
        send_rate: Some(rate(dice)),
        receive_rate: Some(rate(dice)),
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

fn probes(agent: u64, peer: u64, dice: &mut Dice) -> ProbeReading {
    let mut tally = Tally {
        answered: 1,
        ..Tally::default()
    };
    tally
        .network
        .record(Duration::from_nanos(8_000 + dice.below(4_000)));
    ProbeReading {
        flow: flow(agent, peer, 0),
        tally,
    }
}

fn reading(agent: u64, port: u64, second: u64, dice: &mut Dice) -> FlowReading {
    FlowReading {
        flow: flow(agent, port, port),
        bytes: Bytes::new(second * 6_000_000_000 + dice.below(1 << 28)),
        rate: Some(rate(dice)),
        rtt: Some(Duration::from_nanos(8_000 + dice.below(4_000))),
        retransmits: Some(0),
    }
}

fn report(folder: &str, agents: u64, seconds: u64, took: Duration) {
    let mut bytes = BTreeMap::new();
    add_up(Path::new(folder), "", &mut bytes);
    let per_hour = 3_600_000.0 / (agents * seconds) as f64;
    for (what, bytes) in &bytes {
        println!(
            "{what}: {:.1} MB for 1000 agents in an hour",
            *bytes as f64 * per_hour / 1e6
        );
    }
    let readings = agents * seconds * 75;
    let each = took.as_nanos() as f64 / readings as f64;
    println!("{readings} readings in {took:.1?}: {each:.0} ns each");
}

fn add_up(folder: &Path, what: &str, bytes: &mut BTreeMap<String, u64>) {
    for entry in fs::read_dir(folder).expect("a folder to read").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        match path.is_dir() {
            true if name.starts_with("day=") || name.starts_with("hour=") => {
                add_up(&path, what, bytes);
            }
            true => add_up(&path, &format!("{what} {name}"), bytes),
            false => {
                let length = path.metadata().map_or(0, |data| data.len());
                *bytes.entry(what.to_owned()).or_default() += length;
            }
        }
    }
}
