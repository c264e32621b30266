//! Many worlds in which much goes wrong: lines are slow and forgetful, processes die, switches
//! refuse, jobs come and go. Each is one seed; one that is played alone prints its journal.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::operator::Mode;
use reweave_common::scenario::{Job, PathChoice, Scenario, Transport};
use reweave_common::units::Bytes;
use reweave_common::workload::Pattern;
use reweave_core::Policy;
use reweave_sim_cluster::World;
use reweave_sim_cluster::chance::Chance;
use reweave_sim_cluster::counts;
use reweave_sim_cluster::faults::{Fault, plague};
use reweave_sim_cluster::seeds::{number, sample_seeds, sum_of};
use reweave_sim_cluster::wire::Weather;

use crate::fabrics::some_fabric;
use crate::scene::{demo, policy};

const SEED_COUNT: u64 = 15;
const FAULT_TIME: Duration = Duration::from_secs(40);
/// Shorter than usual, so that more happens.
const SHORT_COOL_DOWN: Duration = Duration::from_secs(2);

#[test]
fn laws_hold_under_any_faults() {
    if let Some(seed) = number("REWEAVE_SEED") {
        return eprintln!("{}", live(seed).journal());
    }
    let sum = sum_of(&sample_seeds(SEED_COUNT, &[]), |seed| seen(&live(seed)));
    assert!(sum.kept > 0 && sum.taken_back > 0, "nothing was tried");
}

counts! {
    /// What was seen in all worlds.
    struct Sum {
        events,
        coordinators_died,
        instructions_followed,
        kept,
        taken_back,
    }
}

fn seen(world: &World) -> Sum {
    let looks = world.laws.looks;
    Sum {
        events: world.events(),
        coordinators_died: world.coordinator.died as u64,
        instructions_followed: looks.acts,
        kept: looks.kept,
        taken_back: looks.taken_back,
    }
}

/// A world that is troubled for a while and then comes to rest.
pub(crate) fn live(seed: u64) -> World {
    let mut chance = Chance::of(seed ^ 0x5eed);
    let policy = Policy {
        cool_down: SHORT_COOL_DOWN,
        ..policy(Mode::Auto)
    };
    let scenario = some_scenario(&mut chance);
    let mut world = World::new(scenario, policy, seed, Weather::FOUL_WEATHER);
    world.laws.may_trade = true;
    for number in 0..1 + chance.below(6) {
        let job = some_job(&mut chance, world.scenario(), number);
        let at = chance.time(Duration::ZERO, FAULT_TIME);
        world.afflict(at, Fault::JobStarts(Box::new(job)));
    }
    let troubles = chance.below(12);
    plague(&mut world, &mut chance, FAULT_TIME, troubles);
    world.run_for(FAULT_TIME);
    world.rest();
    world
}

/// The demo's, where its jobs may come at any time, or one on another fabric.
fn some_scenario(chance: &mut Chance) -> Scenario {
    let demo = demo();
    if chance.happens(0.5) {
        return demo;
    }
    Scenario {
        fabric: some_fabric(chance),
        jobs: Vec::new(),
        ..demo
    }
}

/// One of the scenario's, or streams from one or two hosts to others.
fn some_job(chance: &mut Chance, scenario: &Scenario, number: usize) -> Job {
    if let Some(job) = scenario.jobs.get(number) {
        return job.clone();
    }
    let mut hosts: Vec<_> = scenario.fabric.endpoints().collect();
    let mut drawn = || hosts.swap_remove(chance.below(hosts.len()));
    let hosts = [drawn(), drawn(), drawn(), drawn()].to_vec();
    let pairs = [[0, 1], [2, 3]].map(|pair| pair.map(Rank::from_index));
    let streams = 1 + chance.below(2);
    // On rails each flow of a pair has its own.
    let most_flows = usize::from(scenario.fabric.rail_count()).max(2);
    Job {
        name: format!("job-{number}"),
        hosts,
        pattern: Pattern::Streams {
            pairs: pairs[..streams].to_vec(),
        },
        bytes: Bytes::new(2_000_000 + 1_000_000 * chance.below(10) as u64),
        flows_per_pair: 1 + chance.below(most_flows) as u32,
        rail_shift: None,
        compute: Duration::from_millis(10 * chance.below(5) as u64),
        iterations: u32::MAX,
        transport: Transport::Tcp,
        paths: *chance.one_of(&[PathChoice::Hash, PathChoice::Collide, PathChoice::Spread]),
        start: Duration::ZERO,
    }
}
