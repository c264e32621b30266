//! The fourth story: an optic between a leaf and a spine dies slowly, and its link is left.

use reweave_common::cause::{Cause, Subject};
use reweave_common::operator::{Finding, Outcome, Plan};
use reweave_tests::{STAGE_TIMEOUT, Setting, StageError, wait_for};
use serde::Deserialize;

use crate::scene::{Pace, Scene, Seen};
use crate::screen::Screen;

const RACKS_SETTING: Setting<'static> = Setting {
    scenario: include_str!("clusters/racks-job.toml"),
    fabric: include_str!("clusters/racks.toml"),
};
/// Of flows that have their hosts' links to themselves.
const UNSHARED_PACE: Pace = Pace {
    mbps: 20.0,
    after: 8,
};
const DYING_LINK: [&str; 2] = ["leaf0", "spine1"];
const LOSS_DIVISOR: u32 = 10;

#[derive(Deserialize)]
struct Offered {
    plan: Option<Plan>,
}

/// Whether the link was found and left, which helped and broke nothing. `stay` may let a person look around
/// before the job ends.
pub(crate) fn tell(
    screen: &Screen,
    stay: impl FnOnce(&mut Scene<'_>) -> Result<(), StageError>,
) -> Result<bool, StageError> {
    let mut scene = Scene::set(screen, RACKS_SETTING)?;
    screen.dying_opening(&scene)?;
    scene.begin("train", UNSHARED_PACE)?;
    scene.stage.lose_coming(DYING_LINK, LOSS_DIVISOR)?;
    screen.dies(DYING_LINK, LOSS_DIVISOR);
    let (before, lost) = look(&mut scene)?;
    scene.show("Before", &before);
    screen.lost(lost);

    let (cause, link) = found(&scene)?;
    screen.cause(&cause);
    let plan = drained(&scene, &link)?;
    screen.drains(&scene, &plan, &link);
    let (record, took) = scene.apply(&plan)?;
    screen.outcome(&scene, &record, took);

    let (after, lost_after) = look(&mut scene)?;
    scene.show("After", &after);
    screen.lost(lost_after);
    screen.result(before.gain(&after));
    stay(&mut scene)?;
    let helped = record.outcome == Outcome::Committed && lost > 0 && lost_after == 0;
    Ok(scene.end()? && helped)
}

/// What is seen, and how many of the job's packets the optic loses meanwhile.
fn look(scene: &mut Scene<'_>) -> Result<(Seen, u64), StageError> {
    let before = scene.stage.lost(DYING_LINK[1])?;
    let seen = scene.look()?;
    Ok((seen, scene.stage.lost(DYING_LINK[1])? - before))
}

/// What is wrong, and what the link is called, once one link alone is blamed.
fn found(scene: &Scene<'_>) -> Result<(Cause, String), StageError> {
    scene.screen.say("asking what is wrong ...");
    let operator = scene.stage.operator();
    let found = wait_for("the dying link is found", STAGE_TIMEOUT, || {
        let findings = operator.diagnose()?.findings.into_iter();
        let mut blamed = findings.filter_map(|finding| match finding {
            Finding::Cause(cause) => Some((link_of(&cause.subject)?, cause)),
            _ => None,
        });
        Ok(blamed.next().map(|(link, cause)| (cause, link)))
    });
    scene.screen.clear();
    found
}

fn link_of(subject: &Subject) -> Option<String> {
    match subject {
        Subject::Hop { link, .. } | Subject::Link { link, .. } => Some(link.clone()),
        _ => None,
    }
}

/// The plan by which it carries nothing.
fn drained(scene: &Scene<'_>, link: &str) -> Result<Plan, StageError> {
    let operator = scene.stage.operator();
    wait_for("there is a plan", STAGE_TIMEOUT, || {
        let offered: Offered = operator.ask(&["plan", "drain", link])?;
        Ok(offered.plan)
    })
}
