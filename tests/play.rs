//! What the tests on the stage have in common.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::cause::Cause;
use reweave_common::error::error_chain;
use reweave_common::operator::{Finding, Phase, Plan, Record, Status};
use reweave_tests::{
    Job, Labs, Leadership, Progress, STAGE_TIMEOUT, Setting, Stage, StageError, wait_for,
};

use crate::needs::Need;

/// Long enough for several iterations.
pub(crate) const WATCH_TIME: Duration = Duration::from_secs(3);
/// How far a rate may be from what it was: TCP flows on one link wander by so much.
const RATE_TOLERANCE: f64 = 0.1;
/// The slowest flow's gain when two that shared a link have one each. Perfect would be a little
/// under 2.
pub(crate) const MIN_GAIN: f64 = 1.8;
/// A session that stands still for longer counts as broken.
pub(crate) const MAX_STALL_MS: f64 = 250.0;

/// What every stage needs of a machine.
pub(crate) const STAGE_NEEDS: &[Need] = &[Need::Lab];

/// What was to be had, or the end of the test with the reason.
#[track_caller]
pub(crate) fn must<T>(outcome: Result<T, StageError>) -> T {
    outcome.unwrap_or_else(|error| panic!("{}", error_chain(&error)))
}

/// A stage on which everything runs and is known, with nothing on the links yet.
pub(crate) fn led(leadership: &Leadership) -> Stage {
    let mut stage = must(Stage::up(Setting::DEMO_SETTING, Labs::Hidden));
    must(stage.lead(leadership));
    must(stage.start_agents());
    must(stage.wait_until_known());
    stage
}

/// All that slows jobs, the surest first.
pub(crate) fn causes(stage: &Stage) -> Vec<Cause> {
    let findings = must(stage.operator().diagnose()).findings.into_iter();
    let cause = |finding| match finding {
        Finding::Cause(cause) => Some(cause),
        _ => None,
    };
    findings.filter_map(cause).collect()
}

/// The colliding job, once it sends at the rate that its flows are left with.
pub(crate) fn collide(stage: &Stage) -> Job {
    let job = must(stage.job("train"));
    must(job.wait_until("it sends", |progress| {
        progress.iterations >= 2 && progress.slowest_mbps() > 60.0
    }));
    job
}

/// The plan against the collision, once the agents have seen enough of it.
pub(crate) fn planned(stage: &Stage) -> Plan {
    let operator = stage.operator();
    must(wait_for("there is a plan", STAGE_TIMEOUT, || {
        operator.plan()
    }))
}

/// The same, once it is under way: until then it may be replaced by one that knows more.
pub(crate) fn begun(stage: &Stage) -> Plan {
    let operator = stage.operator();
    must(wait_for("a plan is begun", STAGE_TIMEOUT, || {
        let Some(plan) = operator.plan()? else {
            return Ok(None);
        };
        let begun = operator.begin(&plan)?.code == Some(0);
        Ok(begun.then_some(plan))
    }))
}

/// The newest entry of the history, once it has ended.
pub(crate) fn ended(stage: &Stage) -> Record {
    let operator = stage.operator();
    must(wait_for("the change ends", STAGE_TIMEOUT, || {
        let newest = operator.history()?.into_iter().next();
        Ok(newest.filter(|record| !record.outcome.is_open()))
    }))
}

pub(crate) fn status_when(
    stage: &Stage,
    what: &str,
    condition: impl Fn(&Status) -> bool,
) -> Status {
    let operator = stage.operator();
    must(wait_for(what, STAGE_TIMEOUT, || {
        Ok(Some(operator.status()?).filter(&condition))
    }))
}

pub(crate) fn is_in(phase: Phase) -> impl Fn(&Status) -> bool {
    move |status| status.changes.iter().any(|change| change.phase == phase)
}

/// A switch that stands still holds up a plan whose flow has ended meanwhile; how the network was
/// before.
pub(crate) fn taking_back() -> (Stage, BTreeMap<String, String>) {
    let mut stage = led(&Leadership::default());
    let job = collide(&stage);
    planned(&stage);
    let routing = must(stage.routing());
    must(must(stage.agent("leaf0")).freeze());
    begun(&stage);
    status_when(&stage, "the plan is being applied", is_in(Phase::Applying));
    must(job.stop());
    status_when(&stage, "it is being rolled back", is_in(Phase::RollingBack));
    (stage, routing)
}

/// How many packets kernels have thrown away for want of a way, or of anything else but room in a
/// queue that TCP fills.
pub(crate) fn thrown_away(stage: &Stage) -> BTreeMap<String, u64> {
    // Of the line of IP: errors of addresses, discards, and no routes.
    let script = "awk '/^Ip:/ && !/Forw/ {print $6+$8+$9+$12+$13}' /proc/net/snmp; \
                  cat /sys/class/net/*/statistics/?x_dropped";
    let of = |node: &str| {
        let counts = must(stage.output(node, &["sh", "-c", script]));
        let counts = counts.lines().map(str::parse::<u64>);
        (node.to_owned(), counts.map(|it| it.expect("a count")).sum())
    };
    stage.nodes().map(of).collect()
}

/// Looks at the job until it is as well off as it was, which must be soon.
#[track_caller]
pub(crate) fn is_as_before(job: &mut Job, before_mbps: f64) {
    reaches(job, before_mbps * (1.0 - RATE_TOLERANCE));
}

/// Looks at the job until its slowest flow has this rate, which must be soon.
#[track_caller]
pub(crate) fn reaches(job: &mut Job, least_mbps: f64) {
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(slowest_over(job, WATCH_TIME));
        if seen.last() >= Some(&least_mbps) {
            return;
        }
    }
    panic!("{seen:?} Mb/s, and never {least_mbps}");
}

/// The mean rate of the slowest flow over some time from now.
pub(crate) fn slowest_over(job: &mut Job, duration: Duration) -> f64 {
    slowest_in(&must(job.watch(duration)))
}

/// The mean rate of the slowest flow in these reports of a job.
pub(crate) fn slowest_in(seen: &[Progress]) -> f64 {
    let flows = seen.first().map_or(0, |progress| progress.flows.len());
    assert!(flows > 0, "the job has reported no flow");
    let mean = |flow: usize| {
        let rates = seen.iter().map(|progress| progress.flows[flow].rate_mbps);
        rates.sum::<f64>() / seen.len() as f64
    };
    (0..flows).map(mean).fold(f64::INFINITY, f64::min)
}
