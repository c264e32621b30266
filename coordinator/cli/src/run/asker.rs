//! Speaks with the coordinator beside the command, so that nothing the coordinator does, or does not do, holds the
//! command up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use reweave_common::operator::{Allocation, JobOrder, StartedJob};

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::job::order::{Topology, begin, tell};
use crate::voice;

/// How often the coordinator gets the order that says that the job is there still, well within the time that the policy
/// has for it.
const JOB_REPORT_INTERVAL: Duration = Duration::from_secs(20);
/// A coordinator that could not take it in may be able to soon: an election is over within seconds.
const JOB_RETRY_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Task {
    pub(super) reach: Reach,
    pub(super) job: String,
    pub(super) hosts: Vec<String>,
    /// Of these hosts as they are listed, which all of them know alike, with or without an answer.
    pub(super) is_first: bool,
    pub(super) topology: Topology,
    /// Whether a coordinator may have it, so that it is to get the order that ends it.
    pub(super) is_known: Arc<AtomicBool>,
}

/// Says so when it is dropped without an end, too.
pub(super) struct Asker {
    allocations: Receiver<Result<Allocation, CliError>>,
    end: Sender<bool>,
    over: Receiver<()>,
    is_known: Arc<AtomicBool>,
    /// The first host ends the job, so that it is ended once, and not by the host whose ranks happen to be over first.
    ends_it: bool,
}

impl Asker {
    pub(super) fn begin(task: Task) -> Self {
        let (tell, allocations) = channel();
        let (end, ends) = channel();
        let (say_over, over) = channel();
        let (is_known, ends_it) = (Arc::clone(&task.is_known), task.is_first);
        thread::spawn(move || {
            let registered = task.register(Topology::None);
            let registered = registered.map(|started| started.allocation);
            let is_answered = registered.is_ok() && !task.is_first;
            // Perhaps nothing waits for it any longer.
            let _ = tell.send(registered);
            task.stay(&ends, is_answered);
            let _ = say_over.send(());
        });
        Self {
            allocations,
            end,
            over,
            is_known,
            ends_it,
        }
    }

    /// What the coordinator says of the hosts, if it says it in time.
    pub(super) fn allocation(&self, max_wait: Duration) -> Result<Allocation, CliError> {
        let received = self.allocations.recv_timeout(max_wait);
        received.unwrap_or(Err(CliError::NoAnswer { waited: max_wait }))
    }

    /// Has the job ended, where it may be known. A request that was not answered by then is not waited for.
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
        let outcome = tell(&mut coordinator, &self.job, order);
        if outcome.as_ref().map_or_else(may_be_heard, |_| true) {
            self.is_known.store(true, Ordering::SeqCst);
        }
        outcome?;
        begin(&mut coordinator, &self.job, topology)
    }

    /// Reports the job from time to time, until it is over. Where the first host's report `is_answered` already, and
    /// perhaps that it is over, the others do not bring it back.
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

    /// A coordinator that is away now may be there the next time. Whether it is to be registered no more from here.
    fn register_again(&self, is_answered: bool) -> bool {
        let started = if is_answered {
            self.begin_again()
        } else {
            self.register(self.topology)
        };
        let Ok(started) = started else { return false };
        if let Some(generation) = started.generation {
            let job = &self.job;
            voice::tell(&format!("plan {generation} is being applied for {job}"));
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
        tell(&mut coordinator, &self.job, JobOrder::End).map(|_| ())
    }
}

/// What was asked is decided later, or has been already, where no answer to it came.
fn may_be_heard(error: &CliError) -> bool {
    matches!(error, CliError::NoAnswer { .. } | CliError::Ask(_))
}

fn warn(error: &CliError) {
    voice::tell(&format!(
        "warning: the end of the job was not reported to the coordinator: {}",
        error.error_chain()
    ));
}
