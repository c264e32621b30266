//! What plans promise to jobs whose traffic has an iteration period, and whether it is accepted.

use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::operator::{Iteration, IterationOutcome, Mode, Request, Response};
use reweave_common::periodicity::{ExchangePattern, IterationPeriod, Periodicity};
use reweave_common::plan::Generation;
use reweave_common::sample::{HostReading, Reading};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Percent};

use super::cluster::Cluster;
use super::diagnosis::say;
use super::network::Network;
use super::scene::*;
use crate::model::jobs::snapshot;
use crate::{Outcome, Reason};

const ONE_SECOND: Duration = Duration::from_secs(1);

/// h0 is heard to do this many iterations of 40 ms of work and what else they take.
fn beat(cluster: &mut Cluster, period_ms: u64, iterations: u32) {
    beat_of(cluster, period_ms, iterations, 1);
}

/// This many iterations are heard as one.
fn beat_of(cluster: &mut Cluster, period_ms: u64, iterations: u32, as_one: u64) {
    beat_of_bytes(cluster, period_ms, iterations, as_one << 20);
}

/// Simulates iterations that send this many bytes in each direction.
fn beat_of_bytes(cluster: &mut Cluster, period_ms: u64, iterations: u32, bytes: u64) {
    let beat = IterationPeriod {
        period: TimeSpan::from_millis(period_ms),
        gap: TimeSpan::from_millis(40),
        sent: Bytes::new(bytes),
        received: Bytes::new(bytes),
        shape: Some(ExchangePattern::Ring),
        confidence_percent: Percent::new(90).unwrap(),
        iterations,
        since: Moment::default(),
        next_gap: Moment::default(),
    };
    let rhythm = Reading::Host(HostReading::Rhythm(Periodicity::Found(beat)));
    say(cluster, "h0", vec![rhythm]);
}

/// Two flows meet, one of them of a job with an iteration period.
fn promised() -> (Cluster, Generation, Iteration) {
    let (mut cluster, _) = collision(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    beat(&mut cluster, 240, 20);
    let Response::Plan {
        plan: Some(plan), ..
    } = cluster.ask(Request::Plan)
    else {
        panic!("no plan")
    };
    let [promise] = &plan.iterations[..] else {
        panic!("{:?}", plan.iterations)
    };
    (cluster, plan.generation, promise.clone())
}

/// It was carried out some seconds ago, and is not judged yet.
fn awaited() -> Cluster {
    let (mut cluster, plan, _) = promised();
    cluster.apply(plan);
    cluster.run_for(3 * ONE_SECOND);
    assert_eq!(cluster.core.state().ended(), 0, "it waits for a beat");
    cluster
}

fn iteration_outcome(cluster: &mut Cluster) -> IterationOutcome {
    let Response::History(history) = cluster.ask(Request::History { before: None }) else {
        panic!("no history")
    };
    history[0].iterations[0].clone()
}

#[test]
fn iteration_time_is_predicted_and_measured() {
    let (_, _, promise) = promised();
    assert_eq!(
        (promise.job.as_str(), promise.before_ms),
        ("h0 and h3", 240.0)
    );
    assert!((130.0..165.0).contains(&promise.after_ms), "{promise:?}");
    assert!(promise.low_ms < promise.after_ms && promise.after_ms < promise.high_ms);
    let mut cluster = awaited();
    beat(&mut cluster, 142, 7);
    let took = cluster.run_until_ended(1);
    assert!(took < ONE_SECOND, "{took:?}");
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    let report = iteration_outcome(&mut cluster);
    assert_eq!((report.before_ms, report.measured_ms), (240.0, Some(142.0)));
    assert_eq!(report.predicted_ms, [promise.low_ms, promise.high_ms]);
}

/// A host that forwards may tell of all that passes it, which is no work of its job.
#[test]
fn relay_host_period_must_match_flows() {
    let own = 240 * 200 / 8;
    for (kind, kilobytes, known) in [
        ("direct", own, 1),
        ("direct", 2 * own, 0),
        ("ideal", 2 * own, 1),
    ] {
        let rate = match kind {
            "direct" => "link_gbps = 0.2\nstrides = [1]",
            _ => "nic_gbps = 0.2",
        };
        let text = format!("kind = \"{kind}\"\nhosts = 4\n{rate}");
        let mut cluster = Cluster::on(Network::of(&text), Mode::Manual);
        cluster.network.start("h0", "h1", 1000, 0);
        cluster.run_for(SETTLE_TIME);
        beat_of_bytes(&mut cluster, 240, 20, kilobytes * 1000);
        let core = &cluster.core;
        let world = core.known_at(cluster.now()).world();
        let snapshot = snapshot(&world, core.state().in_force());
        assert_eq!(snapshot.flows.len(), 1, "{text}");
        assert_eq!(snapshot.beating.len(), known, "{kilobytes} kB, {text}");
    }
}

/// A plan that is asked for before an iteration period is heard has it when it is asked for again.
#[test]
fn offer_is_renewed_once_period_known() {
    let (mut cluster, _) = collision(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    let first = cluster.plan();
    assert_eq!(cluster.plan(), first, "nothing new");
    beat(&mut cluster, 240, 20);
    let second = cluster.plan();
    assert!(second > first);
    assert_eq!(cluster.plan(), second);
    let offered = cluster.core.state().offers().map(|it| it.plan.generation);
    assert_eq!(
        offered.collect::<Vec<_>>(),
        [second],
        "the first is superseded"
    );
}

#[test]
fn doubled_period_is_halved() {
    let mut cluster = awaited();
    beat_of(&mut cluster, 284, 5, 2);
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert_eq!(iteration_outcome(&mut cluster).measured_ms, Some(142.0));
}

#[test]
fn rates_decide_without_period() {
    let mut cluster = awaited();
    let took = cluster.run_until_ended(1);
    assert!((16..18).contains(&took.as_secs()), "{took:?}");
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert_eq!(iteration_outcome(&mut cluster).measured_ms, None);
}

#[test]
fn slower_iterations_roll_plan_back() {
    let mut cluster = awaited();
    beat(&mut cluster, 300, 7);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
    let [Reason::Delayed { job, before, after }] = &reasons(&cluster)[..] else {
        panic!("{:?}", reasons(&cluster))
    };
    let took = [before, after].map(|it| it.as_millis());
    assert_eq!((job.as_str(), took), ("h0 and h3", [240, 300]));
}

#[test]
fn period_from_before_change_is_ignored() {
    let mut cluster = awaited();
    beat(&mut cluster, 300, 20);
    cluster.run_for(ONE_SECOND);
    assert_eq!(cluster.core.state().ended(), 0, "it began 2 s before");
    beat(&mut cluster, 240, 100);
    cluster.run_for(ONE_SECOND);
    assert_eq!(cluster.core.state().ended(), 0, "it may still change");
    cluster.run_for(5 * ONE_SECOND);
    beat(&mut cluster, 241, 100);
    let took = cluster.run_until_ended(1);
    assert!(
        took < ONE_SECOND,
        "nothing has changed by now, and {took:?}"
    );
    assert_eq!(iteration_outcome(&mut cluster).measured_ms, Some(241.0));
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}
