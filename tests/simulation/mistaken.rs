//! The second story: between plan and change another job takes the uplink that the plan counts on.

use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, Rank};
use reweave_common::operator::Mode;
use reweave_common::sample::PinRule;
use reweave_common::scenario::{Job, PathChoice, Scenario};
use reweave_common::workload::Pattern;
use reweave_core::Outcome;
use reweave_sim_cluster::World;
use reweave_sim_cluster::wire::Weather;
use reweave_tests::Setting;

use crate::scene::{WATCH_TIME, apply, collided, demo, ended, planned, policy, rates_mbps};

/// How far a rate may be from what it was.
const RATE_TOLERANCE: f64 = 0.1;

fn rules(world: &World) -> Vec<Vec<PinRule>> {
    let kernels = world.network.kernels.values();
    kernels.map(|kernel| kernel.rules().to_vec()).collect()
}

#[test]
fn wrong_prediction_restores_old_rules() {
    let mut world = collided(Mode::Manual, 1, Weather::FAIR_WEATHER);
    let plan = planned(&mut world);
    let held = rules(&world);
    world.start_job("late");
    let flows = [world.jobs.flows("train"), world.jobs.flows("late")].concat();
    let before = rates_mbps(&mut world, &flows, WATCH_TIME);

    apply(&mut world, plan);
    world.run_until("pinned", |world| rules(world) != held);
    let ended = ended(&mut world, 1);
    let Outcome::RolledBack {
        generation,
        reasons,
    } = ended.outcome
    else {
        world.fail("not rolled back")
    };
    assert!(!reasons.is_empty());
    assert_eq!(generation, plan.next(), "agents refuse old ones");
    assert_eq!(rules(&world), held);
    assert_eq!(world.laws.looks.taken_back, 1);
    let after = rates_mbps(&mut world, &flows, WATCH_TIME);
    for (before, after) in before.iter().zip(&after) {
        assert!(
            (after / before - 1.0).abs() < RATE_TOLERANCE,
            "{before} -> {after}"
        );
    }
    world.look_at_rest();
}

/// The second plan of a switch is rolled back, and the first stays in force there.
#[test]
fn rollback_keeps_earlier_plan() {
    let mut world = World::new(
        three_spines(),
        policy(Mode::Manual),
        1,
        Weather::FAIR_WEATHER,
    );
    world.run_until("all there", |world| world.is_calm());
    world.start_job("train");
    world.run_for(WATCH_TIME);
    let first = planned(&mut world);
    apply(&mut world, first);
    assert_eq!(ended(&mut world, 1).outcome, Outcome::Committed);
    let kept = rules(&world);
    assert_eq!(kept.concat().len(), 1);

    let (idle, busy): (Vec<_>, Vec<_>) = ["spine0", "spine1", "spine2"]
        .map(|name| world.network.node(name))
        .into_iter()
        .partition(|&spine| !is_passed(&world, spine));
    start_one_flow(&mut world, [2, 6], busy[0]);
    let second = planned(&mut world);
    start_one_flow(&mut world, [3, 7], idle[0]);
    world.run_for(WATCH_TIME);
    apply(&mut world, second);
    let outcome = ended(&mut world, 2).outcome;
    assert!(matches!(outcome, Outcome::RolledBack { .. }), "{outcome:?}");
    assert_eq!(rules(&world), kept);
    world.look_at_rest();
}

/// The demo's jobs with one way more.
fn three_spines() -> Scenario {
    let fabric = Setting::DEMO_SETTING
        .fabric
        .replace("spines = 2", "spines = 3");
    Scenario {
        fabric: Fabric::parse("three-spines.toml", &fabric).expect("it is sound"),
        ..demo()
    }
}

fn is_passed(world: &World, node: NodeId) -> bool {
    let ways = world.network.flows().map(|flow| world.network.way(flow));
    let mut hops = ways.flat_map(|way| way.expect("no flow is lost"));
    hops.any(|hop| hop.from == node)
}

fn start_one_flow(world: &mut World, hosts: [usize; 2], via: NodeId) {
    let late = world.scenario().jobs[1].clone();
    world.start(&Job {
        name: format!("h{}", hosts[0]),
        hosts: hosts.map(NodeId::from_index).to_vec(),
        pattern: Pattern::Streams {
            pairs: vec![[0, 1].map(Rank::from_index)],
        },
        paths: PathChoice::Via(via),
        ..late
    });
}
