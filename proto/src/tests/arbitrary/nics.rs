//! Any NIC, and any traffic between hosts.

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use reweave_common::fabric::NicUse;
use reweave_common::operator::{NicStatus, PairTraffic, PairTraffics, Request, Response};

use super::super::hosts::nic_place;
use super::{MAX_LIST_ITEMS, rate, text};

pub(super) fn request() -> impl Strategy<Value = Request> {
    let nics = any::<[u32; 2]>();
    let traffic = any::<(Option<u16>, u32)>();
    let matrix = any::<(u16, u32)>();
    prop_oneof![
        nics.prop_map(|[from_nic, most]| Request::Nics { from_nic, most }),
        traffic.prop_map(|(rail, most)| Request::Traffic { rail, most }),
        matrix.prop_map(|(rail, most)| Request::RailMatrix { rail, most }),
    ]
}

pub(super) fn response() -> impl Strategy<Value = Response> {
    let nics = vec(nic(), 0..MAX_LIST_ITEMS).prop_map(Response::Nics);
    let traffic = (vec(pair(), 0..MAX_LIST_ITEMS), any::<usize>());
    let traffic =
        traffic.prop_map(|(pairs, all_pairs)| Response::Traffic(PairTraffics { pairs, all_pairs }));
    prop_oneof![nics, traffic]
}

fn nic() -> impl Strategy<Value = NicStatus> {
    let names = (text(), option::of(text()), text());
    let place = (
        any::<(u16, Option<u16>)>(),
        prop::sample::select(NicUse::ALL.to_vec()),
        any::<Option<Ipv4Addr>>(),
    );
    let seat = (nic_place(), any::<[Option<u16>; 2]>());
    let port = (any::<Option<bool>>(), rate(), option::of([rate(), rate()]));
    (names, place, seat, port).prop_map(|(names, place, seat, port)| NicStatus {
        host: names.0,
        interface: names.1,
        rail: place.0.0,
        plane: place.0.1,
        purpose: place.1,
        link: names.2,
        address: place.2,
        pci: Some(seat.0.pci),
        numa: seat.1[0],
        gpu: seat.1[1],
        gpus: seat.0.gpus,
        up: port.0,
        capacity_bits_per_s: port.1,
        sent_bits_per_s: port.2.map(|[sent, _]| sent),
        received_bits_per_s: port.2.map(|[_, received]| received),
    })
}

fn pair() -> impl Strategy<Value = PairTraffic> {
    let ends = (text(), text(), any::<Option<u16>>());
    (ends, any::<usize>(), rate()).prop_map(|(ends, flows, rate)| PairTraffic {
        from: ends.0,
        to: ends.1,
        rail: ends.2,
        flows,
        rate_bits_per_s: rate,
    })
}
