//! Anything a host may say of RDMA.

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use reweave_common::operator::RdmaStatus;
use reweave_common::probing::Stamps;
use reweave_common::rdma::{
    Gid, GidKind, LinkLayer, RdmaBandwidth, RdmaLatency, RdmaPort, RdmaReading, Times, Transport,
};
use reweave_common::traffic::{PortTraffic, PortVolume};

use super::arbitrary::{MAX_LIST_ITEMS, bytes, rate, text, time_span};

pub(super) fn port() -> impl Strategy<Value = RdmaPort> {
    let layer = prop_oneof![Just(LinkLayer::Infiniband), Just(LinkLayer::Ethernet)];
    let numbers = any::<(u8, bool, u32, u32)>();
    let parts = (
        text(),
        numbers,
        layer,
        option::of(rate()),
        stamps(),
        vec(gid(), 0..MAX_LIST_ITEMS),
    );
    parts.prop_map(|(device, numbers, layer, speed, stamps, gids)| RdmaPort {
        device,
        port: numbers.0,
        up: numbers.1,
        layer,
        speed,
        mtu_bytes: numbers.2,
        most_mtu_bytes: numbers.3,
        stamps,
        gids,
    })
}

pub(super) fn reading() -> impl Strategy<Value = RdmaReading> {
    let transport = prop_oneof![Just(Transport::Ud), Just(Transport::Rc)];
    let times = || option::of(times());
    let latency = (
        any::<(Ipv4Addr, u32, u32)>(),
        transport,
        times(),
        times(),
        stamps(),
    );
    let latency =
        latency.prop_map(
            |(numbers, transport, network, responder, stamps)| RdmaLatency {
                peer: numbers.0,
                sent: numbers.1,
                lost: numbers.2,
                transport,
                network,
                responder,
                stamps,
            },
        );
    let bandwidth = (any::<Ipv4Addr>(), bytes(), time_span());
    let bandwidth = bandwidth.prop_map(|(peer, bytes, took)| RdmaBandwidth { peer, bytes, took });
    prop_oneof![
        latency.prop_map(RdmaReading::Latency),
        bandwidth.prop_map(RdmaReading::Bandwidth),
    ]
}

pub(super) fn status() -> impl Strategy<Value = RdmaStatus> {
    let time_us = || option::of(0.0..1e9);
    let parts = (
        text(),
        text(),
        time_us(),
        time_us(),
        option::of(rate()),
        any::<(u32, u32, u64)>(),
    );
    parts.prop_map(
        |(from, to, ud_us, rc_us, rate_bits_per_s, numbers)| RdmaStatus {
            from,
            to,
            ud_us,
            rc_us,
            rate_bits_per_s,
            sent: numbers.0,
            lost: numbers.1,
            age_ms: numbers.2,
        },
    )
}

pub(super) fn traffic() -> impl Strategy<Value = PortTraffic> {
    let volume = || {
        let parts = (option::of(bytes()), any::<Option<u64>>());
        parts.prop_map(|(bytes, packets)| PortVolume { bytes, packets })
    };
    let parts = (text(), any::<u8>(), volume(), volume());
    parts.prop_map(|(device, port, sent, received)| PortTraffic {
        device,
        port,
        sent,
        received,
    })
}

fn stamps() -> impl Strategy<Value = Stamps> {
    prop_oneof![
        Just(Stamps::Program),
        Just(Stamps::Kernel),
        Just(Stamps::Hardware)
    ]
}

fn gid() -> impl Strategy<Value = Gid> {
    let kind = prop_oneof![
        Just(GidKind::Infiniband),
        Just(GidKind::RoceV1),
        Just(GidKind::RoceV2)
    ];
    let parts = (any::<u32>(), kind, any::<[u8; 16]>());
    parts.prop_map(|(index, kind, bytes)| Gid { index, kind, bytes })
}

fn times() -> impl Strategy<Value = Times> {
    let parts = (time_span(), time_span(), time_span(), time_span());
    parts.prop_map(|(least, median, p99, most)| Times {
        least,
        median,
        p99,
        most,
    })
}
