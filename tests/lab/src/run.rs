//! A scenario from beginning to end: all jobs, all faults, and what came of them.

use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use reweave_common::ids::Rank;
use reweave_common::scenario::{Expectation, Scenario};

use crate::artifacts::KeptFile;
use crate::cluster::Cluster;
use crate::error::LabError;
use crate::faults::{self, Stage};
use crate::job::{self, RunningJob, Tally};
use crate::launch::Inside;
use crate::parallel::joined;
use crate::progress::Progress;
use crate::report::{FaultReport, JobReport, RunReport};
use crate::signals::Interrupt;
use crate::verdict;

/// How long to listen before looking up.
const A_GLANCE: Duration = Duration::from_millis(200);

/// What a run has shown, and what its ranks said, to be kept.
pub(crate) struct Outcome {
    pub(crate) report: RunReport,
    pub(crate) logs: Vec<KeptFile>,
}

/// Runs all jobs under all faults. Only inside the lab.
pub(crate) fn run(
    inside: &Inside<'_>,
    scenario: &Scenario,
    bring_up: Duration,
) -> Result<Outcome, LabError> {
    let cluster = inside.cluster;
    let jobs = launch_all(cluster, scenario)?;
    let processes: Vec<Vec<Pid>> = jobs.iter().map(RunningJob::processes).collect();
    let stage = Stage {
        cluster,
        scenario,
        process_of: &|job: usize, rank: Rank| processes.get(job)?.get(rank.index()).copied(),
    };
    let mut events = Vec::new();
    let conduct = || conduct_all(jobs, scenario.limit, inside.interrupt);
    let conducted = faults::play_during(&stage, |event| events.push(event), conduct);
    let (jobs, logs): (Vec<JobReport>, Vec<_>) = conducted.into_iter().unzip();
    let faults = events.into_iter().map(|event| {
        let at_s = event.at.as_secs_f64();
        event.outcome.map(|()| FaultReport {
            at_s,
            what: event.what,
        })
    });
    let judge = |expected: &Expectation| verdict::judge(expected, &jobs[expected.job]);
    let expectations: Vec<_> = scenario.expectations.iter().flat_map(judge).collect();
    let report = RunReport {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        bring_up_ms: bring_up.as_secs_f64() * 1e3,
        means: [
            cluster.wires().means(),
            cluster.wires().account(cluster.fabric()),
        ]
        .concat(),
        faults: faults.collect::<Result<_, _>>()?,
        passed: expectations.iter().all(|verdict| verdict.met),
        expectations,
        jobs,
        artifacts: None,
    };
    Ok(Outcome {
        report,
        logs: logs.concat(),
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
fn conduct_all(
    jobs: Vec<RunningJob<'_>>,
    limit: Duration,
    interrupt: &Interrupt,
) -> Vec<(JobReport, Vec<KeptFile>)> {
    let beginning = Instant::now();
    let progress = Progress::on_terminal();
    let conductor = Conductor {
        beginning,
        limit,
        interrupt,
        progress: &progress,
    };
    let reports = thread::scope(|scope| {
        let conduct = |job| scope.spawn(move || conductor.conduct(job));
        let conducting: Vec<_> = jobs.into_iter().map(conduct).collect();
        conducting.into_iter().map(joined).collect()
    });
    progress.clear();
    reports
}

#[derive(Clone, Copy)]
struct Conductor<'a> {
    beginning: Instant,
    limit: Duration,
    interrupt: &'a Interrupt,
    progress: &'a Progress,
}

impl Conductor<'_> {
    fn conduct(self, mut job: RunningJob<'_>) -> (JobReport, Vec<KeptFile>) {
        job.hear_until(self.beginning + job.job.start, |_| false);
        job.start();
        while !job.tally().has_come_to_an_end() && !self.must_end() {
            self.progress.count(
                &job.job.name,
                job.tally().iterations().len(),
                job.job.iterations as usize,
            );
            job.hear_until(Instant::now() + A_GLANCE, Tally::has_come_to_an_end);
        }
        if !job.tally().all_ended() {
            job.stop();
        }
        (job.report(), job.logs())
    }

    fn must_end(&self) -> bool {
        self.beginning.elapsed() >= self.limit || self.interrupt.is_raised()
    }
}
