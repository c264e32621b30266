//! Plans side by side, each on its own optical switch, and others that want what one of them has.

use std::fmt::Write as _;
use std::time::Duration;

use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::OpticalId;
use reweave_common::split_mix::SplitMix64;
use reweave_sim_cluster::chance::Chance;
use reweave_sim_cluster::circuits::faults::{Fault, plague};
use reweave_sim_cluster::circuits::world::World;
use reweave_sim_cluster::seeds::{number, sample_seeds, sum_of};
use reweave_sim_cluster::wire::Weather;

use crate::random_scene::some_circuits;
use crate::seeds::tally;

const SEED_COUNT: u64 = 20;
const FAULT_TIME: Duration = Duration::from_secs(7);
/// As many people as want something while another plan is on its way.
const REQUEST_COUNT: usize = 4;

/// Two groups of four, each in a ring of its own, and one that reaches all by cable.
fn two_rings() -> Fabric {
    let mut text = "kind = \"graph\"\n".to_owned();
    let address = |host: usize| format!("address = \"10.255.0.{}\"", host + 1);
    for host in 0..9 {
        let address = address(host);
        let _ = writeln!(
            text,
            "[[node]]\nname = \"h{host}\"\nrole = \"relay\"\n{address}"
        );
    }
    for optical in 0..2 {
        let ring = "[[1, 4], [3, 6], [5, 8], [7, 2]]";
        let _ = writeln!(
            text,
            "[[optical]]\nname = \"ocs{optical}\"\nports = 8\ncircuits = {ring}"
        );
    }
    for (host, side) in (0..8).flat_map(|host| [0, 1].map(|side| (host, side))) {
        let (optical, port) = (host / 4, 2 * (host % 4) + side + 1);
        let _ = writeln!(
            text,
            "[[fibre]]\nnode = \"h{host}\"\ninterface = \"fab{side}\"\n\
             optical = \"ocs{optical}\"\nport = {port}\ngbps = 1"
        );
    }
    for host in 0..8 {
        let _ = writeln!(text, "[[link]]\na = \"h{host}\"\nb = \"h8\"\ngbps = 1");
    }
    Fabric::parse("rings.toml", &text).expect("it is a fabric")
}

/// Circuits for one of them alone.
fn wish(fabric: &Fabric, rng: &mut SplitMix64, optical: usize) -> Circuits {
    let optical = OpticalId::from_index(optical);
    let mut circuits = some_circuits(fabric, rng);
    circuits.retain(|it, _| *it == optical);
    circuits
}

fn live(seed: u64, weather: Weather) -> World {
    let mut rng = SplitMix64::new(seed);
    let mut world = World::new(two_rings(), seed);
    let mut chance = Chance::of(seed ^ 0xbe51de);
    let fabric = world.cluster.cabling.fabric.clone();
    if weather == Weather::FOUL_WEATHER {
        world.afflict(Duration::ZERO, Fault::WeatherTurns(weather));
        let troubles = 1 + chance.below(8);
        plague(&mut world, &mut chance, FAULT_TIME, troubles);
    }
    for nth in 0..REQUEST_COUNT {
        let optical = if nth < 2 { nth } else { rng.below(2) };
        let circuits = wish(&fabric, &mut rng, optical);
        world.rewire(&circuits);
        world.run_for(chance.time(Duration::ZERO, Duration::from_secs(2)));
    }
    world.run_for(FAULT_TIME);
    world.rest();
    world
}

#[test]
fn disjoint_plans_survive_any_faults() {
    if let Some(seed) = number("REWEAVE_SEED") {
        return eprintln!("{}", live(seed, Weather::FOUL_WEATHER).journal());
    }
    let seeds = sample_seeds(SEED_COUNT, &[]);
    let count = seeds.len() as u64;
    let sum = sum_of(&seeds, |seed| {
        tally(Some(live(seed, Weather::FOUL_WEATHER)))
    });
    let both = sum.kept > count / 4 && sum.taken_back > count / 8;
    assert!(both && sum.beside > count / 4, "little was tried: {sum:?}");
}

#[test]
fn fair_weather_commits_both_plans() {
    let sum = sum_of(&Vec::from_iter(0..10), |seed| {
        tally(Some(live(seed, Weather::FAIR_WEATHER)))
    });
    assert!(
        sum.kept >= 20 && sum.taken_back == 0 && sum.beside > 5,
        "{sum:?}"
    );
}
