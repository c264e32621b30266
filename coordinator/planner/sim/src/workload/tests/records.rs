//! Iterations out of records, traffic out of iterations, and flows of the past.

use std::collections::BTreeSet;

use reweave_common::recorded_exchange::{ExchangeKind, RecordedExchange};

use super::*;
use crate::workload::history::{Replayed, Routing, Seen, replay};
use crate::workload::{recorded, traffic};

fn all_reduce(at: usize, asked_us: u64, took_us: u64, bytes: u64) -> RecordedExchange {
    RecordedExchange {
        rank: rank(at),
        what: ExchangeKind::Collective {
            operation: Operation::AllReduce,
            group: vec![rank(0), rank(1)],
            name: "world".to_owned(),
        },
        bytes: Bytes::new(bytes),
        asked_ns: Some(asked_us * 1000),
        took: Some(Duration::from_micros(took_us)),
    }
}

#[test]
fn separate_rank_records_form_one_iteration() {
    let records = [
        all_reduce(0, 100, 50, 8_000_000),
        all_reduce(0, 400, 50, 4_000_000),
        // The clock of the other rank has nothing to do with the first one's.
        all_reduce(1, 7100, 50, 8_000_000),
        all_reduce(1, 8150, 50, 4_000_000),
    ];
    let iteration = recorded::iteration(2, &records).unwrap();
    let evaluation = evaluated(&iteration, &ideal(2, 8), bare());
    // The second waits for the slower rank, which computes for a millisecond between.
    near(evaluation.iteration_ms, 8.0 + 1.0 + 4.0);
    let sent = RecordedExchange {
        what: ExchangeKind::Sent { to: rank(1) },
        ..all_reduce(0, 500, 1, 1_000_000)
    };
    let received = RecordedExchange {
        what: ExchangeKind::Received { from: rank(0) },
        ..all_reduce(1, 9000, 1, 1_000_000)
    };
    let both = [sent, received];
    assert_eq!(recorded::iteration(2, &both).unwrap().tasks().len(), 1);
    assert_eq!(recorded::iteration(2, &both[1..]).unwrap().tasks().len(), 1);
}

#[test]
fn disagreeing_ranks_are_reported() {
    let records = [all_reduce(0, 0, 1, 100), all_reduce(1, 0, 1, 200)];
    let refused = recorded::iteration(2, &records).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the ranks disagree on what the 1. collective of group \"world\" was: rank 1 has another one"
    );
    let outside = recorded::iteration(1, &records[..1]).unwrap_err();
    assert!(outside.to_string().contains("rank 1"), "{outside}");
}

#[test]
fn traffic_equals_lane_bytes() {
    let mut sketch = Sketch::of(4);
    sketch.all(Operation::AllReduce, 4000, &[]);
    sketch.all(Operation::AllToAll, 4000, &[]);
    sketch.transfer([0, 2], 70, &[]);
    let iteration = sketch.done();
    let fabric = ideal(4, 8);
    let (placement, carriage) = (hosts(&fabric), ExplicitPaths::default());
    for steps in [Steps::Collapsed, Steps::Each] {
        let settings = Settings { steps, ..bare() };
        let network = Network::new(&fabric, &placement, &carriage, settings);
        let matrix = traffic::matrix(&iteration, &network).unwrap();
        let bytes = |from: usize, to: usize| matrix.get(placement[from], placement[to]).count();
        assert_eq!((bytes(0, 1), bytes(0, 2), bytes(0, 3)), (7000, 1070, 1000));
        assert_eq!(bytes(3, 0), 7000);
        let lanes = evaluated(&iteration, &fabric, bare()).lanes;
        let carried: f64 = lanes.iter().map(|lane| lane.bytes).sum();
        near(carried, 2.0 * matrix.total().count() as f64);
    }
}

