//! Agents that send well-formed samples of every kind with numbers of any size, several at once. The core continues
//! after any sample, its log can be read again, and other agents are served afterwards.

use std::time::Duration;

use proptest::prelude::*;
use reweave_common::ids::NodeId;
use reweave_common::operator::{Between, FlowEnd, Mode, Request};
use reweave_common::sample::{HostReading, Reading, Sample};
use reweave_common::split_mix::SplitMix64;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::network::host_address;
use crate::{Command, Input};

const HOSTILE_NODES: [&str; 3] = ["h2", "h5", "spine1"];
/// Limits of the types on the wire, and the numbers next to them.
const BOUNDARY_NUMBERS: [u64; 12] = [
    0,
    1,
    2,
    100,
    101,
    u8::MAX as u64,
    u16::MAX as u64,
    u32::MAX as u64,
    // The last exact integer of an `f64`, and the longest time in seconds.
    1 << 53,
    315_360_000,
    u64::MAX / 2,
    u64::MAX,
];

/// The limit of a type or, one time in four, any number.
pub(super) fn boundary_number(numbers: &mut SplitMix64) -> u64 {
    let boundary = BOUNDARY_NUMBERS[numbers.below(BOUNDARY_NUMBERS.len())];
    if numbers.one_in(4) {
        numbers.next_u64()
    } else {
        boundary
    }
}

/// Changes numbers, removes optional values, and empties or extends lists.
fn mutate(value: &mut Value, numbers: &mut SplitMix64) {
    match value {
        Value::Number(_) if numbers.one_in(2) => {
            *value = json!(boundary_number(numbers));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| mutate(item, numbers));
            match numbers.below(8) {
                0 => items.clear(),
                1 => *items = vec![items.clone(); numbers.below(40)].concat(),
                _ => {}
            }
        }
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| mutate(field, numbers));
            if numbers.one_in(12)
                && let Some(field) = fields.values_mut().nth(numbers.below(4))
            {
                *field = Value::Null;
            }
        }
        _ => {}
    }
}

/// A reading of each kind about the node itself.
fn readings_of_every_kind(cluster: &Cluster, node: NodeId) -> Vec<Value> {
    let [own, peer] = [node, cluster.network.node("h3")].map(host_address);
    let is_host = cluster.network.fabric.name(node).starts_with('h');
    let readings = include_str!("bad_input/readings.json")
        .replace("INTERFACE", if is_host { "eth0" } else { "swp0" })
        .replace("OWN", &own.to_string())
        .replace("PEER", &peer.to_string());
    serde_json::from_str(&readings).unwrap()
}

/// The index of its kind.
fn kind_index(reading: &Reading) -> usize {
    match reading {
        Reading::Interface(_) => 0,
        Reading::Counters(_) => 1,
        Reading::Flow(_) => 2,
        Reading::FlowEnded(_) => 3,
        Reading::Probes(_) => 4,
        Reading::Path(_) => 5,
        Reading::Holds { .. } => 6,
        Reading::Bandwidth(_) => 7,
        Reading::Host(reading) => match reading {
            HostReading::Health(_) => 8,
            HostReading::Nic(_) => 9,
            HostReading::Machine(_) => 10,
            HostReading::Neighbour(_) => 11,
            HostReading::Vanished { .. } => 12,
            HostReading::Rhythm(_) => 13,
            HostReading::Traffic(_) => 14,
            HostReading::Spare(_) => 15,
            HostReading::RdmaPort(_) => 16,
            HostReading::Rdma(_) => 17,
            HostReading::Lack(_) => 18,
            HostReading::Strays(_) => 19,
            HostReading::Rank(_) => 20,
            HostReading::Hardware(_) => 21,
            HostReading::NicPlace(_) => 22,
        },
    }
}

const MESSAGE_KINDS: usize = 23;

#[test]
fn hostile_samples_are_of_every_kind() {
    let cluster = Cluster::new(Mode::Auto);
    let readings = readings_of_every_kind(&cluster, cluster.network.node("h2")).into_iter();
    let kinds = readings.map(|value| kind_index(&serde_json::from_value(value).unwrap()));
    let mut kinds: Vec<_> = kinds.collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, (0..MESSAGE_KINDS).collect::<Vec<_>>());
}

