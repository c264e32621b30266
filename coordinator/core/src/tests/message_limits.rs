//! An agent that reports as much of everything as it may.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use reweave_common::bandwidth::{Bandwidth, BandwidthReading, Unclear};
use reweave_common::collective::{Rank, RankPeer, RankReading, Works};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::forwarding_state::{ForwardingState, RouteHop, RouteRule};
use reweave_common::hardware::{Lack, Machine, Neighbour, NicReport, NumaNode, Setting};
use reweave_common::health::{CounterSource, Health, Signal, SignalReading};
use reweave_common::moment::Moment;
use reweave_common::pci::{NearGpu, NicPlace, PciAddress, PciPath};
use reweave_common::plan::Generation;
use reweave_common::probing::{PROBE_PORT, ProbePart, ProbeReading, ProbeTally, Stamps};
use reweave_common::rdma::{Gid, GidKind, LinkLayer, RdmaBandwidth, RdmaPort, RdmaReading};
use reweave_common::sample::{
    Counters, FlowReading, HostReading, Interface, PinRule, Reading, Sample, Spare, TracedPath,
};
use reweave_common::time_span::TimeSpan;
use reweave_common::traffic::{
    PeerTraffic, PortTraffic, PortVolume, Traffic, TrafficSource, Volume,
};
use reweave_common::units::{Bytes, Rate};

use super::heap::held_bytes;
use super::network::{Network, host_address};
use crate::{Core, Input, Policy};

/// The limit of the memory that a flood may use, including queued input.
const MAX_GROWTH_BYTES: usize = 40 << 20;
/// The bytes of both channels during a probe window.
const MAX_WINDOW_BYTES: usize = 60 * 2 * (64 << 10);
/// More readings than the largest limit.
const FLOOD_READINGS: u16 = 4500;
/// More interfaces than a node has.
const FLOOD_INTERFACES: u16 = 600;
const FLOOD_ROUNDS: u64 = 20;

/// The longest text of an agent, numbered.
fn long(number: u16) -> String {
    format!("{number:04}{}", "\u{1d11e}".repeat(396))
}

/// The longest name of an interface.
fn name(number: u16) -> String {
    format!("{number:064}")
}

fn address(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(10, 250, high, low)
}

fn flow(protocol: Protocol, source: Ipv4Addr, port: u16) -> FlowKey {
    let destination = match protocol {
        Protocol::Tcp => SocketAddrV4::new(address(port), 5001),
        Protocol::Udp => SocketAddrV4::new(address(port), PROBE_PORT),
    };
    FlowKey {
        protocol,
        source: SocketAddrV4::new(source, 10_000 + port),
        destination,
    }
}

fn of_flows(source: Ipv4Addr, port: u16) -> Vec<Reading> {
    let [sent, probed] = [Protocol::Tcp, Protocol::Udp].map(|it| flow(it, source, port));
    let routers = vec![Some(address(port)); 32];
    let unclear = Bandwidth::Unknown {
        why: Unclear::Few,
        trains: 1,
    };
    let mut tally = ProbeTally {
        answered: 1,
        ..ProbeTally::default()
    };
    tally
        .times
        .record(ProbePart::Network, Duration::from_micros(7));
    vec![
        Reading::Flow(FlowReading {
            flow: sent,
            bytes: Bytes::new(1),
            rate: Some(Rate::from_bits_per_s(1)),
            rtt: None,
            retransmits: None,
        }),
        Reading::Probes(Box::new(ProbeReading {
            flow: probed,
            tally,
        })),
        Reading::Bandwidth(BandwidthReading {
            flow: probed,
            bandwidth: unclear,
            routers: Some(routers.clone()),
        }),
        Reading::Path(TracedPath {
            flow: probed,
            routers,
            confirmed: true,
        }),
    ]
}

