//! Devices that leave nobody knowing what they hold, and drivers that know more than the log.

use reweave_common::instruction::Token;

use super::device::{Ailment, Device};
use super::*;

#[test]
fn what_moved_by_halves_is_held_at_once_and_goes_on_when_it_is_put_right() {
    let mut held = 0;
    for seed in 0..20 {
        let Some(mut world) = world(seed) else {
            continue;
        };
        world.run_for(Duration::from_secs(2));
        let ail = |device: &mut Device| device.ails = Ailment::MovesHalf;
        world.devices.values_mut().for_each(ail);
        world.propose();
        if world.run(Duration::from_secs(25)).is_some() {
            continue;
        }
        let journey = world.state().rollout().unwrap().phase.journey().unwrap();
        assert!(journey.is_held, "seed {seed}: {:?}", journey.stage);
        world.heal();
        assert!(
            world.run(ENDS_WITHIN).is_some(),
            "seed {seed}: it never ends"
        );
        held += 1;
    }
    assert!(held > 0);
}

#[test]
fn a_driver_that_has_followed_what_the_log_has_lost_is_gone_beyond() {
    let mut moved = 0;
    for seed in 0..10 {
        let Some(mut world) = world(seed) else {
            continue;
        };
        world.run_for(Duration::from_secs(2));
        let remember = |device: &mut Device| device.highest = Token(1_000_000);
        world.devices.values_mut().for_each(remember);
        let before = world.circuits();
        world.propose();
        let outcome = world.run(ENDS_WITHIN);
        assert!(outcome.is_some(), "seed {seed}: it never ends");
        moved += usize::from(world.circuits() != before);
    }
    assert!(moved > 0);
}
