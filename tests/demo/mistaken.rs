//! The second story: between plan and change another job takes the uplink that the plan counts on.

use reweave_common::operator::Outcome;
use reweave_tests::{Setting, StageError};

use crate::scene::{SHARED_PACE, Scene};
use crate::screen::Screen;

/// Whether the change was rolled back to exactly the old routes, and nothing broke.
pub(crate) fn tell(screen: &Screen) -> Result<bool, StageError> {
    let mut scene = Scene::set(screen, Setting::DEMO_SETTING)?;
    screen.second_opening();
    scene.begin("train", SHARED_PACE)?;
    let plan = scene.plan()?;
    screen.plan(&scene, &plan);
    let routing = scene.stage.routing()?;
    scene.begin("late", SHARED_PACE)?;
    let before = scene.look()?;
    screen.turn();
    scene.show("Before", &before);

    let (record, took) = scene.apply(&plan)?;
    screen.outcome(&scene, &record, took);
    let restored = scene.stage.routing()? == routing;
    screen.restored(restored, scene.stage.nodes().count());
    let after = scene.look()?;
    scene.show("After", &after);
    let kept = scene.end()?;
    let taken_back = matches!(record.outcome, Outcome::RolledBack { .. });
    Ok(taken_back && restored && kept)
}