/// Random readings, without those that decoders refuse.
fn hostile(cluster: &Cluster, node: NodeId, numbers: &mut SplitMix64) -> Sample {
    let all = readings_of_every_kind(cluster, node);
    let mut readings = Vec::new();
    for _ in 0..6 {
        let mut value = all[numbers.below(all.len())].clone();
        mutate(&mut value, numbers);
        readings.extend(serde_json::from_value::<Reading>(value));
    }
    let now = cluster.now();
    let taken = if numbers.one_in(2) {
        json!(now)
    } else {
        json!(numbers.next_u64())
    };
    Sample {
        taken: serde_json::from_value(taken).unwrap_or(now),
        readings,
    }
}

/// Requests everything that is computed from readings.
fn ask_everything(cluster: &mut Cluster) {
    let end = |host: &str| FlowEnd {
        host: host.to_owned(),
        port: None,
    };
    let between = Between {
        protocol: None,
        from: end("h2"),
        to: end("h3"),
    };
    for request in [
        Request::Status,
        Request::Diagnose,
        Request::Plan,
        Request::Matrix { most: 100 },
        Request::RailMatrix { rail: 0, most: 100 },
        Request::Pairs { most: 100 },
        Request::Nics {
            from_nic: 0,
            most: 100,
        },
        Request::Traffic {
            rail: None,
            most: 100,
        },
        Request::Imbalance,
        Request::Jobs,
        Request::Discover { from_link: 0 },
        Request::Trace {
            between,
            refresh: false,
        },
        Request::Explain {
            job: "h2".to_owned(),
            hosts: vec![],
        },
        Request::Lanes {
            hosts: vec!["h2".to_owned(), "h5".to_owned()],
        },
    ] {
        cluster.ask(request);
    }
}

/// Followers can read the leader's log, and a restarted coordinator reaches the same state.
pub(super) fn assert_log_can_be_read(cluster: &mut Cluster) {
    for command in &cluster.log {
        let written = postcard::to_stdvec(command).unwrap();
        #[expect(clippy::disallowed_methods, reason = "it was just written")]
        let read: Command = postcard::from_bytes(&written).unwrap();
        assert_eq!(&read, command);
    }
    let state = cluster.core.state().clone();
    cluster.restart();
    assert_eq!(cluster.core.state(), &state);
    cluster.reconnect();
}

fn survives(seed: u64) {
    let mut numbers = SplitMix64::new(seed);
    let mut cluster = Cluster::new(Mode::Auto);
    let flows = [("h0", "h3", 1000), ("h1", "h4", 1001)]
        .map(|(from, to, port)| cluster.network.start(from, to, port, 0));
    let mut decoded = 0;
    for round in 0..60 {
        for node in HOSTILE_NODES.map(|name| cluster.network.node(name)) {
            let sample = hostile(&cluster, node, &mut numbers);
            decoded += sample.readings.len();
            cluster.handle(Input::Sample { node, sample });
        }
        cluster.run_for(Duration::from_millis(100));
        if round % 10 == 9 {
            ask_everything(&mut cluster);
        }
    }
    // The test makes 60 rounds x 3 nodes x 6 readings. If nearly all were refused, the core would have seen nothing
    // hostile.
    assert!(decoded > 300, "decoders passed {decoded} readings of 1080");
    assert_log_can_be_read(&mut cluster);
    for node in HOSTILE_NODES.map(|name| cluster.network.node(name)) {
        cluster.disconnect(node);
        cluster.connect(node);
    }
    let parted = |cluster: &Cluster| {
        let [one, other] = flows.map(|flow| cluster.network.uplink(&flow));
        one != other
    };
    cluster.run_until("parted", parted);
}

#[test]
fn core_survives_hostile_samples() {
    let config = ProptestConfig {
        cases: ProptestConfig::default().cases.div_ceil(8),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(seed: u64)| survives(seed));
}
