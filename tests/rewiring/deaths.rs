//! Every program dies once at every point of a plan: the coordinator over each entry of its log, every agent and driver
//! before each of its steps.

use std::time::Duration;

use reweave_common::instruction::Token;
use reweave_common::split_mix::SplitMix64;
use reweave_core::{Change, Outcome};
use reweave_sim_cluster::circuits::device::Ailment;
use reweave_sim_cluster::circuits::world::World;
use reweave_sim_cluster::coordinator::{Death, Guest};
use reweave_sim_cluster::seeds::number;

use crate::random_scene::{some_circuits, some_fabric, some_tables};
use crate::seeds::is_over;

/// From the end of all trouble, with restarts of those that died.
pub(crate) const RESUME_TIMEOUT: Duration = Duration::from_secs(30);

/// A world just before a plan, and the plan under way in it.
pub(crate) fn begun(seed: u64, prepare: impl FnOnce(&mut World)) -> Option<World> {
    let mut rng = SplitMix64::new(seed);
    let fabric = some_fabric(&mut rng)?;
    let circuits = some_circuits(&fabric, &mut rng);
    let tables = some_tables(&fabric, &circuits, &mut rng);
    let mut world = World::new(fabric, seed);
    prepare(&mut world);
    world.propose(tables, circuits);
    Some(world)
}

/// Until it is over, by the same clock for all.
fn run_to_end(seed: u64, prepare: impl FnOnce(&mut World)) -> Option<World> {
    let mut world = begun(seed, prepare)?;
    if !world.run_until(RESUME_TIMEOUT, |world| !world.is_busy()) {
        world.fail("not over in time");
    }
    world.rest();
    is_over(world.outcome().as_ref()).then_some(world)
}

/// Those whose plan moves circuits and is carried out, when nothing goes wrong.
pub(crate) fn good(count: usize) -> Vec<(u64, World)> {
    let tried = (0..).filter_map(|seed| Some((seed, run_to_end(seed, |_| {})?)));
    let moved = tried.filter(|(_, world)| world.looks().kept == 1 && world.looks().moves > 0);
    moved.take(count).collect()
}

/// `REWEAVE_DEATHS=COUNT` lets every program die over the plans of this many seeds.
fn seeds() -> usize {
    number("REWEAVE_DEATHS").map_or(3, |count| count as usize)
}

#[test]
fn coordinator_may_crash_at_every_entry() {
    let mut died = 0;
    for (seed, undisturbed) in good(seeds()) {
        let entries = undisturbed.cluster.coordinator.log().len();
        for (entry, is_durable) in (2..entries).flat_map(|entry| [(entry, true), (entry, false)]) {
            let death = Death { entry, is_durable };
            let world = run_to_end(seed, |world| world.cluster.coordinator.will_die(death));
            let world = world.unwrap_or_else(|| panic!("seed {seed}: {death:?}"));
            assert_eq!(world.cluster.coordinator.died, 1, "seed {seed}: {death:?}");
            died += 1;
        }
    }
    assert!(died > 10 * seeds(), "only {died} died");
}

#[test]
fn every_driver_may_crash_anywhere() {
    assert!(dies_everywhere(|guest| matches!(guest, Guest::Driver(_))) > 10 * seeds());
}

#[test]
fn busiest_agent_may_crash_anywhere() {
    assert!(dies_everywhere(|guest| matches!(guest, Guest::Agent(_))) > 10 * seeds());
}

/// The one of these who has most to do. How often it died.
fn dies_everywhere(is_one: impl Fn(&Guest) -> bool) -> usize {
    let mut died = 0;
    for (seed, mut undisturbed) in good(seeds()) {
        let guests = undisturbed.cluster.guests().into_iter().filter(&is_one);
        let busiest = guests.max_by_key(|&guest| undisturbed.cluster.life(guest).steps);
        let guest = busiest.expect("there are some");
        for step in 0..undisturbed.cluster.life(guest).steps {
            let world = run_to_end(seed, |world| world.cluster.life(guest).left = Some(step));
            let world = world.unwrap_or_else(|| panic!("seed {seed}: {guest:?} at {step}"));
            died += usize::from(world.journal().contains("dies"));
        }
    }
    died
}

