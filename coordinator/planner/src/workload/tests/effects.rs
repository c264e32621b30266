//! Each effect costs what it says, and nothing when it is left out.

use super::*;
use reweave_common::ids::LinkId;

use crate::workload::effects::{Effects, Interval, Setting};

const COLLIDING: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 4\n\
                         host_gbps = 8\nuplink_gbps = 8";

fn micros(us: f64) -> SimTime {
    SimTime::from_micros(us).unwrap()
}

fn interval(iteration: &Iteration, fabric: &Fabric, effects: &Effects) -> Interval {
    let (placement, carriage) = (hosts(fabric), Carriage::default());
    let setting = Setting {
        iteration,
        fabric,
        placement: &placement,
        carriage: &carriage,
    };
    let interval = setting.interval(&bare(), effects, LIMIT, &mut |_| {});
    interval.unwrap()
}

fn four_across() -> Iteration {
    let mut sketch = Sketch::of(8);
    for from in 0..4 {
        sketch.transfer([from, from + 4], 8_000_000, &[]);
    }
    sketch.done()
}

fn three_to_one() -> Iteration {
    let mut sketch = Sketch::of(4);
    sketch.all(Operation::AllToAll, 4_000_000, &[]);
    sketch.done()
}

#[test]
fn without_effects_the_interval_is_a_point() {
    let fabric = fabric(COLLIDING);
    let interval = interval(&four_across(), &fabric, &Effects::NONE);
    near(interval.low_ms, 8.0);
    near(interval.high_ms, 8.0);
    assert!(interval.costs.is_empty());
}

#[test]
fn each_effect_costs_what_it_says() {
    let only = |effects: Effects, iteration: &Iteration, fabric: &Fabric| {
        let interval = interval(iteration, fabric, &effects);
        assert_eq!(interval.costs.len(), 1, "{interval:?}");
        near(interval.high_ms, interval.low_ms + interval.costs[0].ms);
        (interval.costs[0].effect, interval.high_ms)
    };
    let none = Effects::NONE;
    let (leaves, switch) = (fabric(COLLIDING), ideal(4, 8));

    let cold = Effects {
        cold_start: micros(100.0),
        ..none.clone()
    };
    let mut ring = Sketch::of(4);
    ring.all(Operation::AllReduce, 8_000_000, &[]);
    let (effect, ms) = only(cold, &ring.done(), &switch);
    assert_eq!(effect, "cold starts");
    near(ms, 6.0 * (2.0 + 0.1));

    let blocked = Effects {
        head_of_line: 1.25,
        ..none.clone()
    };
    let (effect, ms) = only(blocked, &four_across(), &leaves);
    assert_eq!(effect, "blocked lanes");
    near(ms, 10.0);

    let hashed = Effects {
        seeds: 8,
        ..none.clone()
    };
    let (effect, ms) = only(hashed, &four_across(), &leaves);
    assert_eq!(effect, "collisions");
    assert!(ms > 15.9, "{ms}");

    let incast = Effects {
        incast: micros(50.0),
        ..none.clone()
    };
    let (effect, _) = only(incast, &three_to_one(), &switch);
    assert_eq!(effect, "incast");

    let lossy = switch.links().next().unwrap().0;
    let loss = Effects {
        loss: [(lossy, 0.01)].into(),
        ..none
    };
    let (effect, ms) = only(loss.clone(), &three_to_one(), &switch);
    assert_eq!(effect, "loss");
    near(ms, 3.0 / loss.goodput(&switch, lossy));
}

#[test]
fn what_is_lost_is_sent_again_with_what_was_behind_it() {
    let fast = ideal(2, 720);
    let cable = fast.links().next().unwrap().0;
    let effects = Effects {
        loss: [(cable, 0.01)].into(),
        ..Effects::NONE
    };
    // A hundred packets are under way in ten microseconds.
    near(effects.goodput(&fast, cable), 0.99 / (0.99 + 0.01 * 100.0));
    let healthy = fast.links().nth(1).unwrap().0;
    assert_eq!(effects.goodput(&fast, healthy), 1.0);
}

#[test]
fn lanes_tell_how_many_share_them_and_what_queues_up() {
    let evaluation = evaluated(&three_to_one(), &ideal(4, 8), bare());
    let down = evaluation.lanes.iter().find(|it| it.lane == "switch>h0");
    let down = down.unwrap();
    assert_eq!((down.flows_at_once, down.queue_us), (3, 20.0));
}

/// How much more of an effect there is.
type More = fn(f64) -> Effects;

const EACH: [(&str, More); 5] = [
    ("cold starts", |more| Effects {
        cold_start: micros(100.0 * more),
        ..Effects::NONE
    }),
    ("blocked lanes", |more| Effects {
        head_of_line: 1.0 + more / 4.0,
        ..Effects::NONE
    }),
    ("collisions", |more| Effects {
        seeds: more as u32,
        ..Effects::NONE
    }),
    ("incast", |more| Effects {
        incast: micros(50.0 * more),
        ..Effects::NONE
    }),
    ("loss", |more| Effects {
        loss: (0..4)
            .map(|link| (LinkId::from_index(link), 0.01 * more))
            .collect(),
        ..Effects::NONE
    }),
];

#[test]
fn more_of_an_effect_takes_longer_and_none_costs_nothing() {
    let fabric = fabric(COLLIDING);
    let mut sketch = Sketch::of(8);
    let reduced = sketch.all(Operation::AllReduce, 8_000_000, &[]);
    let turned = sketch.all(Operation::AllToAll, 8_000_000, &[reduced]);
    sketch.transfer([0, 5], 8_000_000, &[turned]);
    let iteration = sketch.done();
    for (name, effects) in EACH {
        let at = |more| interval(&iteration, &fabric, &effects(more));
        let none = at(0.0);
        near(none.high_ms, none.low_ms);
        let mut last = none.high_ms;
        for more in [1.0, 2.0, 4.0, 8.0] {
            let interval = at(more);
            assert!(
                interval.high_ms >= last,
                "{name}: {} {last}",
                interval.high_ms
            );
            assert_eq!(interval.low_ms, none.low_ms);
            assert!(interval.costs.iter().all(|it| it.effect == name));
            last = interval.high_ms;
        }
        assert!(last > none.high_ms, "{name} costs nothing");
    }
}
