//! Many worlds in which much goes wrong: lines are slow and forgetful, processes die, switches
//! refuse, jobs come and go. Each is one seed.
//!
//! `REWEAVE_SEED=N` plays that one alone and prints its journal; `REWEAVE_SEEDS=COUNT` plays so many.

use std::time::{Duration, Instant};

use reweave_common::operator::Mode;
use reweave_common::scenario::{Job, PathChoice, Scenario, Transport};
use reweave_common::ids::Rank;
use reweave_common::units::Bytes;
use reweave_common::workload::Pattern;
use reweave_tests::world::World;
use reweave_tests::world::chance::Chance;
use reweave_tests::world::faults::{Fault, plague};
use reweave_tests::world::wire::Weather;

use crate::scene::{demo, policy};

/// So many in every run of the tests.
const SEEDS: u64 = 60;
const TROUBLED: Duration = Duration::from_secs(40);

#[test]
fn whatever_goes_wrong_the_laws_hold() {
    if let Some(seed) = number("REWEAVE_SEED") {
        return eprintln!("{}", live(seed).journal());
    }
    let (began, count) = (Instant::now(), number("REWEAVE_SEEDS").unwrap_or(SEEDS));
    let mut sum = [0; 4];
    for seed in 0..count {
        let world = live(seed);
        let looks = world.laws.looks;
        let more = [world.events(), looks.acts, looks.kept, looks.taken_back];
        sum = std::array::from_fn(|index| sum[index] + more[index]);
    }
    let [events, acts, kept, taken_back] = sum;
    eprintln!(
        "{count} seeds, {events} events, {acts} instructions followed, {kept} plans kept and \
         {taken_back} taken back, in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    assert!(kept > 0 && taken_back > 0, "nothing was tried");
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not {value:?}")))
}

/// A world that is troubled for a while and then comes to rest.
pub(crate) fn live(seed: u64) -> World {
    let mut chance = Chance::of(seed ^ 0x5eed);
    let mut world = World::new(demo(), policy(Mode::Auto), seed, Weather::FOUL);
    world.laws.may_trade = true;
    world.start_job("train");
    for number in 0..chance.below(4) {
        let job = some_job(&mut chance, world.scenario(), number);
        let at = chance.time(Duration::ZERO, TROUBLED);
        world.afflict(at, Fault::JobStarts(Box::new(job)));
    }
    let troubles = chance.below(8);
    plague(&mut world, &mut chance, TROUBLED, troubles);
    world.run_for(TROUBLED);
    world.rest();
    world
}

/// Streams from one or two hosts to others.
fn some_job(chance: &mut Chance, scenario: &Scenario, number: usize) -> Job {
    let mut hosts: Vec<_> = scenario.fabric.endpoints().collect();
    let mut drawn = || hosts.swap_remove(chance.below(hosts.len()));
    let hosts = [drawn(), drawn(), drawn(), drawn()].to_vec();
    let pairs = [[0, 1], [2, 3]].map(|pair| pair.map(Rank::from_index));
    let streams = 1 + chance.below(2);
    Job {
        name: format!("job-{number}"),
        hosts,
        pattern: Pattern::Streams { pairs: pairs[..streams].to_vec() },
        bytes: Bytes::new(2_000_000 + 1_000_000 * chance.below(10) as u64),
        flows_per_pair: 1 + chance.below(2) as u32,
        compute: Duration::from_millis(10 * chance.below(5) as u64),
        iterations: u32::MAX,
        transport: Transport::Tcp,
        paths: *chance.one_of(&[PathChoice::Hash, PathChoice::Collide, PathChoice::Spread]),
        start: Duration::ZERO,
    }
}
