//! Anything a host may say of itself.

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use reweave_common::hardware::{
    Duplex, Fec, HardwareAddress, Lack, Mac, Machine, Neighbour, NicReport, NumaNode, Pcie,
    PcieLink, Setting,
};
use reweave_common::health::{CounterSource, Health, Signal, SignalReading};
use reweave_common::moment::Moment;
use reweave_common::operator::LackStatus;
use reweave_common::pci::{NearGpu, NicPlace, PciAddress, PciPath};
use reweave_common::periodicity::{ExchangePattern, IterationPeriod, Periodicity};
use reweave_common::probing::{PortStrays, Strays};
use reweave_common::sample::{HostReading, Spare};
use reweave_common::traffic::{PeerTraffic, Traffic, TrafficSource, Volume};

use super::arbitrary::{MAX_LIST_ITEMS, bytes, percent, rate, text, time_span};
use super::{ranks, rdma};

pub(super) fn host_reading() -> impl Strategy<Value = HostReading> {
    let vanished =
        (text(), moment()).prop_map(|(interface, seen)| HostReading::Vanished { interface, seen });
    prop_oneof![
        health().prop_map(HostReading::Health),
        nic().prop_map(|it| HostReading::Nic(Box::new(it))),
        machine().prop_map(HostReading::Machine),
        neighbour().prop_map(|it| HostReading::Neighbour(Box::new(it))),
        vanished,
        rhythm().prop_map(HostReading::Rhythm),
        traffic().prop_map(HostReading::Traffic),
        spare().prop_map(HostReading::Spare),
        lack().prop_map(HostReading::Lack),
        port_strays().prop_map(HostReading::Strays),
        rdma::port().prop_map(|it| HostReading::RdmaPort(Box::new(it))),
        rdma::reading().prop_map(|it| HostReading::Rdma(Box::new(it))),
        ranks::reading().prop_map(|it| HostReading::Rank(Box::new(it))),
        hardware().prop_map(HostReading::Hardware),
        nic_place().prop_map(|it| HostReading::NicPlace(Box::new(it))),
    ]
}

fn moment() -> impl Strategy<Value = Moment> {
    any::<u64>().prop_map(Moment::from_micros)
}

fn health() -> impl Strategy<Value = Health> {
    let place = prop_oneof![
        text().prop_map(CounterSource::Interface),
        (text(), any::<u8>()).prop_map(|(device, port)| CounterSource::RdmaPort { device, port }),
        Just(CounterSource::Host),
    ];
    let signal = prop_oneof![
        Just(Signal::FrameErrors),
        any::<u8>().prop_map(Signal::Pauses),
        any::<u8>().prop_map(Signal::PausedMicros),
        Just(Signal::SoftirqSqueezes),
    ];
    let counts = any::<(u64, Option<u64>, Option<u64>)>();
    let reading = (signal, counts).prop_map(|(signal, (total, grown, of))| SignalReading {
        signal,
        total,
        grown,
        of,
    });
    let parts = (place, time_span(), vec(reading, 0..MAX_LIST_ITEMS));
    parts.prop_map(|(place, over, signals)| Health {
        place,
        over,
        signals,
    })
}

fn nic() -> impl Strategy<Value = NicReport> {
    let link = || any::<(u32, u8)>().prop_map(|(mt_per_s, lanes)| PcieLink { mt_per_s, lanes });
    let pcie = (link(), link()).prop_map(|(now, most)| Pcie { now, most });
    let duplex = prop_oneof![Just(Duplex::Half), Just(Duplex::Full)];
    let fec = prop_oneof![
        Just(Fec::Off),
        Just(Fec::BaseR),
        Just(Fec::ReedSolomon),
        Just(Fec::LowLatencyReedSolomon),
    ];
    let names = (text(), option::of(text()), option::of(text()));
    let wire = (option::of(rate()), option::of(duplex), option::of(fec));
    let host = (option::of(pcie), any::<(Option<u32>, Option<u16>)>());
    (names, wire, host).prop_map(|(names, wire, host)| NicReport {
        interface: names.0,
        driver: names.1,
        rdma: names.2,
        speed: wire.0,
        duplex: wire.1,
        fec: wire.2,
        pcie: host.0,
        mtu_bytes: host.1.0,
        numa_node: host.1.1,
    })
}

fn hardware() -> impl Strategy<Value = HardwareAddress> {
    let of_one_nic = any::<[u8; 6]>().prop_filter_map("of a group", Mac::of_one_nic);
    (text(), of_one_nic).prop_map(|(interface, address)| HardwareAddress { interface, address })
}

