//! Two cables between a leaf and a spine: a fault of one is not attributed to the other.

use libtest_mimic::Trial;
use reweave_common::cause::{Class, Subject};
use reweave_common::operator::Outcome;
use reweave_tests::{Leadership, Loss, STAGE_TIMEOUT, Stage, wait_for};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, WATCH_TIME, causes, must, planned, reaches, slowest_over};
use crate::scene::led;

const FIRST_CABLE: &str = "leaf0-spine0";
const SECOND_CABLE: &str = "leaf0-spine0.1";
/// A gain of two would be perfect; a busy machine reaches less.
const MIN_GAIN: f64 = 1.6;
const LOSS_DIVISOR: u32 = 20;

pub(crate) fn tests() -> Vec<Trial> {
    let name = "parallel_cables_are_distinguished";
    vec![trial(name, STAGE_NEEDS, two_cables)]
}

const FABRIC: &str = "kind = \"graph\"\n\
    node = [{ name = \"h0\", role = \"host\" }, { name = \"h1\", role = \"host\" },\
            { name = \"h2\", role = \"host\" }, { name = \"h3\", role = \"host\" },\
            { name = \"leaf0\", role = \"switch\" }, { name = \"leaf1\", role = \"switch\" },\
            { name = \"spine0\", role = \"switch\" }]\n\
    link = [{ a = \"h0\", b = \"leaf0\", gbps = 0.2 }, { a = \"h1\", b = \"leaf0\", gbps = 0.2 },\
            { a = \"h2\", b = \"leaf1\", gbps = 0.2 }, { a = \"h3\", b = \"leaf1\", gbps = 0.2 },\
            { a = \"leaf0\", b = \"spine0\", gbps = 0.1, count = 2 },\
            { a = \"leaf1\", b = \"spine0\", gbps = 0.2 }]\n";

/// Both flows hash to the first cable.
const JOB: &str = "[[job]]\nname = \"train\"\npattern = \"streams\"\nhosts = [\"h0\", \"h1\", \"h2\", \"h3\"]\n\
    pairs = [[0, 2], [1, 3]]\nbytes = 4_000_000\ncompute_ms = 5\niterations = 1_000_000\npaths = \"collide\"\n";

fn two_cables() {
    let stage = led(FABRIC, JOB, &Leadership::without_rate_rollback());
    is_parted(&stage);
    let fabric = stage.fabric();
    let second = fabric.find_link(SECOND_CABLE).expect("it is there");
    let from = fabric.find("leaf0").expect("it is there");
    let port = stage.port_of(from, second);
    let _loss = must(Loss::leaving(&stage, ["leaf0", &port], LOSS_DIVISOR));
    let found = must(wait_for("the second cable is named", STAGE_TIMEOUT, || {
        let lossy = causes(&stage).into_iter();
        let lossy: Vec<_> = lossy.filter(|it| it.class == Class::LossyLink).collect();
        let is_open = |subject: &Subject| matches!(subject, Subject::Ambiguous(_));
        let is_reported = lossy.iter().any(|it| !is_open(&it.subject));
        Ok(is_reported.then_some(lossy))
    }));
    println!("{found:#?}");
    let subjects: Vec<_> = found.iter().map(|it| it.subject.to_string()).collect();
    assert_eq!(subjects, [format!("{SECOND_CABLE} from leaf0")]);
}

fn is_parted(stage: &Stage) {
    let mut job = must(stage.job("train"));
    must(job.wait_until("it sends", |progress| {
        progress.iterations >= 2 && progress.slowest_mbps() > 30.0
    }));
    let before = slowest_over(&mut job, WATCH_TIME);
    let plan = planned(stage);
    let pins: Vec<_> = plan.pins.iter().map(|pin| &pin.hop.link[..]).collect();
    assert_eq!(pins, [SECOND_CABLE], "{plan:#?}");
    let moves = plan.moves.iter();
    let moves: Vec<_> = moves
        .map(|it| [&it.from, &it.to].map(|hop| &hop.link[..]))
        .collect();
    assert_eq!(moves, [[FIRST_CABLE, SECOND_CABLE]]);
    let applied = must(stage.operator().apply(&plan));
    let outcome = applied.record.map(|record| record.outcome);
    assert_eq!(outcome, Some(Outcome::Committed), "{}", applied.words);
    reaches(&mut job, MIN_GAIN * before);
    assert!(must(job.stop()).kept_all_sessions());
}
