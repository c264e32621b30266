//! The second story: between plan and change another job takes the uplink that the plan counts on.

use reweave_common::operator::Outcome;
use reweave_tests::{Job, JobReport, StageError};

use crate::scene::Scene;
use crate::screen::Screen;

/// Whether the change was taken back to exactly the old routes, and nothing broke. `stay` may let a
/// person look around before the jobs end.
pub(crate) fn tell(
    screen: &Screen,
    stay: impl FnOnce(&mut Scene<'_>) -> Result<(), StageError>,
) -> Result<bool, StageError> {
    let mut scene = Scene::set(screen)?;
    screen.second_opening();
    scene.begin("train")?;
    let plan = scene.plan()?;
    screen.plan(&scene, &plan);
    let routing = scene.stage.routing()?;
    scene.begin("late")?;
    let before = scene.look()?;
    screen.turn();
    scene.show("Before", &before);

    let (record, took) = scene.apply(&plan)?;
    screen.outcome(&scene, &record, took);
    let restored = scene.stage.routing()? == routing;
    screen.restored(restored, scene.stage.nodes().count());
    let after = scene.look()?;
    scene.show("After", &after);
    stay(&mut scene)?;
    let reports: Vec<_> = scene.jobs.drain(..).map(Job::stop).collect();
    let reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
    screen.sessions(&reports);
    let kept = reports.iter().all(JobReport::kept_all_sessions);
    let taken_back = matches!(record.outcome, Outcome::RolledBack { .. });
    Ok(taken_back && restored && kept)
}
