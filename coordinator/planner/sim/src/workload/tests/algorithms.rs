//! Jobs whose collectives use given algorithms, compared with single collectives.

use std::collections::BTreeSet;

use super::*;
use crate::collectives::{self, Algorithm, Collective, algorithms_of, bound};
use crate::workload::effects::{Effects, Setting};
use crate::workload::traffic;

const OPERATIONS: [Operation; 5] = [
    Operation::AllReduce,
    Operation::ReduceScatter,
    Operation::AllGather,
    Operation::AllToAll,
    Operation::Broadcast,
];

/// Any two hosts have one shortest path, so a hash makes no difference.
fn fabrics() -> [Fabric; 4] {
    let one_way = |leaves, each| {
        fabric(&format!(
            "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = 1\nhosts_per_leaf = {each}\n\
             host_gbps = 8\nuplink_gbps = 16\nlatency_us = 3"
        ))
    };
    let ring = "kind = \"direct\"\nhosts = 5\nlink_gbps = 8\nstrides = [1]\nlatency_us = 3";
    [one_way(1, 8), one_way(2, 4), one_way(3, 2), fabric(ring)]
}

fn exchange(operation: Operation, members: usize, bytes: u64) -> Iteration {
    let mut sketch = Sketch::of(members);
    sketch.all(operation, bytes, &[]);
    sketch.done()
}

fn choosing(operation: Operation, choice: Choice) -> Settings {
    Settings {
        choices: Choices([(operation, choice)].into()),
        ..bare()
    }
}

fn given(operation: Operation, algorithm: Algorithm) -> Settings {
    choosing(operation, Choice::Given(algorithm))
}

fn fastest(operation: Operation) -> Settings {
    choosing(operation, Choice::Fastest(algorithms(operation, 0)))
}

fn alone_ms(fabric: &Fabric, operation: Operation, bytes: u64, algorithm: Algorithm) -> f64 {
    let collective = Collective {
        fabric,
        members: None,
        operation,
        bytes: bytes as f64,
    };
    let network = crate::engine::network::Network::of(fabric, Costs::default());
    let ecmp = Ecmp::default();
    let played = collectives::time(
        &collective,
        algorithm,
        &network,
        &ecmp,
        MAX_SIMULATION_WORK,
        &mut |_| true,
    );
    played.unwrap().time.millis()
}

/// Few enough for latency to keep the number of pieces small.
const EXCHANGE_BYTES: u64 = 80_000;

#[test]
fn single_collective_job_matches_collective() {
    for (nth, fabric) in fabrics().iter().enumerate() {
        let members = hosts(fabric).len();
        for operation in OPERATIONS {
            for algorithm in algorithms_of(operation) {
                // In a job, a broadcast is a stream of arbitrarily fine pieces.
                if (operation, algorithm) == (Operation::Broadcast, Algorithm::Ring) {
                    continue;
                }
                let expected = alone_ms(fabric, operation, EXCHANGE_BYTES, algorithm);
                let iteration = exchange(operation, members, EXCHANGE_BYTES);
                let evaluation = evaluated(&iteration, fabric, given(operation, algorithm));
                let found = evaluation.iteration_ms;
                assert!(
                    (found / expected - 1.0).abs() < 1e-6,
                    "{nth}, {} by {algorithm}: {found} ms, and alone {expected} ms",
                    operation.name()
                );
                assert!(found >= evaluation.bounds.most_ms() * (1.0 - 1e-9));
                assert_eq!(evaluation.collectives[0].algorithm, algorithm.to_string());
                near(evaluation.collectives[0].alone_ms, found);
            }
        }
    }
}

#[test]
fn separate_steps_match_collapsed_steps() {
    for algorithm in [
        Algorithm::MultiRing,
        Algorithm::Recursive,
        Algorithm::Hierarchical { group: 4 },
    ] {
        let iteration = exchange(Operation::AllReduce, 8, 8_000_000);
        let settings = |steps| Settings {
            steps,
            ..given(Operation::AllReduce, algorithm)
        };
        let [at_once, each] = [Steps::Collapsed, Steps::Each]
            .map(|steps| evaluated(&iteration, &fabrics()[1], settings(steps)).iteration_ms);
        near(each, at_once);
    }
}

#[test]
fn fastest_algorithm_depends_on_size() {
    let fabric = fabric(
        "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 4\nhost_gbps = 100\n\
         uplink_gbps = 100\nlatency_us = 5",
    );
    let mut taken = BTreeSet::new();
    for bytes in [1_000, 100_000, 10_000_000] {
        let iteration = exchange(Operation::AllReduce, 8, bytes);
        let evaluation = evaluated(&iteration, &fabric, fastest(Operation::AllReduce));
        for algorithm in algorithms_of(Operation::AllReduce) {
            let other = evaluated(&iteration, &fabric, given(Operation::AllReduce, algorithm));
            assert!(
                evaluation.iteration_ms <= other.iteration_ms * (1.0 + 1e-3),
                "{bytes} bytes by {algorithm} take {} ms, less than {:?}",
                other.iteration_ms,
                evaluation.collectives
            );
        }
        taken.insert(evaluation.collectives[0].algorithm.clone());
    }
    // Uplinks carry four hosts: groups are best for large sizes, and few steps for small ones.
    assert!(taken.len() > 1, "{taken:?}");
}

