//! The first story: two flows share one uplink while another is idle, and Reweave repairs it.

use reweave_common::operator::Outcome;
use reweave_tests::{Setting, StageError};

use crate::scene::{SHARED_PACE, Scene};
use crate::screen::Screen;

/// A demo that shows less has failed. Perfect would be a little under 2.
const MIN_GAIN: f64 = 1.5;

/// Whether the change helped and broke nothing.
pub(crate) fn tell(screen: &Screen) -> Result<bool, StageError> {
    let mut scene = Scene::set(screen, Setting::DEMO_SETTING)?;
    screen.opening(&scene)?;
    scene.begin("train", SHARED_PACE)?;
    let before = scene.look()?;
    scene.show("Before", &before);

    for collision in &scene.collisions()? {
        screen.finding(&scene, collision);
    }
    let plan = scene.plan()?;
    screen.plan(&scene, &plan);
    let (record, took) = scene.apply(&plan)?;
    screen.outcome(&scene, &record, took);

    let after = scene.look()?;
    scene.show("After", &after);
    let gain = before.gain(&after);
    screen.result(gain);
    let helped = record.outcome == Outcome::Committed && gain >= MIN_GAIN;
    Ok(scene.end()? && helped)
}