/// As many different times as a window allows.
fn of_windows(source: Ipv4Addr) -> Vec<Reading> {
    let mut tally = ProbeTally::default();
    for step in 0..1000 {
        let took = Duration::from_nanos(1 << (step / 50));
        tally
            .times
            .record(ProbePart::Network, took + took * (step % 50) / 50);
    }
    let reading = |port| {
        Reading::Probes(Box::new(ProbeReading {
            flow: flow(Protocol::Udp, source, port),
            tally: tally.clone(),
        }))
    };
    let mut said = 0;
    let readings = (0..FLOOD_READINGS).map(reading);
    let heard = readings.take_while(|reading| {
        said += postcard::to_allocvec(reading).unwrap().len();
        said <= MAX_WINDOW_BYTES
    });
    heard.collect()
}

/// Many ports and interfaces with the longest names and lists.
fn of_interfaces(number: u16) -> Vec<Reading> {
    let interface = Reading::Interface(Interface {
        name: name(number),
        addresses: vec![],
        gateways: vec![address(0); 64],
    });
    let counters = Reading::Counters(Counters {
        interface: name(number),
        up: true,
        sent: Bytes::ZERO,
        received: Bytes::ZERO,
        dropped_packets: 0,
        send_rate: None,
        receive_rate: None,
    });
    let host = of_hardware(number, name).into_iter().map(Reading::Host);
    host.chain([interface, counters]).collect()
}

/// Hardware with such names.
fn of_hardware(number: u16, name: fn(u16) -> String) -> [HostReading; 8] {
    let signal = SignalReading {
        signal: Signal::Discards,
        total: 1,
        grown: Some(1),
        of: Some(1),
    };
    let gpu = NearGpu {
        pci: PciAddress::default(),
        index: 0,
        path: PciPath::Pix,
        hops: 1,
    };
    let gid = Gid {
        index: 0,
        kind: GidKind::RoceV2,
        bytes: [1; 16],
    };
    [
        HostReading::Health(Health {
            place: CounterSource::Interface(name(number)),
            over: TimeSpan::from_secs(1),
            signals: vec![signal; 64],
        }),
        HostReading::Nic(Box::new(NicReport {
            interface: name(number),
            driver: Some(name(0)),
            rdma: Some(name(0)),
            ..NicReport::default()
        })),
        HostReading::NicPlace(Box::new(NicPlace {
            interface: name(number),
            gpus: vec![gpu; NicPlace::MAX_GPUS],
            ..NicPlace::default()
        })),
        HostReading::Spare(Spare {
            interface: name(number),
            capacity: Rate::from_bits_per_s(1),
            send: Rate::from_bits_per_s(1),
            receive: Rate::from_bits_per_s(1),
        }),
        HostReading::Neighbour(Box::new(Neighbour {
            interface: name(number),
            system: long(0),
            port: long(0),
            address: None,
        })),
        HostReading::Lack(Lack {
            measurement: long(number),
            because: long(0),
            remedy: long(0),
        }),
        HostReading::RdmaPort(Box::new(RdmaPort {
            device: name(number),
            port: 1,
            up: true,
            layer: LinkLayer::Ethernet,
            speed: None,
            mtu_bytes: 1024,
            most_mtu_bytes: 4096,
            stamps: Stamps::Kernel,
            gids: vec![gid; 256],
        })),
        HostReading::Vanished {
            interface: name(FLOOD_INTERFACES + number),
            seen: Moment::default(),
        },
    ]
}

/// Readings that exist once per machine.
fn of_the_machine() -> Vec<Reading> {
    let settings = (0..512).map(|number| Setting {
        name: long(number),
        value: long(0),
    });
    let numa_node = NumaNode {
        node: 0,
        cpus: 1,
        memory: Bytes::ZERO,
    };
    let volume = Volume {
        bytes: Bytes::ZERO,
        packets: Some(1),
    };
    let peers = (0..4096).map(|number| PeerTraffic {
        peer: address(number),
        sent: volume,
        received: volume,
    });
    let ports = (0..64).map(|number| PortTraffic {
        device: name(number),
        port: 1,
        sent: PortVolume::default(),
        received: PortVolume::default(),
    });
    vec![
        Reading::Host(HostReading::Machine(Machine {
            numa_nodes: vec![numa_node; 512],
            settings: settings.collect(),
            ..Machine::default()
        })),
        Reading::Host(HostReading::Traffic(Traffic {
            source: TrafficSource::Ebpf,
            unknown_packets: 0,
            peers: peers.collect(),
            rdma: ports.collect(),
        })),
        held(),
    ]
}

