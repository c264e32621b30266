//! The third story: servers without switches, whose fibres suit none of the jobs, and are joined otherwise.

use reweave_common::operator::{Outcome, Plan};
use reweave_tests::{STAGE_TIMEOUT, Setting, StageError, wait_for};
use serde::Deserialize;

use crate::scene::{Pace, Scene};
use crate::screen::Screen;

const RING_SETTING: Setting<'static> = Setting {
    scenario: include_str!("clusters/ring-jobs.toml"),
    fabric: include_str!("clusters/ring.toml"),
};
/// Of flows that share each fibre with another.
const SHARED_PACE: Pace = Pace {
    mbps: 50.0,
    after: 2,
};
/// A demo that shows less has failed. With a fibre alone they send in half of the time, and compute as long.
const MIN_GAIN: f64 = 1.3;

#[derive(Deserialize)]
struct Offered {
    plan: Plan,
}

/// Whether the jobs got fibres of their own, which helped and broke nothing.
pub(crate) fn tell(screen: &Screen) -> Result<bool, StageError> {
    let mut scene = Scene::set(screen, RING_SETTING)?;
    let _driver = scene.stage.start_driver("ocs0")?;
    screen.woven_opening(&scene)?;
    scene.begin("even", SHARED_PACE)?;
    scene.begin("odd", SHARED_PACE)?;
    let before = scene.look()?;
    scene.show("Before", &before);

    let plan = suited(&scene)?;
    screen.joins(&plan);
    let (record, took) = scene.apply(&plan)?;
    screen.outcome(&scene, &record, took);

    let after = scene.look()?;
    scene.show("After", &after);
    let gain = before.gain(&after);
    screen.result(gain);
    let helped = record.outcome == Outcome::Committed && gain >= MIN_GAIN;
    Ok(scene.end()? && helped)
}

/// Once it is measured which fibres are full.
fn suited(scene: &Scene<'_>) -> Result<Plan, StageError> {
    scene.screen.say("asking which circuits suit the jobs ...");
    let operator = scene.stage.operator();
    let mut refused = None;
    let found = wait_for("circuits suit the jobs better", STAGE_TIMEOUT, || {
        let offered: Result<Offered, _> = operator.ask(&["plan", "circuits"]);
        let offered = offered.map_err(|why| refused = Some(why)).ok();
        Ok(offered.map(|offered| offered.plan))
    });
    scene.screen.clear();
    found.map_err(|late| refused.unwrap_or(late))
}