#[test]
fn optimal_schedule_approaches_cut_bound() {
    let fabric = fabric("kind = \"direct\"\nhosts = 12\nlink_gbps = 100\nstrides = [1, 5]");
    let collective = Collective {
        fabric: &fabric,
        members: None,
        operation: Operation::AllReduce,
        bytes: 1e6,
    };
    let cut_ms = bound::optimum_us(&collective, 1.0, MAX_SIMULATION_WORK).unwrap() / 1e3;
    let iteration = exchange(Operation::AllReduce, 12, 1_000_000);
    let settings = given(Operation::AllReduce, Algorithm::Optimal);
    let found = evaluated(&iteration, &fabric, settings).iteration_ms;
    assert!(
        (1.0 - 1e-9..1.05).contains(&(found / cut_ms)),
        "{found} {cut_ms}"
    );
}

#[test]
fn ranks_of_host_form_hierarchical_group() {
    let fabric = ideal(4, 8);
    let placement: Vec<_> = hosts(&fabric)
        .into_iter()
        .flat_map(|host| [host; 4])
        .collect();
    let carriage = ExplicitPaths::default();
    let iteration = exchange(Operation::AllReduce, 16, 16_000_000);
    let evaluated = |settings| {
        let settings = Settings {
            inside: Rate::from_gbps(64.0),
            ..settings
        };
        let network = Network::new(&fabric, &placement, &carriage, settings);
        evaluate(&iteration, &network, MAX_SIMULATION_WORK, &mut |_| true)
    };
    let by = |algorithm| evaluated(given(Operation::AllReduce, algorithm));
    // Inside: three steps of 4 MB in each direction. Between: four rings at once through one port, six steps of 1 MB
    // each.
    let hierarchical = by(Algorithm::Hierarchical { group: 0 }).unwrap();
    near(hierarchical.iteration_ms, 2.0 * 3.0 * 0.5 + 4.0 * 6.0);
    let refused = by(Algorithm::Optimal).unwrap_err().to_string();
    assert_eq!(
        refused,
        "all-reduce of the job: trees are packed between hosts, and several members are on h0; use \
         hierarchical"
    );
    let auto = evaluated(fastest(Operation::AllReduce)).unwrap();
    assert!(auto.iteration_ms <= hierarchical.iteration_ms);
}

#[test]
fn interval_belongs_to_chosen_algorithm() {
    let (fabric, carriage) = (ideal(6, 8), ExplicitPaths::default());
    let placement = hosts(&fabric);
    let iteration = exchange(Operation::AllReduce, 6, 8_000_000);
    let effects = Effects {
        cold_start: SimTime::from_micros(20_000.0).unwrap(),
        ..Effects::NONE
    };
    let high_ms = |settings| {
        let network = Network::new(&fabric, &placement, &carriage, settings);
        let setting = Setting {
            iteration: &iteration,
            network: &network,
        };
        let interval = setting.interval(&effects, MAX_SIMULATION_WORK, &mut |_| true);
        interval.unwrap().high_ms
    };
    // Were it decided again, halving would be taken: it has fewer cold starts.
    let ring_ms = high_ms(given(Operation::AllReduce, Algorithm::Ring));
    assert!(high_ms(given(Operation::AllReduce, Algorithm::Recursive)) < ring_ms);
    near(high_ms(fastest(Operation::AllReduce)), ring_ms);
}

#[test]
fn traffic_matches_algorithm() {
    let (fabric, carriage) = (ideal(4, 8), ExplicitPaths::default());
    let placement = hosts(&fabric);
    let total = |algorithm| {
        let settings = given(Operation::AllReduce, algorithm);
        let network = Network::new(&fabric, &placement, &carriage, settings);
        let iteration = exchange(Operation::AllReduce, 4, 8_000_000);
        traffic::matrix(&iteration, &network)
            .unwrap()
            .total()
            .count()
    };
    // Every algorithm must move each byte to three others and back, in parts or as a whole.
    for algorithm in algorithms_of(Operation::AllReduce) {
        assert_eq!(total(algorithm), 2 * 3 * 8_000_000, "{algorithm}");
    }
}

#[test]
fn oversized_all_to_all_is_refused() {
    let (fabric, carriage) = (ideal(4, 8), ExplicitPaths::default());
    let placement = hosts(&fabric).repeat(2250);
    let network = Network::new(&fabric, &placement, &carriage, bare());
    let iteration = exchange(Operation::AllToAll, 9000, 8_000_000);
    let refused = evaluate(&iteration, &network, MAX_SIMULATION_WORK, &mut |_| true).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "one simulation takes no more than 67108864 flows and computations"
    );
}

#[test]
fn given_rings_are_kept() {
    let (fabric, placement) = (ideal(4, 8), hosts(&ideal(4, 8)));
    let members: Vec<_> = (0..4).map(rank).collect();
    let ring = GroupRing {
        members: members.clone(),
        legs: vec![None; 4],
        weight: 1.0,
    };
    let carriage = ExplicitPaths {
        rings: [(members, vec![ring])].into(),
        ..ExplicitPaths::default()
    };
    let settings = given(Operation::AllReduce, Algorithm::Tree);
    let network = Network::new(&fabric, &placement, &carriage, settings);
    let iteration = exchange(Operation::AllReduce, 4, 8_000_000);
    let evaluation = evaluate(&iteration, &network, MAX_SIMULATION_WORK, &mut |_| true).unwrap();
    near(evaluation.iteration_ms, 12.0);
    assert!(evaluation.collectives.is_empty());
}
