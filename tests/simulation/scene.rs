//! The scenario of the demo, in a world instead of a lab.

use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::operator::{Mode, Request, Response};
use reweave_common::plan::Generation;
use reweave_common::scenario::Scenario;
use reweave_core::{Ended, Policy};
use reweave_sim_cluster::World;
use reweave_sim_cluster::wire::Weather;
use reweave_tests::Setting;

/// Long enough for several iterations, and for agents to see what they need.
pub(crate) const WATCH_TIME: Duration = Duration::from_secs(3);

/// The very files that the lab reads.
pub(crate) fn demo() -> Scenario {
    let Setting { scenario, fabric } = Setting::DEMO_SETTING;
    let fabric = |_: &str| Ok(fabric.to_owned());
    Scenario::parse("demo.toml", scenario, fabric).expect("the demo's scenario is sound")
}

pub(crate) fn policy(mode: Mode) -> Policy {
    Policy {
        mode,
        ..Policy::default()
    }
}

/// A world in which everything runs and is known, with nothing on the links yet.
pub(crate) fn led(mode: Mode, seed: u64, weather: Weather) -> World {
    let mut world = World::new(demo(), policy(mode), seed, weather);
    world.run_until("all there", |world| world.is_calm());
    world.run_for(WATCH_TIME);
    world
}

/// The same with the colliding job, at the rate that its flows are left with.
pub(crate) fn collided(mode: Mode, seed: u64, weather: Weather) -> World {
    let mut world = led(mode, seed, weather);
    world.start_job("train");
    world.run_for(WATCH_TIME);
    world
}

/// The number of the plan against the collision, which an operator asks for until there is one.
pub(crate) fn planned(world: &mut World) -> Generation {
    let mut plan = None;
    world.run_until("planned", |world| {
        if let Some(Response::Plan {
            plan: Some(offered),
            ..
        }) = world.ask(Request::Plan)
        {
            plan = Some(offered.generation);
        }
        plan.is_some()
    });
    plan.expect("that was waited for")
}

pub(crate) fn apply(world: &mut World, generation: Generation) {
    let answer = world.ask(Request::Apply { generation });
    let started = Some(Response::ApplyStarted { generation });
    assert_eq!(answer, started, "{}", world.journal());
}

/// The plan that has ended last, once this many have.
pub(crate) fn ended(world: &mut World, plans: u64) -> Ended {
    world.run_until("ended", |world| {
        world.state().is_some_and(|state| state.ended() >= plans)
    });
    let state = world.state().expect("the coordinator runs");
    state.history().next_back().expect("one has ended").clone()
}

/// The mean rates of these flows over some time from now, pauses included.
pub(crate) fn rates_mbps(world: &mut World, flows: &[FlowKey], span: Duration) -> Vec<f64> {
    let arrived = |world: &mut World| -> Vec<_> {
        flows.iter().map(|flow| world.arrived_bytes(flow)).collect()
    };
    let before = arrived(world);
    world.run_for(span);
    let pairs = arrived(world).into_iter().zip(before);
    pairs
        .map(|(now, before)| (now - before) * 8.0 / 1e6 / span.as_secs_f64())
        .collect()
}

pub(crate) fn slowest(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(f64::INFINITY, f64::min)
}
