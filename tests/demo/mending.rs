//! The first story: two flows share one uplink while another is idle, and Reweave mends it.

use reweave_common::operator::Outcome;
use reweave_tests::{JobReport, StageError};

use crate::scene::Scene;
use crate::screen::Screen;

/// A demo that shows less has failed. Perfect would be a little under 2.
const LEAST_GAIN: f64 = 1.8;

/// Whether the change helped and broke nothing.
pub(crate) fn tell(screen: &Screen) -> Result<bool, StageError> {
    let mut scene = Scene::set(screen)?;
    screen.opening(&scene)?;
    scene.begin("train")?;
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
    let gain = before.iteration.as_secs_f64() / after.iteration.as_secs_f64();
    screen.result(gain);
    let reports: Vec<_> = scene.jobs.drain(..).map(reweave_tests::Job::stop).collect();
    let reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
    screen.sessions(&reports);
    let kept = reports.iter().all(JobReport::kept_all_sessions);
    Ok(record.outcome == Outcome::Committed && gain >= LEAST_GAIN && kept)
}