pub(super) fn nic_place() -> impl Strategy<Value = NicPlace> {
    let address = || {
        let parts = any::<(u32, u8, u8)>();
        parts.prop_map(|(domain, bus, devfn)| PciAddress::new(domain, bus, devfn))
    };
    let path = prop_oneof![
        Just(PciPath::Pix),
        Just(PciPath::Pxb),
        Just(PciPath::Phb),
        Just(PciPath::Sys),
    ];
    let gpu = (address(), path, any::<(u16, u8)>());
    let gpu = gpu.prop_map(|(pci, path, (index, hops))| NearGpu {
        pci,
        index,
        path,
        hops,
    });
    let parts = (
        text(),
        address(),
        any::<Option<u16>>(),
        vec(gpu, 0..MAX_LIST_ITEMS),
    );
    parts.prop_map(|(interface, pci, numa, gpus)| NicPlace {
        interface,
        pci,
        numa,
        gpus,
    })
}

fn machine() -> impl Strategy<Value = Machine> {
    let node = (any::<(u16, u32)>(), bytes()).prop_map(|((node, cpus), memory)| NumaNode {
        node,
        cpus,
        memory,
    });
    let setting = (text(), text()).prop_map(|(name, value)| Setting { name, value });
    let parts = (
        any::<(u32, Option<u8>)>(),
        bytes(),
        bytes(),
        vec(node, 0..MAX_LIST_ITEMS),
        vec(setting, 0..MAX_LIST_ITEMS),
    );
    parts.prop_map(
        |(cpus, memory, memory_available, numa_nodes, settings)| Machine {
            cpus: cpus.0,
            cpu_busy_percent: cpus.1,
            memory,
            memory_available,
            numa_nodes,
            settings,
        },
    )
}

fn neighbour() -> impl Strategy<Value = Neighbour> {
    let parts = (text(), text(), text(), any::<Option<Ipv4Addr>>());
    parts.prop_map(|(interface, system, port, address)| Neighbour {
        interface,
        system,
        port,
        address,
    })
}

fn rhythm() -> impl Strategy<Value = Periodicity> {
    let shape = prop_oneof![
        Just(ExchangePattern::Ring),
        Just(ExchangePattern::AllToAll),
        Just(ExchangePattern::Pipeline),
    ];
    let times = (time_span(), time_span(), moment(), moment());
    let counts = (bytes(), bytes(), (percent(), any::<u32>()));
    let beat =
        (times, counts, option::of(shape)).prop_map(|(times, counts, shape)| IterationPeriod {
            period: times.0,
            gap: times.1,
            since: times.2,
            next_gap: times.3,
            sent: counts.0,
            received: counts.1,
            confidence_percent: counts.2.0,
            iterations: counts.2.1,
            shape,
        });
    prop_oneof![
        time_span().prop_map(|watched| Periodicity::Unknown { watched }),
        time_span().prop_map(|watched| Periodicity::None { watched }),
        beat.prop_map(Periodicity::Found),
    ]
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let source = prop_oneof![
        Just(TrafficSource::Ebpf),
        Just(TrafficSource::Nftables),
        Just(TrafficSource::Sockets),
    ];
    let volume = || {
        let parts = (bytes(), any::<Option<u64>>());
        parts.prop_map(|(bytes, packets)| Volume { bytes, packets })
    };
    let peer =
        (any::<Ipv4Addr>(), volume(), volume()).prop_map(|(peer, sent, received)| PeerTraffic {
            peer,
            sent,
            received,
        });
    let parts = (
        source,
        any::<u64>(),
        vec(peer, 0..MAX_LIST_ITEMS),
        vec(rdma::traffic(), 0..MAX_LIST_ITEMS),
    );
    parts.prop_map(|(source, unknown_packets, peers, rdma)| Traffic {
        source,
        unknown_packets,
        peers,
        rdma,
    })
}

fn spare() -> impl Strategy<Value = Spare> {
    let parts = (text(), rate(), rate(), rate());
    parts.prop_map(|(interface, capacity, send, receive)| Spare {
        interface,
        capacity,
        send,
        receive,
    })
}

pub(super) fn port_strays() -> impl Strategy<Value = PortStrays> {
    let strays = || {
        any::<[u64; 3]>().prop_map(|[malformed, foreign, late]| Strays {
            malformed,
            foreign,
            late,
        })
    };
    (strays(), strays()).prop_map(|(asking, answering)| PortStrays { asking, answering })
}

pub(super) fn lack_status() -> impl Strategy<Value = LackStatus> {
    (lack(), vec(text(), 0..MAX_LIST_ITEMS)).prop_map(|(lack, nodes)| LackStatus { lack, nodes })
}

fn lack() -> impl Strategy<Value = Lack> {
    let parts = (text(), text(), text());
    parts.prop_map(|(measurement, because, remedy)| Lack {
        measurement,
        because,
        remedy,
    })
}
