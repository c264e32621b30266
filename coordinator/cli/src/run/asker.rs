//! Talks to the coordinator in a thread of its own, so that a slow or absent coordinator never delays the command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use reweave_common::operator::{Allocation, JobOrder, StartedJob};

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::job::order::{Topology, begin, send_order};
use crate::voice;

/// How often the running job is reported, well within the policy's time limit for that.
const JOB_REPORT_INTERVAL: Duration = Duration::from_secs(20);
/// Wait before a failed registration is retried: an election is over within seconds.
const JOB_RETRY_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Task {
    pub(super) reach: Reach,
    pub(super) job: String,
    pub(super) hosts: Vec<String>,
    /// Whether this is the first of the job's hosts. All hosts agree on it, with or without an answer.
    pub(super) is_first: bool,
    pub(super) topology: Topology,
    /// Whether a coordinator may know the job, so that its end must be reported.
    pub(super) is_known: Arc<AtomicBool>,
}

/// Reports the end of the job, also when it is dropped.
pub(super) struct Asker {
    allocations: Receiver<Result<Allocation, CliError>>,
    end: Sender<bool>,
    over: Receiver<()>,
    is_known: Arc<AtomicBool>,
    /// Only the first host ends the job: ranks of the other hosts may end earlier.
    ends_it: bool,
}

impl Asker {
    pub(super) fn begin(task: Task) -> Self {
        let (answers, allocations) = channel();
        let (end, ends) = channel();
        let (announce_end, over) = channel();
        let (is_known, ends_it) = (Arc::clone(&task.is_known), task.is_first);
        thread::spawn(move || {
            let registered = task.register(Topology::None);
            let registered = registered.map(|started| started.allocation);
            let is_answered = registered.is_ok() && !task.is_first;
            // The receiver may have stopped waiting.
            let _ = answers.send(registered);
            task.stay(&ends, is_answered);
            let _ = announce_end.send(());
        });
        Self {
            allocations,
            end,
            over,
            is_known,
            ends_it,
        }
    }

    /// Waits for the coordinator's answer about the hosts, up to `max_wait`.
    pub(super) fn allocation(&self, max_wait: Duration) -> Result<Allocation, CliError> {
        let received = self.allocations.recv_timeout(max_wait);
        received.unwrap_or(Err(CliError::NoAnswer { waited: max_wait }))
    }

    /// Ends the job if a coordinator may know it. A late answer is not waited for.
    pub(super) fn end(&self, max_wait: Duration) {
        let is_known = self.is_known.load(Ordering::SeqCst);
        if self.end.send(self.ends_it).is_ok() && is_known {
            let _ = self.over.recv_timeout(max_wait);
        }
    }
}

impl Task {
    fn register(&self, topology: Topology) -> Result<StartedJob, CliError> {
        let mut coordinator = Coordinator::reach(&self.reach)?;
        let order = JobOrder::Register {
            hosts: self.hosts.clone(),
            may_reorder: true,
        };
        let outcome = send_order(&mut coordinator, &self.job, order);
        if outcome.as_ref().map_or_else(may_be_heard, |_| true) {
            self.is_known.store(true, Ordering::SeqCst);
        }
        outcome?;
        begin(&mut coordinator, &self.job, topology)
    }

    /// Reports the job at intervals until it ends. If the first host's report `is_answered`, other hosts do not
    /// register the job again, because it may have ended since.
    fn stay(&self, ends: &Receiver<bool>, mut is_answered: bool) {
        loop {
            let is_known = self.is_known.load(Ordering::SeqCst);
            let pause = if is_known {
                JOB_REPORT_INTERVAL
            } else {
                JOB_RETRY_INTERVAL
            };
            match ends.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => is_answered |= self.register_again(is_answered),
                Ok(true) => {
                    let outcome = self.end();
                    return outcome.unwrap_or_else(|error| warn(&error));
                }
                Ok(false) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Registers the job again after a failure. Returns whether to stop registering.
    fn register_again(&self, is_answered: bool) -> bool {
        let started = if is_answered {
            self.begin_again()
        } else {
            self.register(self.topology)
        };
        let Ok(started) = started else { return false };
        if let Some(generation) = started.generation {
            let job = &self.job;
            voice::print_note(&format!("plan {generation} is being applied for {job}"));
        }
        !self.is_first
    }

    fn begin_again(&self) -> Result<StartedJob, CliError> {
        begin(
            &mut Coordinator::reach(&self.reach)?,
            &self.job,
            self.topology,
        )
    }

    fn end(&self) -> Result<(), CliError> {
        let mut coordinator = Coordinator::reach(&self.reach)?;
        send_order(&mut coordinator, &self.job, JobOrder::End).map(|_| ())
    }
}

/// Whether a request without an answer may still take effect.
fn may_be_heard(error: &CliError) -> bool {
    matches!(error, CliError::NoAnswer { .. } | CliError::Ask(_))
}

fn warn(error: &CliError) {
    voice::print_note(&format!(
        "warning: the end of the job was not reported to the coordinator: {}",
        error.error_chain()
    ));
}
