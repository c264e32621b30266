//! Plans that cannot be carried out: a switch refuses, a disk is full, the flow is gone, answers are
//! late or lost. The network is never worse off than before.

use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::instruction::InstallRefusal;
use reweave_common::operator::Mode;
use reweave_common::plan::Generation;
use reweave_core::{Migration, Outcome, Reason};
use reweave_sim_cluster::World;
use reweave_sim_cluster::faults::Fault;
use reweave_sim_cluster::network::Network;
use reweave_sim_cluster::wire::Weather;

use crate::scene::{apply, collided, ended, planned};

/// The demo's collision, a plan against it, and the switch that it changes.
fn offered() -> (World, Generation, NodeId) {
    let mut world = collided(Mode::Manual, 1, Weather::FAIR_WEATHER);
    let plan = planned(&mut world);
    let pins = &world
        .state()
        .and_then(|state| state.rollouts().next())
        .expect("it is offered")
        .plan
        .pins;
    let switch = pins[0].at;
    (world, plan, switch)
}

fn is_applying(world: &mut World) -> bool {
    let rollout = world.state().and_then(|state| state.rollouts().next());
    rollout.is_some_and(|rollout| {
        let migration = rollout.phase.migration();
        let is_forth = migration.is_some_and(|it| !it.leads_back());
        is_forth && rollout.phase.step().is_some()
    })
}

/// Why the plan was rolled back, after which no switch holds anything of it.
fn taken_back(world: &mut World) -> Vec<Reason> {
    let ended = ended(world, 1);
    let Outcome::RolledBack { reasons, .. } = ended.outcome else {
        world.fail(&format!("not rolled back but {:?}", ended.outcome))
    };
    world.look_at_rest();
    assert!(holds_nothing(&world.network));
    reasons
}

fn holds_nothing(network: &Network) -> bool {
    let mut kernels = network.kernels.values();
    kernels.all(|kernel| kernel.rules().is_empty())
}

/// A plan that its switch refuses, for a reason like this, has been rolled back.
fn refused(world: &mut World, plan: Generation, like: fn(&InstallRefusal) -> bool) {
    apply(world, plan);
    let reasons = taken_back(world);
    let fits = |reason: &Reason| match reason {
        Reason::Refused { refusal, .. } => like(refusal),
        _ => false,
    };
    assert!(reasons.iter().all(fits), "{reasons:?}");
}

#[test]
fn refusing_switch_rolls_plan_back() {
    let (mut world, plan, switch) = offered();
    world.network.refuse(switch, true);
    refused(&mut world, plan, |refusal| {
        matches!(refusal, InstallRefusal::Kernel { .. })
    });
}

#[test]
fn switch_without_disk_rolls_plan_back() {
    let (mut world, plan, switch) = offered();
    world.afflict(
        Duration::ZERO,
        Fault::DiskIsFull {
            node: switch,
            is_full: true,
        },
    );
    world.run_for(Duration::from_millis(1));
    refused(&mut world, plan, |refusal| {
        matches!(refusal, InstallRefusal::NotDurable { .. })
    });
}

#[test]
fn flow_ended_before_apply_withdraws_plan() {
    let (mut world, ..) = offered();
    world.stop_job("train");
    let ended = ended(&mut world, 1);
    assert!(
        matches!(ended.outcome, Outcome::Withdrawn { .. }),
        "{:?}",
        ended.outcome
    );
    assert_eq!(world.laws.looks.acts, 0, "no switch was instructed");
}

/// The switch hears of it when its flow is gone already.
#[test]
fn flow_ended_before_pin_rolls_back() {
    let (mut world, plan, _) = offered();
    let slow = Duration::from_secs(3);
    world.wire.weather = Weather {
        least_delay: slow,
        most_delay: slow,
        ..Weather::FAIR_WEATHER
    };
    apply(&mut world, plan);
    assert!(is_applying(&mut world));
    world.wire.weather = Weather::FAIR_WEATHER;
    world.stop_job("train");
    let reasons = taken_back(&mut world);
    let ended = |reason: &Reason| matches!(reason, Reason::FlowEnded { .. });
    assert!(reasons.iter().any(ended), "{reasons:?}");
}

#[test]
fn lost_acks_roll_plan_back() {
    let (mut world, plan, _) = offered();
    world.wire.weather = Weather {
        loss: 1.0,
        ..Weather::FAIR_WEATHER
    };
    apply(&mut world, plan);
    world.run_for(Duration::from_secs(30));
    let state = world.state().expect("the coordinator runs");
    let migration = state.rollouts().next().and_then(|it| it.phase.migration());
    assert!(migration.is_some_and(Migration::is_held), "{migration:?}");
    world.wire.weather = Weather::FAIR_WEATHER;
    let reasons = taken_back(&mut world);
    let silent = |reason: &Reason| matches!(reason, Reason::Silent { .. });
    assert!(reasons.iter().any(silent), "{reasons:?}");
}

#[test]
fn late_duplicate_acks_change_nothing() {
    let (mut world, plan, _) = offered();
    world.wire.weather = Weather {
        most_delay: Duration::from_millis(900),
        disorder: 0.5,
        echo: 1.0,
        ..Weather::FAIR_WEATHER
    };
    apply(&mut world, plan);
    assert_eq!(ended(&mut world, 1).outcome, Outcome::Committed);
    world.rest();
}

#[test]
fn former_leader_instructions_are_ignored() {
    let (mut world, plan, _) = offered();
    world.wire.weather = Weather {
        ghosts: 1.0,
        ..Weather::FAIR_WEATHER
    };
    world.start_job("late");
    world.run_for(Duration::from_secs(3));
    apply(&mut world, plan);
    taken_back(&mut world);
    world.rest();
    assert!(world.journal().matches("hears an old instruction").count() >= 2);
    assert!(holds_nothing(&world.network));
}

#[test]
fn deleted_rules_are_restored() {
    let (mut world, plan, switch) = offered();
    apply(&mut world, plan);
    assert_eq!(ended(&mut world, 1).outcome, Outcome::Committed);
    world.afflict(Duration::ZERO, Fault::RulesFlushed { switch });
    world.run_for(Duration::from_secs(1));
    world.look_at_rest();
    assert_eq!(world.network.kernels[&switch].rules().len(), 1);
}
