//! Paths, collectives and lanes, compared with results computed by hand.

use super::*;
use crate::workload::traffic;

fn collective(operation: Operation, members: usize, bytes: u64) -> Iteration {
    let mut sketch = Sketch::of(members);
    sketch.all(operation, bytes, &[]);
    sketch.done()
}

#[test]
fn collectives_take_port_bound_on_switch() {
    // 8 Gb/s carry a million bytes in a millisecond.
    for (operation, ms) in [
        (Operation::AllReduce, 1.5 * 8.0),
        (Operation::ReduceScatter, 0.75 * 8.0),
        (Operation::AllGather, 0.75 * 8.0),
        (Operation::AllToAll, 0.75 * 8.0),
        (Operation::Broadcast, 8.0),
    ] {
        let iteration = collective(operation, 4, 8_000_000);
        let evaluation = evaluated(&iteration, &ideal(4, 8), bare());
        near(evaluation.iteration_ms, ms);
        near(evaluation.bounds.communication_ms, ms);
    }
}

/// Three ranks on each of four hosts, and a transfer that takes a part of a port.
#[test]
fn aggregated_transfers_take_same_time() {
    let mut sketch = Sketch::of(12);
    sketch.all(Operation::AllToAll, 12_000_000, &[]);
    sketch.transfer([0, 4], 9_000_000, &[]);
    let iteration = sketch.done();
    let (fabric, carriage) = (ideal(4, 8), ExplicitPaths::default());
    let on = hosts(&fabric);
    let placement: Vec<_> = (0..12).map(|rank| on[rank / 3]).collect();
    let course = |settings| {
        let network = Network::new(&fabric, &placement, &carriage, settings);
        simulate(&iteration, &network, MAX_SIMULATION_WORK).unwrap()
    };
    let mut apart = bare();
    // Too little to show, but then messages are counted one by one.
    apart.effects.incast = SimTime::from_micros(1e-6).unwrap();
    assert!(apart.tells_ranks_apart() && !bare().tells_ranks_apart());
    let [together, apart] = [bare(), apart].map(course);
    for (together, apart) in together.finish.iter().zip(&apart.finish) {
        assert!((together.micros() - apart.micros()).abs() < 0.01);
    }
    // 27 flows and the transfer: a 28th of the port is the transfer's until all are done but it.
    near(together.finish[0].millis(), 28.0);
}

#[test]
fn broadcast_reaches_each_member_once() {
    let (fabric, carriage) = (ideal(4, 8), ExplicitPaths::default());
    let placement = hosts(&fabric);
    let network = Network::new(&fabric, &placement, &carriage, bare());
    let iteration = collective(Operation::Broadcast, 4, 8_000_000);
    let matrix = traffic::matrix(&iteration, &network).unwrap();
    assert_eq!(matrix.total().count(), 3 * 8_000_000);
    assert_eq!(matrix.get(placement[3], placement[0]).count(), 0);
}

#[test]
fn uncontended_steps_match_collapsed_steps() {
    let fabric = fabric(
        "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nhost_gbps = 8\n\
         uplink_gbps = 16\nlatency_us = 2",
    );
    let iteration = collective(Operation::AllReduce, 8, 80_000_000);
    let settings = |steps| Settings { steps, ..bare() };
    let [collapsed, each] = [Steps::Collapsed, Steps::Each].map(settings);
    // 14 steps of 10 MB; the longest path has four links.
    let expected = 14.0 * (10.0 + 0.008);
    near(evaluated(&iteration, &fabric, each).iteration_ms, expected);
    near(
        evaluated(&iteration, &fabric, collapsed).iteration_ms,
        expected,
    );
}

#[test]
fn headers_and_cold_starts_cost_time() {
    let mut sketch = Sketch::of(2);
    sketch.transfer([0, 1], 8_936_000, &[]);
    let mut settings = Settings::default();
    settings.costs.start_up = SimTime::from_micros(500.0).unwrap();
    let evaluation = evaluated(&sketch.done(), &ideal(2, 8), settings);
    near(evaluation.iteration_ms, 9.0 + 0.5);
    near(evaluation.bounds.communication_ms, 8.936);
}

#[test]
fn single_member_collective_is_immediate() {
    let mut sketch = Sketch::of(1);
    let group = sketch.0.group(&[rank(0)]);
    let work = TaskWork::Collective {
        operation: Operation::AllReduce,
        group,
        bytes: Bytes::new(1 << 30),
        local: Duration::from_secs(1),
    };
    let alone = sketch.add("alone", work, &[]);
    sketch.compute(0, 3, &[alone]);
    near(
        evaluated(&sketch.done(), &ideal(1, 8), bare()).iteration_ms,
        3.0,
    );
}

