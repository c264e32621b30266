//! What scripts see: names where the pipeline holds ids, and units at the end of each figure.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::fabric::{Fabric, FabricBuilder, Role};
use reweave_common::finding::{Collision, Finding, Imbalance, Loser};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::LinkId;
use reweave_common::operator::{self, NotSeen, Refused, Request, Response};
use reweave_common::plan::{
    Alternative, Generation, Iteration, LostBecause, Move, Pin, Plan, Prediction, Report,
};
use reweave_common::snapshot::Hop;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;
use serde_json::json;

fn mbps(rate: u64) -> Rate {
    Rate::from_bits_per_s(rate * 1_000_000)
}

/// One leaf and two spines, with two links to the second of them.
fn fabric() -> Fabric {
    let mut builder = FabricBuilder::new();
    let names = ["leaf0", "spine0", "spine1"];
    let [leaf, first, second] = names.map(|name| builder.add_node(name, Role::Switch).unwrap());
    let mut connect = |ends, count| {
        builder
            .connect(ends, count, mbps(100), Duration::ZERO)
            .unwrap();
    };
    connect([leaf, first], 1);
    connect([second, leaf], 2);
    builder.build()
}

fn uplink(fabric: &Fabric, index: usize) -> Hop {
    Hop {
        from: fabric.find("leaf0").unwrap(),
        link: LinkId::from_index(index),
    }
}

fn flow() -> FlowKey {
    FlowKey {
        protocol: Protocol::Tcp,
        source: "10.0.0.1:5000".parse().unwrap(),
        destination: "10.0.1.1:5001".parse().unwrap(),
    }
}

fn finding(fabric: &Fabric) -> Finding {
    Finding::EcmpCollision(Collision {
        hop: uplink(fabric, 0),
        utilization: 0.98,
        losers: vec![Loser {
            flow: flow(),
            rate: mbps(50),
            fair_rate: mbps(95),
        }],
        with_room: vec![uplink(fabric, 2)],
        imbalance: Imbalance {
            fim_percent: 50.0,
            floor_percent: 0.0,
            weighted_percent: 50.0,
            max_over_mean: 1.5,
        },
    })
}

fn plan(fabric: &Fabric) -> Plan {
    let moves = vec![Move {
        flow: flow(),
        from: uplink(fabric, 0),
        to: uplink(fabric, 2),
    }];
    Plan {
        generation: Generation(4),
        parent: Generation(3),
        takes_back: None,
        orders: Vec::new(),
        pins: vec![Pin {
            flow: flow(),
            at: uplink(fabric, 2).from,
            link: uplink(fabric, 2).link,
        }],
        tables: BTreeMap::new(),
        circuits: BTreeMap::new(),
        moves: moves.clone(),
        predictions: vec![Prediction {
            flow: flow(),
            before: mbps(50),
            after: mbps(95),
            low: mbps(90),
            high: mbps(100),
        }],
        iterations: vec![Iteration {
            job: "h0 and h1".to_owned(),
            exchanged: BTreeMap::new(),
            before: TimeSpan::from_millis(240),
            after: TimeSpan::from_millis(140),
            low: TimeSpan::from_millis(130),
            high: TimeSpan::from_millis(150),
        }],
        report: Report {
            findings: vec![finding(fabric)],
            slowest_before: mbps(50),
            slowest_after: mbps(95),
            alternatives: vec![Alternative {
                moves,
                slowest_after: mbps(60),
                lost_because: LostBecause::Slower,
            }],
        },
    }
}

fn flow_json() -> serde_json::Value {
    json!({"protocol": "tcp", "source": "10.0.0.1:5000", "destination": "10.0.1.1:5001"})
}

fn hop_json(to: &str, link: &str) -> serde_json::Value {
    json!({"from": "leaf0", "to": to, "link": link})
}

fn finding_json() -> serde_json::Value {
    json!({"ecmp-collision": {
        "hop": hop_json("spine0", "leaf0-spine0"),
        "utilization": 0.98,
        "losers": [{
            "flow": flow_json(),
            "rate_bits_per_s": 50_000_000,
            "fair_rate_bits_per_s": 95_000_000,
        }],
        "with_room": [hop_json("spine1", "spine1-leaf0.1")],
        "imbalance": {
            "fim_percent": 50.0,
            "floor_percent": 0.0,
            "weighted_percent": 50.0,
            "max_over_mean": 1.5,
        },
    }})
}

#[test]
fn finding_json_names_its_places() {
    let fabric = fabric();
    let named = operator::Finding::named(&finding(&fabric), &fabric);
    assert_eq!(serde_json::to_value(named).unwrap(), finding_json());
}

#[test]
fn plan_json_names_its_places() {
    let fabric = fabric();
    let named = operator::Plan::named(&plan(&fabric), &fabric);
    let to = hop_json("spine1", "spine1-leaf0.1");
    let moves = json!([
        {"flow": flow_json(), "from": hop_json("spine0", "leaf0-spine0"), "to": to}
    ]);
    let expected = json!({
        "generation": 4,
        "parent": 3,
        "takes_back": null,
        "seal": "",
        "hindered_by": [],
        "touched": [],
        "migration": null,
        "base": null,
        "pins": [{"flow": flow_json(), "hop": to}],
        "tables": {},
        "circuits": {},
        "changes": [],
        "moves": moves,
        "predictions": [{
            "flow": flow_json(),
            "before_bits_per_s": 50_000_000,
            "after_bits_per_s": 95_000_000,
            "low_bits_per_s": 90_000_000,
            "high_bits_per_s": 100_000_000,
        }],
        "iterations": [{
            "job": "h0 and h1",
            "before_ms": 240.0,
            "after_ms": 140.0,
            "low_ms": 130.0,
            "high_ms": 150.0,
        }],
        "report": {
            "findings": [finding_json()],
            "slowest_before_bits_per_s": 50_000_000,
            "slowest_after_bits_per_s": 95_000_000,
            "alternatives": [{
                "moves": moves,
                "slowest_after_bits_per_s": 60_000_000,
                "lost_because": "slower",
            }],
        },
    });
    assert_eq!(serde_json::to_value(named).unwrap(), expected);
}

#[test]
fn requests_and_refusals_serialize_by_name() {
    let generation = Generation(4);
    let apply = serde_json::to_value(Request::Apply { generation }).unwrap();
    assert_eq!(apply, json!({"apply": {"generation": 4}}));
    let busy = Response::Refused(Refused::Busy {
        running: generation,
    });
    assert_eq!(
        serde_json::to_value(busy).unwrap(),
        json!({"refused": {"busy": {"running": 4}}})
    );
    let nothing = Response::Plan {
        plan: None,
        not_seen: NotSeen::default(),
    };
    assert_eq!(
        serde_json::to_value(nothing).unwrap(),
        json!({"plan": {"plan": null, "not_seen": {"nodes": [], "ways_of": [], "doubts": []}}})
    );
}

#[test]
fn refusal_names_next_step() {
    let running = Generation(4);
    assert_eq!(
        Refused::Busy { running }.to_string(),
        "the change to generation 4 is still running and holds some of the same resources; \
         follow it with `reweave status`"
    );
    let role = "agent".to_owned();
    assert_eq!(
        Refused::NotAllowed { role }.to_string(),
        "a certificate of role agent is not allowed to do this; use an operator's"
    );
}
