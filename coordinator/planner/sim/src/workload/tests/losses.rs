//! Tests of what is lost with ranks.

use std::collections::BTreeSet;

use super::*;
use crate::workload::job::Losses;
use crate::workload::job::operators::{Model, Operator};
use crate::workload::job::preset::{Batch, Parallelism, Preset, Zero};

fn ranks(all: impl IntoIterator<Item = usize>) -> BTreeSet<Rank> {
    all.into_iter().map(Rank::from_index).collect()
}

fn losses(name: &str, ranks_in_all: usize, spread: Parallelism, dead: &[usize]) -> Losses {
    let mut preset = Preset::named(name, None, Batch::Whole(64)).unwrap();
    preset.parallelism = spread;
    let dead = ranks(dead.iter().copied());
    preset.losses(ranks_in_all, &dead).unwrap()
}

#[test]
fn replicas_survive_until_last_copy() {
    let plain = Parallelism::default();
    let one = losses("gpt", 8, plain, &[3]);
    assert_eq!((one.only_copies.len(), one.batch), (0, 0.125));
    let all = losses("gpt", 2, plain, &[0, 1]);
    assert_eq!(
        (all.only_copies, all.batch),
        (vec!["the model".to_owned()], 1.0)
    );
    let zero = Parallelism {
        zero: Zero::Optimizer,
        ..plain
    };
    let state = losses("gpt", 8, zero, &[3]).only_copies;
    assert_eq!(state, ["1 of 8 parts of the optimizer's state"]);
}

/// Two replicas of two stages of two slices: a rank takes its replica with it, and two of the same
/// place their part of the model.
#[test]
fn unreplicated_stage_is_named() {
    let spread = Parallelism {
        data: Some(2),
        tensor: 2,
        pipeline: 2,
        microbatches: 2,
        ..Parallelism::default()
    };
    let one = losses("gpt", 8, spread, &[4]);
    assert_eq!((one.only_copies.len(), one.batch), (0, 0.5));
    let both = losses("gpt", 8, spread, &[4, 6]);
    assert_eq!(
        (both.only_copies, both.batch),
        (vec!["slice 0 of stage 1".to_owned()], 1.0)
    );
}

#[test]
fn embedding_tables_have_one_copy() {
    let lost = losses("dlrm", 16, Parallelism::default(), &[0, 5]);
    assert_eq!(lost.only_copies, ["8 of 64 embedding tables"]);
    assert_eq!(lost.batch, 0.125);
    let words = lost.to_string();
    assert!(
        words.contains("12.5 % of the batch is lost") && words.contains("cannot continue"),
        "{words}"
    );
}

#[test]
fn operators_survive_until_last_server() {
    let operator = |name: &str| Operator {
        name: name.to_owned(),
        timing: "dense".to_owned(),
        inputs: Vec::new(),
        weights: Bytes::new(8),
        output_per_sample: Bytes::new(8),
        servers: None,
    };
    let model = Model {
        name: "two".to_owned(),
        batch: 64,
        operators: vec![operator("table"), operator("dense")],
    };
    let splits: [Vec<_>; 2] = [ranks([2]), ranks(0..4)].map(|it| it.into_iter().collect());
    let one = model.losses(&splits, &ranks([1]));
    assert_eq!((one.only_copies.len(), one.batch), (0, 0.25));
    let table = model.losses(&splits, &ranks([2]));
    assert_eq!(
        (table.only_copies, table.batch),
        (vec!["table".to_owned()], 1.0)
    );
}