/// A readback with the largest number of routes and next hops.
fn held() -> Reading {
    let hop = RouteHop {
        interface: name(0),
        next_hop: address(0),
        weight: 1,
    };
    let pins = (0..2048).map(|port| PinRule {
        flow: flow(Protocol::Tcp, address(0), port),
        interface: name(port),
        next_hop: address(port),
    });
    let routes = (0..2048).map(|number| RouteRule {
        destination: address(number),
        hops: vec![hop.clone(); 4],
    });
    Reading::Holds {
        generation: Generation(1),
        holding: ForwardingState {
            rules: pins.collect(),
            routes: routes.collect(),
        },
    }
}

fn of_a_rank(number: u32) -> Vec<Reading> {
    let works = |_| Works {
        kind: name(0),
        algorithm: name(0),
        protocol: name(0),
        count: 1,
        bytes: Bytes::ZERO,
        took: TimeSpan::ZERO,
        timed: 0,
    };
    let peer = |rank| RankPeer {
        rank,
        sent: Bytes::ZERO,
        received: Bytes::ZERO,
        sending: TimeSpan::ZERO,
        receiving: TimeSpan::ZERO,
    };
    let rank = RankReading {
        rank: Rank {
            communicator: u64::from(number),
            name: name(0),
            nodes: 2,
            ranks: 4096,
            rank: number,
        },
        over: TimeSpan::from_secs(1),
        missed: 0,
        works: (0..32).map(works).collect(),
        peers: (0..256).map(peer).collect(),
    };
    let wrote = RdmaReading::Bandwidth(RdmaBandwidth {
        peer: address(number as u16),
        bytes: Bytes::new(1),
        took: TimeSpan::from_millis(1),
    });
    vec![
        Reading::Host(HostReading::Rank(Box::new(rank))),
        Reading::Host(HostReading::Rdma(Box::new(wrote))),
    ]
}

/// The memory in use after everything was reported repeatedly.
fn filled(fabric: &Network, heard: impl Fn(Ipv4Addr) -> Vec<Vec<Reading>>) -> usize {
    let node = fabric.node("h5");
    let own = host_address(node);
    let fabric = Arc::clone(&fabric.fabric);
    let said = heard(own);
    held_bytes(|| {
        let mut core = Core::new(Policy::default(), fabric);
        core.handle(Moment::from_micros(1), Input::AgentUp { node });
        for round in 1..FLOOD_ROUNDS {
            for readings in &said {
                let now = Moment::from_micros(round * 1_000_000);
                let (taken, readings) = (now, readings.clone());
                let sample = Sample { taken, readings };
                core.handle(now, Input::Sample { node, sample });
                core.handle(now, Input::Tick);
                while core.poll_effect().is_some() {}
            }
        }
        core
    })
}

#[test]
fn worst_agent_report_is_bounded() {
    let network = Network::new(2, 3);
    let own = |address| {
        vec![Reading::Interface(Interface {
            name: name(FLOOD_READINGS),
            addresses: vec![address],
            gateways: vec![],
        })]
    };
    let nothing = filled(&network, |address| vec![own(address)]);
    let all = |address| {
        vec![
            own(address),
            (0..FLOOD_READINGS)
                .flat_map(|port| of_flows(address, port))
                .collect(),
            // These names are too long and are refused, so that later ones find room.
            (0..FLOOD_INTERFACES)
                .flat_map(|it| of_hardware(it, long).map(Reading::Host))
                .collect(),
            (0..FLOOD_INTERFACES).flat_map(of_interfaces).collect(),
            of_the_machine(),
            (0..100).flat_map(of_a_rank).collect::<Vec<_>>(),
            of_windows(address),
        ]
    };
    let more = filled(&network, all) - nothing;
    assert!(more <= MAX_GROWTH_BYTES, "{} KiB", more >> 10);
}
