//! One seed, one life: the same to the last byte, however often it is lived.

use std::sync::Arc;
use std::time::Duration;

use reweave_common::operator::Mode;
use reweave_core::Effect;
use reweave_sim_cluster::World;
use reweave_sim_cluster::wire::Weather;

use crate::scene::{demo, policy};
use crate::seeds::live;

#[test]
fn same_seed_gives_same_run() {
    let [one, again, other] = [3, 3, 4].map(|seed| live(seed).journal());
    assert_eq!(one, again);
    assert_ne!(one, other);
}

#[test]
fn coordinator_inputs_and_effects_replay() {
    let lived = || {
        let mut world = World::new(demo(), policy(Mode::Auto), 5, Weather::FOUL_WEATHER);
        world.coordinator.record();
        world.start_job("train");
        world.run_for(Duration::from_secs(15));
        let (recording, effects) = world.coordinator.recorded().expect("it was recorded");
        let bytes = serde_json::to_vec(&(recording, effects)).expect("plain data");
        (
            recording.clone(),
            effects.to_vec(),
            bytes,
            Arc::clone(&world.network.fabric),
        )
    };
    let (recording, effects, bytes, fabric) = lived();
    assert!(effects.len() > 5, "{} effects", effects.len());
    assert_eq!(lived().2, bytes);
    let text = |effects: &[Effect]| serde_json::to_string(effects).expect("plain data");
    let replayed = recording.replay(fabric);
    assert_eq!(text(&replayed), text(&effects));
}
