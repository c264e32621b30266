//! A scenario from beginning to end: all jobs, all faults, and what came of them.

use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use reweave_common::ids::Rank;
use reweave_common::scenario::Scenario;

use crate::cluster::Cluster;
use crate::error::LabError;
use crate::faults::{self, Stage};
use crate::job::{self, RunningJob};
use crate::parallel::joined;
use crate::report::{FaultReport, JobReport, RunReport};
use crate::verdict;

/// Runs all jobs under all faults. Only inside the lab.
pub(crate) fn run(
    cluster: &Cluster,
    scenario: &Scenario,
    bring_up: Duration,
) -> Result<RunReport, LabError> {
    let jobs = launch_all(cluster, scenario)?;
    let processes: Vec<Vec<Pid>> = jobs.iter().map(RunningJob::processes).collect();
    let stage = Stage {
        cluster,
        scenario,
        process_of: &|job: usize, rank: Rank| processes.get(job)?.get(rank.index()).copied(),
    };
    let mut faults = Vec::new();
    let jobs = faults::play_during(
        &stage,
        |event| faults.push(event),
        || conduct_all(jobs, scenario.limit),
    );
    let faults = faults.into_iter().map(|event| {
        let at_s = event.at.as_secs_f64();
        event.outcome.map(|()| FaultReport {
            at_s,
            what: event.what,
        })
    });
    let expectations: Vec<_> = scenario
        .expectations
        .iter()
        .flat_map(|expected| verdict::judge(expected, &jobs[expected.job]))
        .collect();
    Ok(RunReport {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        bring_up_ms: bring_up.as_secs_f64() * 1e3,
        means: cluster.wires().means(),
        faults: faults.collect::<Result<_, _>>()?,
        passed: expectations.iter().all(|verdict| verdict.met),
        expectations,
        jobs,
        artifacts: None,
    })
}

fn launch_all<'c>(
    cluster: &'c Cluster,
    scenario: &'c Scenario,
) -> Result<Vec<RunningJob<'c>>, LabError> {
    let plans = job::plan_all(cluster, &scenario.jobs)?;
    let launch = |(job, plan)| RunningJob::launch(cluster, job, plan);
    scenario.jobs.iter().zip(plans).map(launch).collect()
}

/// Starts each job at its time and listens to it until it ends or the scenario does.
fn conduct_all(jobs: Vec<RunningJob<'_>>, limit: Duration) -> Vec<JobReport> {
    let beginning = Instant::now();
    thread::scope(|scope| {
        let conduct = |job| scope.spawn(move || conduct(job, beginning, beginning + limit));
        let conducting: Vec<_> = jobs.into_iter().map(conduct).collect();
        conducting.into_iter().map(joined).collect()
    })
}

fn conduct(mut job: RunningJob<'_>, beginning: Instant, end: Instant) -> JobReport {
    job.hear_until(beginning + job.job.start, |_| false);
    job.start();
    job.hear_until(end, |tally| tally.all_ended() || tally.is_broken());
    if !job.tally().all_ended() {
        job.stop();
    }
    job.report()
}
