//! Jobs that rest: whether they meet, and what they would gain.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::finding::{Collision, Finding};
use reweave_common::snapshot::{FlowState, PeriodicJob, Snapshot};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;

use super::plans::planned;
use crate::tests::scene::{Scene, mbps};
use crate::{Policy, repair};

const SPINE0_PATH: [&str; 3] = ["leaf0", "spine0", "leaf1"];
const BEAT_PERIOD: Duration = Duration::from_millis(200);

/// Flows by their numbers, what each of them carries over all of the time, and for which part of it the
/// job rests.
struct Job(&'static [usize], u64, f64);

/// Two flows over one uplink of 100 Mb/s, and another that is idle.
fn two_meet() -> Scene {
    let mut scene = Scene::leaf_spine(2, 2, 4, 100, 100);
    scene.flow("h0", "h4", &SPINE0_PATH);
    scene.flow("h1", "h5", &SPINE0_PATH);
    scene
}

fn snapshot(scene: &Scene, jobs: &[Job]) -> Snapshot {
    let mut snapshot = scene.snapshot();
    for Job(flows, mean, _) in jobs {
        for &flow in *flows {
            slow_down(&mut snapshot, scene, flow, mbps(*mean));
        }
    }
    snapshot.beating = jobs.iter().map(|job| beating(scene, job)).collect();
    snapshot
}

fn slow_down(snapshot: &mut Snapshot, scene: &Scene, flow: usize, mean: Rate) {
    let state = state(&mut snapshot.flows, scene, flow);
    let before = state.rate;
    let [least, most] = [0.98, 1.02].map(|part| mean.bits_per_s() as f64 * part);
    state.rate = mean;
    state.rate_range = [least, most].map(|rate| Rate::from_bits_per_s(rate as u64));
    for hop in &scene.flows[flow].path {
        let link = snapshot.links.get_mut(hop).unwrap();
        let left = link.rate.bits_per_s() - before.bits_per_s() + mean.bits_per_s();
        link.rate = Rate::from_bits_per_s(left);
    }
}

fn state<'s>(flows: &'s mut [FlowState], scene: &Scene, flow: usize) -> &'s mut FlowState {
    let key = scene.flows[flow].flow;
    flows.iter_mut().find(|state| state.flow == key).unwrap()
}

fn beating(scene: &Scene, job: &Job) -> PeriodicJob {
    let Job(flows, mean, rests) = job;
    let carried = flows
        .iter()
        .map(|&flow| (scene.flows[flow].flow, mbps(*mean)));
    PeriodicJob {
        job: format!("job of {flows:?}"),
        exchanged: BTreeMap::new(),
        flows: carried.collect(),
        period: BEAT_PERIOD.into(),
        gap: TimeSpan::new(BEAT_PERIOD).scaled(*rests),
    }
}

fn found(snapshot: &Snapshot) -> Vec<Collision> {
    let findings = repair(snapshot, &Policy::default()).into_findings();
    let findings = findings.into_iter();
    findings
        .filter_map(|finding| match finding {
            Finding::EcmpCollision(collision) => Some(collision),
            _ => None,
        })
        .collect()
}

#[test]
fn resting_job_collides_despite_mean_load() {
    let scene = two_meet();
    let snapshot = snapshot(&scene, &[Job(&[0, 1], 24, 0.5)]);
    let [collision] = &found(&snapshot)[..] else {
        panic!("one collision, reported once")
    };
    assert_eq!(collision.hop, scene.hop("leaf0", "spine0"));
    assert!((0.95..=1.0).contains(&collision.utilization));
    // Half of an iteration is unchanged, the other half takes half as long.
    for loser in &collision.losers {
        let gain = loser.fair_rate.mbps() / loser.rate.mbps();
        assert!((1.3..1.35).contains(&gain), "{gain}");
    }
    let plan = planned(&snapshot, &Policy::default()).unwrap();
    assert_eq!(plan.moves.len(), 1);
    let [iteration] = &plan.iterations[..] else {
        panic!("one job, reported once")
    };
    assert!(
        (145..155).contains(&iteration.after.as_millis()),
        "{iteration:?}"
    );
}

#[test]
fn rarely_resting_jobs_surely_collide() {
    let scene = two_meet();
    let jobs = [Job(&[0], 42, 0.13), Job(&[1], 42, 0.13)];
    assert_eq!(found(&snapshot(&scene, &jobs)).len(), 1);
    let alone = [Job(&[0, 1], 42, 0.0)];
    assert_eq!(found(&snapshot(&scene, &alone)), [], "the link is not full");
}

#[test]
fn alternating_jobs_do_not_collide() {
    let scene = two_meet();
    let jobs = [Job(&[0], 40, 0.58), Job(&[1], 40, 0.58)];
    assert_eq!(found(&snapshot(&scene, &jobs)), []);
}

#[test]
fn mostly_resting_job_gains_nothing() {
    let scene = two_meet();
    let jobs = [Job(&[0, 1], 6, 0.87)];
    assert_eq!(found(&snapshot(&scene, &jobs)), []);
}

/// If an iteration is longer than the readings, these are of sending flows.
#[test]
fn long_iterations_use_readings_unscaled() {
    let scene = two_meet();
    let mut long = snapshot(&scene, &[Job(&[0, 1], 24, 0.5)]);
    for rate in long.beating[0].flows.values_mut() {
        *rate = mbps(12);
    }
    assert_eq!(found(&long), [], "half of the link is free while they send");
    let mut full = scene.snapshot();
    full.beating = vec![beating(&scene, &Job(&[0, 1], 24, 0.5))];
    let [collision] = &found(&full)[..] else {
        panic!("one collision, reported once")
    };
    for loser in &collision.losers {
        let gain = loser.fair_rate.mbps() / loser.rate.mbps();
        assert!((1.95..2.05).contains(&gain), "{gain}");
    }
}