#[test]
fn replayed_flows_depend_on_fabric() {
    let fare = |gbps, placement: &[usize]| {
        let fabric = ideal(3, gbps);
        let all = hosts(&fabric);
        let seen = |at_ms, to: usize| seen(at_ms, [all[placement[0]], all[placement[to]]], None);
        let seen = [seen(0, 1), seen(4, 2), seen(40, 1)];
        whole_ms(
            &replay(
                &seen,
                &fabric,
                Routing::Even,
                Costs::default(),
                MAX_SIMULATION_WORK,
                &mut |_| true,
            )
            .unwrap(),
        )
    };
    // The second shares the port with what is left of the first.
    assert_eq!(fare(8, &[0, 1, 2]), [12, 12, 8]);
    assert_eq!(fare(80, &[0, 1, 2]), [1, 1, 1]);
    assert_eq!(fare(8, &[0, 1, 0]), [8, 0, 8]);
}

#[test]
fn replayed_flows_follow_given_paths() {
    let fabric = fabric(
        "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\nhost_gbps = 8\n\
         uplink_gbps = 8",
    );
    let node = |name: &str| fabric.find(name).unwrap();
    let fare = |spines: [Option<&str>; 2], routing| {
        let burst = |host: usize, spine: Option<&str>| {
            let ends = [node(&format!("h{host}")), node(&format!("h{}", host + 2))];
            let way = spine
                .map(|spine| vec![ends[0], node("leaf0"), node(spine), node("leaf1"), ends[1]]);
            seen(0, ends, way)
        };
        let seen = [burst(0, spines[0]), burst(1, spines[1])];
        replay(
            &seen,
            &fabric,
            routing,
            Costs::default(),
            MAX_SIMULATION_WORK,
            &mut |_| true,
        )
        .map(|it| whole_ms(&it))
    };
    assert_eq!(fare([Some("spine1"); 2], Routing::Even), Ok(vec![16, 16]));
    assert_eq!(
        fare([Some("spine0"), Some("spine1")], Routing::Even),
        Ok(vec![8, 8])
    );
    assert_eq!(fare([None; 2], Routing::Even), Ok(vec![8, 8]));
    let by_hash = |seed| fare([None; 2], Routing::Hashed(Ecmp::Mixed { seed })).unwrap();
    let seeds: BTreeSet<_> = (0..20).map(by_hash).collect();
    assert_eq!(seeds, [vec![8, 8], vec![16, 16]].into());
    // Nodes that are not neighbours cannot follow each other.
    assert!(fare([Some("h1"), None], Routing::Even).is_err());
}

/// Holds for several paths, too: a burst begins when all parts of all earlier ones have ended.
#[test]
fn burst_waits_for_earlier_bursts() {
    let fabric = fabric(
        "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\nhost_gbps = 8\n\
         uplink_gbps = 4",
    );
    let all = hosts(&fabric);
    let burst = |ends: [usize; 2], at_ms, after: &[usize]| Seen {
        after: after.to_vec(),
        ..seen(at_ms, ends.map(|end| all[end]), None)
    };
    let chain = [
        burst([0, 2], 0, &[]),
        burst([1, 3], 4, &[]),
        burst([2, 0], 2, &[0, 1]),
        burst([3, 3], 0, &[2]),
    ];
    let costs = Costs::default();
    let replayed = replay(
        &chain,
        &fabric,
        Routing::Even,
        costs,
        MAX_SIMULATION_WORK,
        &mut |_| true,
    )
    .unwrap();
    assert_eq!(whole_ms(&replayed), [12, 12, 8, 0]);
    assert_eq!(replayed.end.millis().round() as u64, 26);
}

fn seen(at_ms: u64, [from, to]: [NodeId; 2], along: Option<Vec<NodeId>>) -> Seen {
    Seen {
        at: SimTime::from_duration(Duration::from_millis(at_ms)),
        after: Vec::new(),
        from,
        to,
        ports: [5000; 2],
        protocol: 6,
        bytes: 8e6,
        along,
    }
}

fn whole_ms(replayed: &Replayed) -> Vec<u64> {
    let times = replayed.times.iter();
    times.map(|time| time.millis().round() as u64).collect()
}
