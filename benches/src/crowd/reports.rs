//! Reports of a simulated agent: its one interface, and probes to 64 peers.

use std::array;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::LazyLock;
use std::time::Duration;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::probing::{PROBE_PORT, ProbePart, ProbeReading, ProbeTally, Stamps};
use reweave_common::sample::{Counters, Interface, Reading, Sample};
use reweave_common::units::{Bytes, Rate};

const PEERS_PER_HOST: usize = 64;
/// Ten a second to each peer.
const PROBES_PER_S: u32 = 10;
const INTERFACE_NAME: &str = "eth0";

pub(crate) fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from_be_bytes([10, 1, 0, 0]) + host as u32 + 1)
}

pub(crate) fn sample(host: usize, hosts: usize, second: u64) -> Sample {
    let peers = (1..=PEERS_PER_HOST.min(hosts - 1)).map(|next| (host + next) % hosts);
    let probes = peers.map(|peer| probes(host, peer, second));
    let own = [interface(host), Reading::Counters(counters(second))];
    Sample {
        taken: Moment::from_micros(second * 1_000_000),
        readings: own.into_iter().chain(probes).collect(),
    }
}

/// Returns the reading of the host's interface.
pub(crate) fn interface(host: usize) -> Reading {
    Reading::Interface(Interface {
        name: INTERFACE_NAME.to_owned(),
        addresses: vec![address(host)],
        gateways: vec![],
    })
}

fn counters(second: u64) -> Counters {
    let rate = Rate::from_bits_per_s(8_000_000_000);
    let bytes = Bytes::new(second * 1_000_000_000);
    Counters {
        interface: INTERFACE_NAME.to_owned(),
        up: true,
        sent: bytes,
        received: bytes,
        dropped_packets: 0,
        send_rate: Some(rate),
        receive_rate: Some(rate),
    }
}

/// Computed beforehand, because each agent would count on a machine of its own.
static PROBE_TALLIES: LazyLock<[ProbeTally; TALLY_COUNT]> = LazyLock::new(|| array::from_fn(tally));
const TALLY_COUNT: usize = 20;

fn tally(first: usize) -> ProbeTally {
    let mut tally = ProbeTally {
        answered: PROBES_PER_S,
        ..ProbeTally::default()
    };
    for probe in 0..PROBES_PER_S {
        let spread = (first as u64 + u64::from(probe) * 13) % TALLY_COUNT as u64;
        let micros = [80 + spread, 5 + spread / 4, 3 + spread / 5, 1 + spread / 3];
        for (part, micros) in ProbePart::ALL.into_iter().zip(micros) {
            tally.times.record(part, Duration::from_micros(micros));
        }
        tally.stamped.note(Stamps::Kernel);
    }
    tally
}

fn probes(host: usize, peer: usize, second: u64) -> Reading {
    let first = (host * 31 + peer * 17 + second as usize * 7) % TALLY_COUNT;
    let tally = PROBE_TALLIES[first].clone();
    let flow = FlowKey {
        protocol: Protocol::Udp,
        source: SocketAddrV4::new(address(host), 7400),
        destination: SocketAddrV4::new(address(peer), PROBE_PORT),
    };
    Reading::Probes(Box::new(ProbeReading { flow, tally }))
}
