//! The lab's other scenarios, read from the very files that it reads.

use std::fs;
use std::path::Path;

use reweave_common::moment::Moment;
use reweave_common::operator::Mode;
use reweave_common::scenario::Scenario;
use reweave_sim_cluster::World;
use reweave_sim_cluster::wire::Weather;

use crate::scene::policy;

fn scenario(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/scenarios");
    let text =
        |name: &str| fs::read_to_string(folder.join(name)).map_err(|error| error.to_string());
    let whole = text(name).expect("it is there");
    Scenario::parse(name, &whole, text).expect("it is sound")
}

/// The mean time that a job's iterations took, once it has done them all.
fn iteration_ms(world: &mut World, job: &str) -> f64 {
    let job = world.scenario().jobs.iter().find(|one| one.name == job);
    let job = job.expect("the scenario has it").clone();
    let began = world.now();
    world.start_job(&job.name);
    world.run_until("done", |world| {
        world.jobs.iterations(&job.name) == job.iterations
    });
    world.now().since(began).as_secs_f64() * 1e3 / f64::from(job.iterations)
}

/// Two flows that share an uplink take as long as the lab expects of them.
#[test]
fn collision_takes_expected_time() {
    let scenario = scenario("collision.toml");
    let expected = scenario.expectations[0]
        .min_iteration
        .expect("the file says it");
    let mut world = World::new(scenario, policy(Mode::Manual), 1, Weather::FAIR_WEATHER);
    let took_ms = iteration_ms(&mut world, "train");
    assert!(took_ms >= expected.as_secs_f64() * 1e3, "{took_ms} ms");
    assert!(took_ms < 500.0, "{took_ms} ms");
}

/// Every way of communicating comes to its end, on hosts that relay for each other.
#[test]
fn all_patterns_complete() {
    let scenario = scenario("patterns.toml");
    let jobs: Vec<_> = scenario.jobs.iter().map(|job| job.name.clone()).collect();
    let mut world = World::new(scenario, policy(Mode::Auto), 1, Weather::FAIR_WEATHER);
    for job in &jobs {
        let took_ms = iteration_ms(&mut world, job);
        assert!(took_ms > 0.0 && world.now() > Moment::default(), "{job}");
        world.stop_job(job);
    }
}