#[test]
fn ranks_of_host_share_port() {
    let fabric = ideal(2, 8);
    let [a, b] = [hosts(&fabric)[0], hosts(&fabric)[1]];
    let (placement, carriage) = ([a, a, b, b], ExplicitPaths::default());
    let ms = |pairs: &[[usize; 2]], inside| {
        let mut sketch = Sketch::of(4);
        for &pair in pairs {
            sketch.transfer(pair, 8_000_000, &[]);
        }
        let settings = Settings { inside, ..bare() };
        let network = Network::new(&fabric, &placement, &carriage, settings);
        let evaluation = evaluate(&sketch.done(), &network, MAX_SIMULATION_WORK, &mut |_| true);
        evaluation.unwrap().iteration_ms
    };
    near(ms(&[[0, 2], [1, 3]], None), 16.0);
    assert_eq!(ms(&[[0, 1]], None), 0.0);
    near(ms(&[[0, 1]], Rate::from_gbps(64.0)), 1.0);
    near(ms(&[[0, 1], [2, 3]], Rate::from_gbps(64.0)), 1.0);
}

const FOUR_SPINES: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 4\n\
                           host_gbps = 8\nuplink_gbps = 8";

#[test]
fn hashed_traffic_sometimes_collides() {
    let fabric = fabric(FOUR_SPINES);
    let mut sketch = Sketch::of(8);
    for from in 0..4 {
        sketch.transfer([from, from + 4], 8_000_000, &[]);
    }
    let iteration = sketch.done();
    near(evaluated(&iteration, &fabric, bare()).iteration_ms, 8.0);
    let hashed = |seed| {
        let spreading = Spreading::Hashed(Ecmp::Mixed { seed });
        let settings = Settings {
            spreading,
            ..bare()
        };
        evaluated(&iteration, &fabric, settings).iteration_ms
    };
    let times: Vec<_> = (0..16).map(hashed).collect();
    assert!(times.iter().all(|&ms| ms > 7.99), "{times:?}");
    // Four flows over four spines without a collision: three chances in 32.
    let collided = times.iter().filter(|&&ms| ms > 15.9).count();
    assert!((10..=16).contains(&collided), "{times:?}");
    assert_eq!(hashed(3), hashed(3));
}

#[test]
fn parallel_links_carry_their_sum() {
    let fabric = fabric(
        r#"
        kind = "graph"
        node = [{ name = "a", role = "host" }, { name = "b", role = "host" }]
        link = [{ a = "a", b = "b", gbps = 8, count = 3 }]
        "#,
    );
    let mut sketch = Sketch::of(2);
    sketch.transfer([0, 1], 24_000_000, &[]);
    near(evaluated(&sketch.done(), &fabric, bare()).iteration_ms, 8.0);
}

#[test]
fn given_paths_and_rings_are_used() {
    let fabric = fabric("kind = \"direct\"\nhosts = 4\nlink_gbps = 8\nstrides = [1, 2]");
    let placement = hosts(&fabric);
    let node = |index: usize| placement[index];
    let detour = NodePath {
        nodes: vec![node(0), node(1), node(2)],
        weight: 3.0,
    };
    let straight = NodePath {
        nodes: vec![node(0), node(2)],
        weight: 1.0,
    };
    let members: Vec<_> = (0..4).map(rank).collect();
    let ring = |step: usize| GroupRing {
        members: (0..4).map(|nth| rank(nth * step % 4)).collect(),
        legs: vec![None; 4],
        weight: 1.0,
    };
    let carriage = ExplicitPaths {
        ways: [((node(0), node(2)), vec![detour, straight])].into(),
        rings: [(members, vec![ring(1), ring(3)])].into(),
        ..ExplicitPaths::default()
    };
    let network = Network::new(&fabric, &placement, &carriage, bare());
    let ms = |iteration| {
        evaluate(&iteration, &network, MAX_SIMULATION_WORK, &mut |_| true)
            .unwrap()
            .iteration_ms
    };
    let mut sketch = Sketch::of(4);
    sketch.transfer([0, 2], 8_000_000, &[]);
    near(ms(sketch.done()), 6.0);
    // Two rings, one per direction: half of the data goes around each.
    near(ms(collective(Operation::AllReduce, 4, 8_000_000)), 6.0);
}

#[test]
fn unsendable_traffic_is_reported() {
    let split = fabric(
        r#"
        kind = "graph"
        node = [{ name = "a", role = "host" }, { name = "b", role = "host" },
                { name = "c", role = "host" }]
        link = [{ a = "a", b = "b", gbps = 8 }]
        "#,
    );
    let refusal = |pair, places: usize, carriage: &ExplicitPaths| {
        let mut sketch = Sketch::of(3);
        sketch.transfer(pair, 1, &[]);
        let placement = hosts(&split);
        let network = Network::new(&split, &placement[..places], carriage, bare());
        let refused = evaluate(&sketch.done(), &network, MAX_SIMULATION_WORK, &mut |_| true);
        refused.unwrap_err().to_string()
    };
    let none = ExplicitPaths::default();
    assert_eq!(refusal([0, 2], 3, &none), "no path from a to c");
    assert_eq!(
        refusal([0, 1], 2, &none),
        "the job has 3 ranks, and there are places for 2"
    );
    let nodes = hosts(&split);
    let over_nothing = NodePath {
        nodes: vec![nodes[0], nodes[2], nodes[1]],
        weight: 1.0,
    };
    let carriage = ExplicitPaths {
        ways: [((nodes[0], nodes[1]), vec![over_nothing])].into(),
        ..none
    };
    assert_eq!(
        refusal([0, 1], 3, &carriage),
        "a given path from a to b has hops without a link"
    );
}
