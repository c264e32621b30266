//! Iterations out of records, traffic out of iterations, and flows of the past.

use reweave_common::recorded::{Exchange, Recorded};

use super::*;
use crate::workload::history::{Seen, replay};
use crate::workload::{recorded, traffic};

fn all_reduce(at: usize, asked_us: u64, took_us: u64, bytes: u64) -> Recorded {
    Recorded {
        rank: rank(at),
        what: Exchange::Collective {
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
fn what_ranks_recorded_apart_is_one_iteration_with_computing_between() {
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
    let sent = Recorded {
        what: Exchange::Sent { to: rank(1) },
        ..all_reduce(0, 500, 1, 1_000_000)
    };
    let received = Recorded {
        what: Exchange::Received { from: rank(0) },
        ..all_reduce(1, 9000, 1, 1_000_000)
    };
    let both = [sent, received];
    assert_eq!(recorded::iteration(2, &both).unwrap().tasks().len(), 1);
    assert_eq!(recorded::iteration(2, &both[1..]).unwrap().tasks().len(), 1);
}

#[test]
fn ranks_that_disagree_are_told_so() {
    let records = [all_reduce(0, 0, 1, 100), all_reduce(1, 0, 1, 200)];
    let refused = recorded::iteration(2, &records).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the ranks disagree on what the 1. collective of group \"world\" was"
    );
    let outside = recorded::iteration(1, &records[..1]).unwrap_err();
    assert!(outside.to_string().contains("rank 1"), "{outside}");
}

#[test]
fn traffic_is_what_lanes_carry() {
    let mut sketch = Sketch::of(4);
    sketch.all(Operation::AllReduce, 4000, &[]);
    sketch.all(Operation::AllToAll, 4000, &[]);
    sketch.transfer([0, 2], 70, &[]);
    let iteration = sketch.done();
    let fabric = ideal(4, 8);
    let (placement, carriage) = (hosts(&fabric), Carriage::default());
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
fn flows_of_the_past_fare_otherwise_elsewhere() {
    let seen = |at_ms, to: usize| Seen {
        at: Duration::from_millis(at_ms),
        from: rank(0),
        to: rank(to),
        bytes: Bytes::new(8_000_000),
    };
    let seen = [seen(0, 1), seen(4, 2), seen(40, 1)];
    let fare = |gbps, placement: &[usize]| {
        let fabric = ideal(3, gbps);
        let all = hosts(&fabric);
        let placement: Vec<_> = placement.iter().map(|&host| all[host]).collect();
        let carriage = Carriage::default();
        let network = Network::new(&fabric, &placement, &carriage, bare());
        let replayed = replay(3, &seen, &network, LIMIT).unwrap();
        let times = replayed
            .times
            .iter()
            .map(|time| time.millis().round() as u64);
        times.collect::<Vec<_>>()
    };
    // The second shares the port with what is left of the first.
    assert_eq!(fare(8, &[0, 1, 2]), [12, 12, 8]);
    assert_eq!(fare(80, &[0, 1, 2]), [1, 1, 1]);
    assert_eq!(fare(8, &[0, 1, 0]), [8, 0, 8]);
}
