//! Each effect costs what it says, and nothing when it is left out.

use super::*;
use reweave_common::ids::LinkId;

use crate::workload::effects::{Effects, Interval, Purse, Queue, Setting};
use crate::workload::queues::Queues;

const COLLIDING_FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 4\n\
                         host_gbps = 8\nuplink_gbps = 8";

fn micros(us: f64) -> SimTime {
    SimTime::from_micros(us).unwrap()
}

fn interval(iteration: &Iteration, fabric: &Fabric, effects: &Effects) -> Interval {
    let (placement, carriage) = (hosts(fabric), ExplicitPaths::default());
    let network = Network::new(fabric, &placement, &carriage, bare());
    let setting = Setting {
        iteration,
        network: &network,
    };
    setting
        .interval(effects, MAX_SIMULATION_WORK, &mut |_| true)
        .unwrap()
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

/// A higher work limit allows a fuller report: first nothing, then the interval, then the cost of each effect.
#[test]
fn effects_beyond_work_limit_are_omitted() {
    let (fabric, iteration) = (fabric(COLLIDING_FABRIC), four_across());
    let (placement, carriage) = (hosts(&fabric), ExplicitPaths::default());
    let network = Network::new(&fabric, &placement, &carriage, bare());
    let setting = Setting {
        iteration: &iteration,
        network: &network,
    };
    let effects = Effects::default();
    let whole = setting
        .interval(&effects, MAX_SIMULATION_WORK, &mut |_| true)
        .unwrap();
    let mut unseparated = Vec::new();
    for left in (0..20).map(|power| 1 << power) {
        let purse = Purse {
            each: MAX_SIMULATION_WORK,
            left,
        };
        match setting.interval_for(&effects, purse, &mut |_| true) {
            Ok(report) => {
                assert_eq!(
                    [report.low_ms, report.high_ms],
                    [whole.low_ms, whole.high_ms]
                );
                assert!(report.costs.iter().all(|it| whole.costs.contains(it)));
                unseparated.push(report.unseparated.len());
            }
            Err(error) => assert!(
                error.is_of_work() && unseparated.is_empty(),
                "{left}: {error}"
            ),
        }
    }
    assert!(
        unseparated.is_sorted_by(|few, fewer| few >= fewer) && unseparated[0] > 0,
        "{unseparated:?}"
    );
    assert!(
        unseparated.len() < 20 && unseparated.ends_with(&[0]),
        "{unseparated:?}"
    );
}

#[test]
fn interval_without_effects_is_point() {
    let fabric = fabric(COLLIDING_FABRIC);
    let interval = interval(&four_across(), &fabric, &Effects::NONE);
    near(interval.low_ms, 8.0);
    near(interval.high_ms, 8.0);
    assert!(interval.costs.is_empty());
}

#[test]
fn each_effect_costs_as_stated() {
    let only = |effects: Effects, iteration: &Iteration, fabric: &Fabric| {
        let interval = interval(iteration, fabric, &effects);
        assert_eq!(interval.costs.len(), 1, "{interval:?}");
        near(interval.high_ms, interval.low_ms + interval.costs[0].ms);
        (interval.costs[0].effect, interval.high_ms)
    };
    let none = Effects::NONE;
    let (leaves, switch) = (fabric(COLLIDING_FABRIC), ideal(4, 8));

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
fn lost_packets_resend_following_data() {
    let fast = ideal(2, 720);
    let cable = fast.links().next().unwrap().0;
    let effects = Effects {
        loss: [(cable, 0.01)].into(),
        ..Effects::NONE
    };
    // A hundred packets are in flight in ten microseconds.
    near(effects.goodput(&fast, cable), 0.99 / (0.99 + 0.01 * 100.0));
    let healthy = fast.links().nth(1).unwrap().0;
    assert_eq!(effects.goodput(&fast, healthy), 1.0);
}

#[test]
fn lanes_report_sharing_and_queueing() {
    let evaluation = evaluated(&three_to_one(), &ideal(4, 8), bare());
    let down = evaluation.lanes.iter().find(|it| it.lane == "switch>h0");
    let down = down.unwrap();
    assert_eq!((down.flows_at_once, down.queue_us), (3, 20.0));
}

fn weighed(iteration: &Iteration, fabric: &Fabric, effects: &Effects) -> Vec<LaneLoad> {
    let (placement, carriage) = (hosts(fabric), ExplicitPaths::default());
    let network = Network::new(fabric, &placement, &carriage, bare());
    let evaluation = evaluate(iteration, &network, MAX_SIMULATION_WORK, &mut |_| true).unwrap();
    let setting = Setting {
        iteration,
        network: &network,
    };
    let mut lanes = evaluation.lanes;
    let weighed = setting.weigh(&mut lanes, effects, MAX_SIMULATION_WORK, &mut |_| true);
    weighed.unwrap();
    lanes
}

#[test]
fn each_link_reports_loss_cost() {
    let switch = ideal(4, 8);
    let mut sketch = Sketch::of(4);
    sketch.transfer([0, 1], 8_000_000, &[]);
    sketch.transfer([2, 1], 1_000_000, &[]);
    let iteration = sketch.done();
    let cable = |host: &str| {
        let host = switch.find(host).unwrap();
        let mut links = switch.links();
        let found = links.find(|(_, link)| [link.a.node, link.b.node].contains(&host));
        found.unwrap().0
    };
    let effects = Effects {
        loss: [(cable("h0"), 0.5), (cable("h2"), 0.25), (cable("h3"), 0.25)].into(),
        ..Effects::NONE
    };
    let lanes = weighed(&iteration, &switch, &effects);
    let lane = |name: &str| lanes.iter().find(|it| it.lane == name).unwrap();
    let risk = |name| lane(name).risk.unwrap();
    let goodput = effects.goodput(&switch, cable("h0"));
    near(risk("h0>switch").loss_ms, 8.0 / goodput - 9.0);
    // Traffic from h2 has time until the rest has ended.
    assert_eq!(
        (risk("h2>switch").lost, risk("h2>switch").loss_ms),
        (0.25, 0.0)
    );
    assert_eq!(
        (risk("switch>h1").lost, risk("switch>h1").loss_ms),
        (0.0, 0.0)
    );
    near(lane("switch>h1").shared, 2.0 / 9.0);
    assert_eq!(lane("h0>switch").shared, 0.0);
}

#[test]
fn each_link_reports_incast_cost() {
    let effects = Effects {
        incast: micros(50.0),
        ..Effects::NONE
    };
    let (switch, carriage) = (ideal(4, 8), ExplicitPaths::default());
    for lane in weighed(&three_to_one(), &switch, &effects) {
        let queue_ms = lane.risk.unwrap().queue_ms;
        let leads_to_a_host = lane.lane.starts_with("switch>");
        let costs = queue_ms.is_some_and(|ms| ms > 0.0);
        assert_eq!(costs, leads_to_a_host, "{}", lane.lane);
    }
    let placement = hosts(&switch);
    let settings = Settings {
        effects: effects.only_queue(Queue::Port(placement[0])),
        ..bare()
    };
    let network = Network::new(&switch, &placement, &carriage, settings);
    let mut queues = Queues::new(&network, [2, 3].map(rank));
    let waits = [0, 1].map(|at| [2, 3].map(|from| queues.arrive(rank(from), rank(at))));
    assert_eq!(waits[1], [SimTime::ZERO; 2]);
    assert_eq!(waits[0], [SimTime::ZERO, micros(50.0)]);
}

/// Four hosts behind one leaf send over one uplink of twice their rate.
const NARROW_FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 4\n\
                      host_gbps = 8\nuplink_gbps = 16";

#[test]
fn concurrent_messages_queue_on_uplinks() {
    let fabric = fabric(NARROW_FABRIC);
    let effects = Effects {
        uplinks: micros(60.0),
        ..Effects::NONE
    };
    let mut apart = Sketch::of(8);
    apart.transfer([0, 4], 8_000_000, &[]);
    let alone = interval(&apart.done(), &fabric, &effects);
    near(alone.high_ms, 8.0);
    assert!(alone.costs.is_empty(), "{alone:?}");
    let four = interval(&four_across(), &fabric, &effects);
    assert_eq!(four.costs[0].effect, "uplinks");
    // Up and down, each that is before takes half of 60 us; on links as full as can be, 4.5 are.
    near(four.high_ms, 16.0 + 4.5 * 0.06);
}

#[test]
fn messages_of_step_queue_on_uplinks() {
    let (fabric, carriage) = (fabric(NARROW_FABRIC), ExplicitPaths::default());
    let placement = hosts(&fabric);
    let settings = Settings {
        effects: Effects {
            uplinks: micros(60.0),
            ..Effects::NONE
        },
        ..bare()
    };
    let network = Network::new(&fabric, &placement, &carriage, settings);
    // The third sends two at once: each has half of its data in flight.
    let senders = [0, 1, 2, 2, 3].map(rank);
    let mut queues = Queues::new(&network, senders);
    let waits = senders.map(|from| {
        let ways = network.ways(from, rank(4)).unwrap();
        queues.pass(from, &ways[0].way.links, 1.0)
    });
    assert_eq!(waits, [0.0, 60.0, 120.0, 150.0, 180.0].map(micros));
}

#[test]
fn each_uplink_reports_queue_cost() {
    let effects = Effects {
        uplinks: micros(50.0),
        ..Effects::NONE
    };
    for lane in weighed(&four_across(), &fabric(NARROW_FABRIC), &effects) {
        let queue_ms = lane.risk.unwrap().queue_ms;
        let is_between = ["leaf0>spine0", "spine0>leaf1"].contains(&&*lane.lane);
        let costs = queue_ms.is_some_and(|ms| ms > 0.0);
        assert_eq!(costs, is_between, "{}", lane.lane);
    }
}

/// Returns effects of a given strength.
type More = fn(f64) -> Effects;

const EACH_EFFECT: [(&str, More); 6] = [
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
    ("uplinks", |more| Effects {
        uplinks: micros(50.0 * more),
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
fn larger_effects_take_longer() {
    let fabric = fabric(COLLIDING_FABRIC);
    let mut sketch = Sketch::of(8);
    let reduced = sketch.all(Operation::AllReduce, 8_000_000, &[]);
    let turned = sketch.all(Operation::AllToAll, 8_000_000, &[reduced]);
    sketch.transfer([0, 5], 8_000_000, &[turned]);
    let iteration = sketch.done();
    for (name, effects) in EACH_EFFECT {
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
