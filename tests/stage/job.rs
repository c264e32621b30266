//! A job that runs on the stage, and how the lab's own ranks say it is doing.

use std::net::SocketAddrV4;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use serde::Deserialize;

use crate::error::StageError;
use crate::notifier::{Notifier, read_lines};
use crate::wait::{STAGE_TIMEOUT, wait_on};

/// How a job is doing at one moment.
#[derive(Debug, Clone, Deserialize)]
pub struct Progress {
    /// Since it began.
    pub at_ms: f64,
    pub iterations: usize,
    /// How long the last one took.
    pub iteration_ms: Option<f64>,
    /// How long all of them took together.
    pub iterations_ms: f64,
    pub flows: Vec<FlowProgress>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct FlowProgress {
    pub from: String,
    pub to: String,
    pub source: SocketAddrV4,
    pub destination: SocketAddrV4,
    /// At which it arrived lately, pauses included.
    pub rate_mbps: f64,
    /// Nodes on the way, as the kernels route it.
    pub path: Vec<String>,
}

/// What is known of a job when it has ended.
#[derive(Debug, Clone, Deserialize)]
pub struct JobReport {
    pub iterations: u32,
    pub flows: Vec<FlowReport>,
    /// Ranks that lost a session.
    pub broken: Vec<serde_json::Value>,
}

/// What neither end of the flow could tell is absent.
#[derive(Debug, Clone, Deserialize)]
pub struct FlowReport {
    pub from: String,
    pub to: String,
    pub rate_mbps: Option<f64>,
    pub longest_stall_ms: Option<f64>,
    pub resets: Option<u64>,
    pub retransmits: Option<u64>,
    pub lost: Option<u64>,
    pub corrupted: Option<u64>,
}

impl FlowReport {
    /// Whether its session is known never to have been cut off, and its bytes not to be spoilt.
    pub fn is_sound(&self) -> bool {
        (self.resets, self.corrupted) == (Some(0), Some(0))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Began {},
    Progress(Progress),
    Report(JobReport),
}

#[derive(Debug, Default)]
struct Heard {
    progress: Vec<Progress>,
    report: Option<JobReport>,
}

/// A job that runs. It is ended when this is dropped.
#[derive(Debug)]
pub struct Job {
    name: String,
    process: Child,
    heard: Arc<Mutex<Heard>>,
    lines: Arc<Notifier>,
}

impl Progress {
    /// The slowest flow's rate.
    pub fn slowest_mbps(&self) -> f64 {
        let rates = self.flows.iter().map(|flow| flow.rate_mbps);
        rates.reduce(f64::min).unwrap_or(0.0)
    }
}

impl JobReport {
    /// Whether every session is the one it began with, and nothing was cut off or spoilt.
    pub fn kept_all_sessions(&self) -> bool {
        self.broken.is_empty() && self.flows.iter().all(FlowReport::is_sound)
    }

    /// Unknown when one flow's is.
    pub fn longest_stall_ms(&self) -> Option<f64> {
        let stalls = self.flows.iter().map(|flow| flow.longest_stall_ms);
        stalls.reduce(|a, b| Some(a?.max(b?))).flatten()
    }
}

impl Job {
    pub(crate) fn start(name: &str, mut command: Command) -> Result<Self, StageError> {
        command.stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|source| StageError::Start {
            command: format!("job {name}"),
            source,
        })?;
        let (heard, lines) = (Arc::default(), Arc::new(Notifier::new()));
        if let Some(stdout) = process.stdout.take() {
            listen(stdout, Arc::clone(&heard), Arc::clone(&lines));
        }
        Ok(Self {
            name: name.to_owned(),
            process,
            heard,
            lines,
        })
    }

    /// All that was reported so far.
    pub fn progress(&self) -> Vec<Progress> {
        self.hear(|heard| heard.progress.clone())
    }

    pub fn latest(&self) -> Option<Progress> {
        self.hear(|heard| heard.progress.last().cloned())
    }

    /// Waits until it has done this many more iterations.
    pub fn go_on(&self, iterations: usize) -> Result<Progress, StageError> {
        let before = self.latest().map_or(0, |progress| progress.iterations);
        let what = format!("{iterations} more iterations after {before}");
        self.wait_until(&what, |it| it.iterations >= before + iterations)
    }

    /// Waits until it is doing so.
    pub fn wait_until(
        &self,
        what: &str,
        condition: impl Fn(&Progress) -> bool,
    ) -> Result<Progress, StageError> {
        let what = format!("job {}: {what}", self.name);
        let lines = Arc::clone(&self.lines);
        wait_on(&lines, &what, STAGE_TIMEOUT, || {
            self.expect_running()?;
            Ok(self.latest().filter(&condition))
        })
    }

    /// Lets it run for some time, and returns what it reported meanwhile.
    pub fn watch(&self, duration: Duration) -> Result<Vec<Progress>, StageError> {
        let (began, report) = (Instant::now(), self.progress().len());
        let lines = Arc::clone(&self.lines);
        wait_on(&lines, "the job goes on", duration + STAGE_TIMEOUT, || {
            self.expect_running()?;
            Ok((began.elapsed() >= duration).then_some(()))
        })?;
        Ok(self.progress().split_off(report))
    }

    /// Ends it, and returns its report.
    pub fn stop(mut self) -> Result<JobReport, StageError> {
        let pid = Pid::from_raw(self.process.id().cast_signed());
        // It may have come to an end by itself.
        let _ = kill(pid, Signal::SIGTERM);
        let what = format!("job {} reports", self.name);
        let report = wait_on(&self.lines, &what, STAGE_TIMEOUT, || {
            Ok(self.hear(|heard| heard.report.clone()))
        })?;
        let _ = self.process.wait();
        Ok(report)
    }

    fn expect_running(&self) -> Result<(), StageError> {
        let pid = Pid::from_raw(self.process.id().cast_signed());
        // It is left to be waited for.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(pid), flags) {
            Ok(WaitStatus::StillAlive) => Ok(()),
            ended => Err(StageError::Gone {
                name: format!("job {}", self.name),
                how: format!("{ended:?}"),
            }),
        }
    }

    fn hear<T>(&self, what: impl FnOnce(&Heard) -> T) -> T {
        what(&self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn listen(stdout: ChildStdout, heard: Arc<Mutex<Heard>>, lines: Arc<Notifier>) {
    read_lines(stdout, move |line| {
        let mut so_far = heard.lock().unwrap_or_else(PoisonError::into_inner);
        match serde_json::from_str(&line) {
            Ok(Line::Progress(progress)) => so_far.progress.push(progress),
            Ok(Line::Report(report)) => so_far.report = Some(report),
            Ok(Line::Began {}) | Err(_) => {}
        }
        drop(so_far);
        lines.notify();
    });
}
