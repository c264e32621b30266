//! The first story: two flows share one uplink while another is idle, and Reweave repairs it.

use std::time::Duration;

use reweave_common::operator::{Mode, Request, Response};
use reweave_core::{Author, Outcome};
use reweave_sim_cluster::World;
use reweave_sim_cluster::wire::Weather;

use crate::scene::{WATCH_TIME, apply, collided, ended, led, planned, rates_mbps, slowest};

/// Perfect would be a little under 2.
const MIN_GAIN: f64 = 1.8;
/// From the first byte of the colliding flows to the victim's new rate.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(5);
/// What two flows cannot both have on one uplink of 200 Mb/s.
const MIN_UNSHARED_MBPS: f64 = 150.0;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[test]
fn operator_resolves_collision() {
    let mut world = collided(Mode::Manual, 1, Weather::FAIR_WEATHER);
    let flows = world.jobs.flows("train");
    let before = slowest(&rates_mbps(&mut world, &flows, WATCH_TIME));
    let Some(Response::Findings(findings)) = world.ask(Request::Diagnose) else {
        panic!("no findings")
    };
    assert_eq!(findings.findings.len(), 1, "{findings:#?}");
    let plan = planned(&mut world);
    apply(&mut world, plan);
    let ended = ended(&mut world, 1);
    assert_eq!(ended.outcome, Outcome::Committed);
    let after = slowest(&rates_mbps(&mut world, &flows, WATCH_TIME));
    assert!(after / before >= MIN_GAIN, "{before} -> {after}");
    assert_eq!(world.laws.looks.kept, 1);
    world.look_at_rest();
}

#[test]
fn policy_resolves_collision_within_5s() {
    for seed in 1..=8 {
        let mut world = led(Mode::Auto, seed, Weather::FAIR_WEATHER);
        world.start_job("train");
        let flows = world.jobs.flows("train");
        let began = world.now();
        let collided = slowest(&rates_mbps(&mut world, &flows, Duration::from_millis(500)));
        while slowest(&rates_mbps(&mut world, &flows, POLL_INTERVAL)) < MIN_UNSHARED_MBPS {
            mended_in_time(&world, world.now().since(began));
        }
        let ended = ended(&mut world, 1);
        assert_eq!(
            (ended.outcome, ended.proposed.by),
            (Outcome::Committed, Author::Policy)
        );
        let after = slowest(&rates_mbps(&mut world, &flows, WATCH_TIME));
        assert!(after / collided >= MIN_GAIN, "{collided} -> {after}");
    }
}

fn mended_in_time(world: &World, waited: Duration) {
    if waited > REPAIR_TIMEOUT {
        world.fail("not mended in five seconds");
    }
}
