//! What a coordinator keeps of reports as they come over the wire, of which it has a quarter of a million
//! pairs of hosts.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::observations::Observations;
use reweave_common::probing::{PROBE_PORT, ProbePart, ProbeReading, ProbeTally};
use reweave_common::sample::{Reading, Sample};

use super::heap::held_bytes;
use crate::frame::{decode, encode_alone};
use crate::message::AgentMessage;

const PEER_COUNT: u64 = 64;

/// Ten probes to a peer, of which a minute has forty different durations.
fn probes(peer: u64, second: u64) -> Reading {
    let mut tally = ProbeTally {
        answered: 10,
        ..ProbeTally::default()
    };
    for probe in 0..tally.answered {
        let spread = (peer * 17 + second * 7 + u64::from(probe) * 13) % 20;
        let micros = [80 + spread, 5 + spread / 4, 3 + spread / 5, 1 + spread / 3];
        for (part, micros) in ProbePart::ALL.into_iter().zip(micros) {
            tally.times.record(part, Duration::from_micros(micros));
        }
    }
    let end = |last: u8, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port);
    let flow = FlowKey {
        protocol: Protocol::Udp,
        source: end(255, 7400),
        destination: end(peer as u8, PROBE_PORT),
    };
    Reading::Probes(Box::new(ProbeReading { flow, tally }))
}

fn report(second: u64) -> Sample {
    let report = AgentMessage::Sample(Sample {
        taken: Moment::from_micros(second * 1_000_000),
        readings: (0..PEER_COUNT).map(|peer| probes(peer, second)).collect(),
    });
    match decode(&encode_alone(&report).unwrap()).unwrap() {
        AgentMessage::Sample(sample) => sample,
        other => panic!("{other:?}"),
    }
}

#[test]
fn minute_of_probes_takes_under_kilobyte() {
    let held = held_bytes(|| {
        let mut observations = Observations::default();
        for second in 0..60 {
            let sample = report(second);
            observations.record(NodeId::from_index(0), sample.taken, sample);
        }
        observations
    });
    let of_each = held as u64 / PEER_COUNT;
    assert!((400..1000).contains(&of_each), "{of_each} bytes");
}
