//! Small models whose best splits are known.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::timings::{Timing, Timings};
use reweave_common::units::{Bytes, Rate};

use super::operators::Search;
use super::{Help, together};
use crate::crew::Alone;
use crate::topology::{Limits, Request};
use crate::workload::Settings;
use crate::workload::job::operators::{Model, Operator};

const HELP: Help<'_> = Help {
    crew: &Alone,
    go_on: &|_| true,
};

fn timings() -> Timings {
    let mut timings = Timings::default();
    for parts in [1u32, 2, 4, 8] {
        let time = |ms: u64| Duration::from_micros(ms * 1000 / u64::from(parts));
        let timing = Timing {
            forward: time(8),
            backward: time(16),
            memory: Bytes::new(8_000_000_000 / u64::from(parts)),
        };
        timings.insert("dense", parts, timing);
    }
    timings
}

fn operator(name: &str, inputs: &[usize], weights: u64) -> Operator {
    Operator {
        name: name.to_owned(),
        timing: "dense".to_owned(),
        inputs: inputs.to_vec(),
        weights: Bytes::new(weights),
        output_per_sample: Bytes::new(1000),
        servers: None,
    }
}

/// Two towers side by side, so heavy that to reduce them takes longer than to compute them.
fn towers() -> Model {
    Model {
        name: "towers".to_owned(),
        batch: 64,
        operators: vec![
            operator("left0", &[], 400_000_000),
            operator("left1", &[0], 400_000_000),
            operator("right0", &[], 400_000_000),
            operator("right1", &[2], 400_000_000),
            operator("top", &[1, 3], 0),
        ],
    }
}

fn request(servers: usize) -> Request {
    Request {
        limits: Limits::plain(servers, 4),
        degree: 4,
        rate: Rate::from_gbps(10.0).unwrap(),
        seed: 1,
        work: 1 << 36,
        relay: None,
        interval: false,
    }
}

fn searching<'s>(model: &'s Model, timings: &'s Timings, memory: Option<u64>) -> Search<'s> {
    Search {
        model,
        timings,
        servers: 8,
        memory: memory.map(Bytes::new),
        seed: 1,
        tries: 300,
    }
}

#[test]
fn what_is_heavy_to_reduce_is_held_by_few() {
    let (model, timings) = (towers(), timings());
    let search = searching(&model, &timings, None);
    let start = model.data_parallel(&timings, 8).unwrap();
    let found = together::search(&search, start, &Settings::default(), &request(8), HELP).unwrap();
    let (first, last) = (found.course[0], found.proposal.evaluation.iteration_ms);
    assert!(last < first * 0.5, "{first} ms, then {last}");
    assert!(found.deal.iter().any(|split| split.len() < 8));
}

#[test]
fn no_server_holds_more_than_it_can() {
    let (model, timings) = (towers(), timings());
    let search = searching(&model, &timings, Some(6_000_000_000));
    let start = model.data_parallel(&timings, 8).unwrap();
    let found = together::search(&search, start, &Settings::default(), &request(8), HELP).unwrap();
    assert!(search.fits(&found.deal));
    let whole: Vec<_> = (0..5).map(|_| vec![Rank::from_index(0)]).collect();
    assert!(!search.fits(&whole));
}

#[test]
fn the_same_seed_finds_the_same() {
    let (model, timings) = (towers(), timings());
    let search = searching(&model, &timings, None);
    let start = model.data_parallel(&timings, 8).unwrap();
    let once = || {
        together::search(
            &search,
            start.clone(),
            &Settings::default(),
            &request(8),
            HELP,
        )
        .unwrap()
    };
    assert_eq!(once().deal, once().deal);
}
