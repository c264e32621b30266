//! A scenario from beginning to end: all jobs, all faults, and what came of them.

use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use reweave_common::ids::Rank;
use reweave_common::scenario::{Expectation, Scenario};

use crate::artifacts::KeptFile;
use crate::cluster::Cluster;
use crate::error::LabError;
use crate::faults::{self, Event, Planned, Played, Stage};
use crate::job::{self, RunningJob, Tally};
use crate::launch::Inside;
use crate::parallel::joined;
use crate::progress::Progress;
use crate::report::{Ended, FaultReport, JobReport, RunReport};
use crate::signals::Interrupt;
use crate::verdict;

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Results of a run, and the output of its ranks.
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
    let Played { result, not_played } =
        faults::play_during(&stage, |event| events.push(event), conduct);
    let ended = result.iter().map(|conducted| conducted.ended).max();
    let (jobs, logs): (Vec<JobReport>, Vec<_>) = result
        .into_iter()
        .map(|conducted| (conducted.report, conducted.logs))
        .unzip();
    let not_played = not_played
        .into_iter()
        .map(|Planned { at, what }| FaultReport {
            at_s: at.as_secs_f64(),
            what,
        });
    let faults = events.into_iter().map(Event::into_report);
    let judge = |expected: &Expectation| verdict::judge(expected, &jobs[expected.job]);
    let expectations: Vec<_> = scenario.expectations.iter().flat_map(judge).collect();
    let mut report = RunReport {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        bring_up_ms: bring_up.as_secs_f64() * 1e3,
        means: [
            cluster.wires().means(),
            cluster.wires().account(cluster.fabric()),
        ]
        .concat(),
        ended: ended.unwrap_or(Ended::Done),
        faults: faults.collect::<Result<_, _>>()?,
        faults_not_played: not_played.collect(),
        expectations,
        jobs,
        passed: false,
        artifacts: None,
    };
    report.passed = report.is_as_expected();
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

/// Result of one job.
struct Conducted {
    ended: Ended,
    report: JobReport,
    logs: Vec<KeptFile>,
}

/// Starts each job at its time and listens to it until it ends or the scenario does.
fn conduct_all(
    jobs: Vec<RunningJob<'_>>,
    limit: Duration,
    interrupt: &Interrupt,
) -> Vec<Conducted> {
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
    fn conduct(self, mut job: RunningJob<'_>) -> Conducted {
        let start = self.beginning + job.job.start;
        while Instant::now() < start
            && self.must_end().is_none()
            && !job.tally().has_come_to_an_end()
        {
            let glance = start.min(Instant::now() + POLL_INTERVAL);
            job.hear_until(glance, Tally::has_come_to_an_end);
        }
        if self.must_end().is_none() {
            job.start();
        }
        let ended = self.listen(&mut job);
        if !job.tally().all_ended() {
            job.stop();
        }
        Conducted {
            ended,
            report: job.report(),
            logs: job.logs(),
        }
    }

    fn listen(self, job: &mut RunningJob<'_>) -> Ended {
        while !job.tally().has_come_to_an_end() {
            if let Some(ended) = self.must_end() {
                return ended;
            }
            self.progress.count(
                &job.job.name,
                job.tally().iterations().len(),
                job.job.iterations as usize,
            );
            job.hear_until(Instant::now() + POLL_INTERVAL, Tally::has_come_to_an_end);
        }
        Ended::Done
    }

    /// Returns the reason why the job must be stopped, if there is one.
    fn must_end(self) -> Option<Ended> {
        if self.interrupt.is_raised() {
            return Some(Ended::Interrupted);
        }
        (self.beginning.elapsed() >= self.limit).then_some(Ended::Limit)
    }
}
