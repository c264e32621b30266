//! Graphs of operators and their splits.

use reweave_common::timings::{Timing, Timings};

use super::*;
use crate::workload::job::operators::{Model, Operator, OperatorError, timing};

fn timed(forward_ms: u64, backward_ms: u64) -> Timing {
    Timing {
        forward: Duration::from_millis(forward_ms),
        backward: Duration::from_millis(backward_ms),
        memory: Bytes::ZERO,
    }
}

/// Dense halves with the batch; a table was never split.
fn timings() -> Timings {
    let mut timings = Timings::default();
    timings.insert("dense", 1, timed(8, 16));
    timings.insert("dense", 2, timed(4, 8));
    timings.insert("dense", 4, timed(2, 4));
    timings.insert("table", 1, timed(1, 2));
    timings
}

fn operator(name: &str, timing: &str, inputs: &[usize], weights: u64) -> Operator {
    Operator {
        name: name.to_owned(),
        timing: timing.to_owned(),
        inputs: inputs.to_vec(),
        weights: Bytes::new(weights),
        output_per_sample: Bytes::new(1000),
        servers: None,
    }
}

fn two_dense(weights: u64) -> Model {
    Model {
        name: "two".to_owned(),
        batch: 16,
        operators: vec![
            operator("first", "dense", &[], weights),
            operator("second", "dense", &[0], weights),
        ],
    }
}

fn moved(iteration: &Iteration) -> Vec<(usize, usize, u64)> {
    let transfers = iteration.tasks().filter_map(|(_, task)| match task.work {
        TaskWork::Transfer { from, to, bytes } => Some((from.index(), to.index(), bytes.count())),
        _ => None,
    });
    let mut transfers: Vec<_> = transfers.collect();
    transfers.sort_unstable();
    transfers
}

#[test]
fn data_parallelism_sends_only_gradients() {
    let model = two_dense(8_000_000);
    let splits = model.data_parallel(&timings(), 4).unwrap();
    let iteration = model.iteration(&timings(), &splits, 4).unwrap();
    assert_eq!(moved(&iteration), []);
    let evaluation = evaluated(&iteration, &ideal(4, 8), bare());
    near(evaluation.bounds.compute_ms, 2.0 * 6.0);
    near(evaluation.bounds.communication_ms, 2.0 * 12.0);
    // The first gradients are ready after 8 ms and are added up at 50 GB/s before they go.
    near(evaluation.iteration_ms, 8.0 + 0.16 + 24.0);
    let names: Vec<_> = evaluation
        .exposed
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["all-reduce first", "all-reduce second"]);
}

#[test]
fn server_fetches_and_returns_needed_parts() {
    let model = two_dense(0);
    let splits = [[0, 1, 2, 3].map(rank).to_vec(), [0, 3].map(rank).to_vec()];
    let iteration = model.iteration(&timings(), &splits, 4).unwrap();
    // Four samples each; 0 has its own and needs those of 1, 3 has its own and needs those of 2.
    let four = 4000;
    let there_and_back = [(0, 1, four), (1, 0, four), (2, 3, four), (3, 2, four)];
    assert_eq!(moved(&iteration), there_and_back);
}

#[test]
fn unaligned_parts_exchange_their_overlap() {
    let mut model = two_dense(0);
    model.batch = 12;
    let splits = [[0, 1].map(rank).to_vec(), [1, 2, 3].map(rank).to_vec()];
    let iteration = model.iteration(&timings(), &splits, 4).unwrap();
    let forward: Vec<_> = moved(&iteration);
    // Samples 0-6 and 6-12 there, 0-4, 4-8 and 8-12 here.
    assert!(forward.contains(&(0, 1, 4000)) && forward.contains(&(0, 2, 2000)));
    assert!(forward.contains(&(1, 2, 2000)) && forward.contains(&(1, 3, 4000)));
    assert_eq!(forward.len(), 8);
}

#[test]
fn tables_are_distributed_and_not_reduced() {
    let mut model = two_dense(0);
    model.operators = vec![
        operator("a", "table", &[], 1 << 30),
        operator("b", "table", &[], 1 << 30),
        operator("top", "dense", &[0, 1], 0),
    ];
    let splits = model.data_parallel(&timings(), 4).unwrap();
    assert_eq!(splits[..2], [vec![rank(0)], vec![rank(1)]]);
    let iteration = model.iteration(&timings(), &splits, 4).unwrap();
    assert_eq!(moved(&iteration).len(), 2 * 2 * 3);
    assert_eq!(iteration.groups().len(), 0);
}

#[test]
fn unmeasured_splits_are_interpolated() {
    let three = timing(&timings(), "dense", 3).unwrap();
    let expected = 2.0 + (1.0 / 3.0 - 0.25) / 0.25 * 2.0;
    near(three.forward.as_secs_f64() * 1e3, expected);
    assert_eq!(timing(&timings(), "dense", 8), None);
    let model = two_dense(0);
    let on_eight = model.data_parallel(&timings(), 8).unwrap();
    let spread: Vec<_> = on_eight[0].iter().map(|rank| rank.index()).collect();
    assert_eq!(spread, [0, 2, 4, 6]);
}

#[test]
fn missing_timing_is_refused_by_name() {
    let mut model = two_dense(0);
    model.operators[1].timing = "denser".to_owned();
    let refused = model.data_parallel(&timings(), 4).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "second: the profile has no timing of denser; the nearest that it has is dense"
    );
    let model = two_dense(0);
    let too_fine = [vec![rank(0)], vec![]];
    let refused = model.iteration(&timings(), &too_fine, 4).unwrap_err();
    assert!(matches!(refused, OperatorError::BadSplit { parts: 0, .. }));
}

/// Returns a split measured on one server, two and four.
#[test]
fn unmeasured_split_names_nearest_measured() {
    let model = two_dense(0);
    let said = |timings: &Timings, parts: usize| {
        let split: Vec<_> = (0..parts).map(rank).collect();
        let refused = model.iteration(timings, &[split.clone(), split], 8);
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        said(&timings(), 7),
        "first: dense was not measured on 7 servers; it was on 4"
    );
    let larger = timings().of_a_larger_batch(4);
    assert_eq!(
        said(&larger, 1),
        "first: dense was not measured on 1 servers; it was on 4"
    );
    let smaller = model.data_parallel(&timings().of_a_smaller_batch(8), 4);
    assert_eq!(
        smaller.unwrap_err().to_string(),
        "first: dense was measured with larger batches only; take a larger one"
    );
}