/// What is known of what a device did wrongly is nothing, until a person has put it right.
#[test]
fn lying_device_holds_plan() {
    for ails in [Ailment::MovesHalf, Ailment::WrongPort] {
        let mut held = 0;
        for (seed, _) in good(10) {
            let ill = |world: &mut World| {
                for driver in world.cluster.drivers.values_mut() {
                    driver.device.ails = ails;
                }
            };
            let mut world = begun(seed, ill).expect("it was good");
            world.run_for(Duration::from_secs(40));
            held += usize::from(world.is_held());
            let log = world.cluster.coordinator.log();
            let light = |change: &Change| matches!(change, Change::LightCame { .. });
            let mut parts = log.iter().flat_map(|command| command.change.parts());
            let came = parts.any(light);
            assert!(!came || !world.is_held(), "seed {seed}: {ails:?}");
            assert!(
                !world.is_held() || world.is_held_for_a_device(),
                "seed {seed}"
            );
            world.rest();
        }
        assert!(held > 0, "{ails:?}: it was never held");
    }
}

/// Packets that come back to the old circuits of a device that did not answer are lost when it moves after all.
#[test]
fn late_device_takes_no_packets() {
    let mut held = 0;
    for (seed, _) in good(10) {
        let ill = |world: &mut World| {
            for driver in world.cluster.drivers.values_mut() {
                driver.device.ails = Ailment::Delays;
            }
        };
        let mut world = begun(seed, ill).expect("it was good");
        world.run_for(Duration::from_secs(40));
        held += usize::from(world.is_held());
        world.rest();
        let outcome = world.outcome();
        assert!(is_over(outcome.as_ref()), "seed {seed}: {outcome:?}");
    }
    assert!(held > 0, "it was never held");
}

/// Packets do not come back to what comes and goes, and there would be some lost if they did.
#[test]
fn unstable_light_rolls_plan_back() {
    let good = good(4);
    for ails in [Ailment::Flaps, Ailment::Vanishes] {
        for &(seed, _) in &good {
            let ill = |world: &mut World| {
                for driver in world.cluster.drivers.values_mut() {
                    driver.device.ails = ails;
                }
            };
            let mut world = begun(seed, ill).expect("it was good");
            world.run_for(Duration::from_secs(40));
            let log = world.cluster.coordinator.log();
            let light = |change: &Change| matches!(change, Change::LightCame { .. });
            let mut parts = log.iter().flat_map(|command| command.change.parts());
            let came = parts.any(light);
            assert!(!came, "seed {seed}: {ails:?}");
            world.rest();
            let outcome = world.outcome();
            assert!(
                matches!(outcome, Some(Outcome::RolledBack { .. })),
                "seed {seed}: {ails:?}: {outcome:?}"
            );
        }
    }
}

/// Traffic of a card with a fixed next hop, which goes on under any table of its node.
#[test]
fn circuits_stay_while_packets_pass() {
    let mut taken_back = 0;
    for (seed, _) in good(8) {
        let busy = |world: &mut World| {
            let ports: Vec<_> = world.cluster.lit_ports().collect();
            world.cluster.laws.stubborn.extend(ports);
        };
        let mut world = begun(seed, busy).expect("it was good");
        let circuits = |world: &World| {
            let drivers = world.cluster.drivers.values();
            drivers
                .map(|it| it.device.circuits.clone())
                .collect::<Vec<_>>()
        };
        let before = circuits(&world);
        assert!(
            world.run_until(RESUME_TIMEOUT, |world| !world.is_busy()),
            "seed {seed}"
        );
        assert_eq!(circuits(&world), before, "seed {seed}");
        taken_back += usize::from(matches!(world.outcome(), Some(Outcome::RolledBack { .. })));
    }
    assert!(taken_back > 4, "only {taken_back}");
}

/// What the log has lost of them they have followed all the same.
#[test]
fn driver_ahead_of_log_is_overtaken() {
    for (seed, _) in good(5) {
        let ahead = |world: &mut World| {
            for driver in world.cluster.drivers.values_mut() {
                driver.has_followed(Token(1_000_000));
            }
        };
        let world = run_to_end(seed, ahead).unwrap_or_else(|| panic!("seed {seed}"));
        assert_eq!(world.looks().kept, 1, "seed {seed}");
    }
}
