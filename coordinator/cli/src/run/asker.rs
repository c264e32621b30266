//! Speaks with the coordinator beside the command, so that nothing the coordinator does, or does not do, holds the
//! command up.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use reweave_common::operator::{Allocation, JobOrder, StartedJob};

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::job::order::{Topology, begin, tell};
use crate::page;

/// So often the coordinator is told that the job is there still, well within the time that the policy has for it.
const TELL_EVERY: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Task {
    pub(super) reach: Reach,
    pub(super) job: String,
    pub(super) hosts: Vec<String>,
    pub(super) topology: Topology,
}

/// Says so when it is dropped without an end, too.
pub(super) struct Asker {
    told: Receiver<Result<Allocation, CliError>>,
    end: Sender<bool>,
    over: Receiver<()>,
    /// Whether the coordinator has answered before the command began.
    is_known: bool,
}

impl Asker {
    pub(super) fn begin(task: Task) -> Self {
        let (tell, told) = channel();
        let (end, ends) = channel();
        let (say_over, over) = channel();
        thread::spawn(move || {
            let registered = task.register(Topology::None);
            // Nobody may be waiting for it any more.
            let _ = tell.send(registered.map(|started| started.allocation));
            task.stay(&ends);
            let _ = say_over.send(());
        });
        Self {
            told,
            end,
            over,
            is_known: false,
        }
    }

    /// What the coordinator says of the hosts, if it says it in time.
    pub(super) fn allocation(&mut self, patience: Duration) -> Result<Allocation, CliError> {
        let told = self.told.recv_timeout(patience);
        let told = told.unwrap_or(Err(CliError::NoAnswer));
        self.is_known = told.is_ok();
        told
    }

    /// Has the job ended, where it is known and `ends_it`. Whoever has never answered is not waited for.
    pub(super) fn end(&self, patience: Duration, ends_it: bool) {
        let is_known = self.is_known || matches!(self.told.try_recv(), Ok(Ok(_)));
        if self.end.send(ends_it).is_ok() && is_known {
            let _ = self.over.recv_timeout(patience);
        }
    }
}

impl Task {
    fn register(&self, topology: Topology) -> Result<StartedJob, CliError> {
        let mut coordinator = Coordinator::reach(&self.reach)?;
        let hosts = self.hosts.clone();
        tell(&mut coordinator, &self.job, JobOrder::Register { hosts })?;
        begin(&mut coordinator, &self.job, topology)
    }

    /// Tells of the job from time to time, until it is over.
    fn stay(&self, ends: &Receiver<bool>) {
        loop {
            match ends.recv_timeout(TELL_EVERY) {
                Err(RecvTimeoutError::Timeout) => self.tell_again(),
                Ok(true) => {
                    let told = self.end();
                    return told.unwrap_or_else(|error| warn(&error));
                }
                Ok(false) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// A coordinator that is away now may be there the next time.
    fn tell_again(&self) {
        if let Ok(StartedJob {
            generation: Some(generation),
            ..
        }) = self.register(self.topology)
        {
            let job = &self.job;
            page::tell(&format!("plan {generation} is being carried out for {job}"));
        }
    }

    fn end(&self) -> Result<(), CliError> {
        let mut coordinator = Coordinator::reach(&self.reach)?;
        tell(&mut coordinator, &self.job, JobOrder::End).map(|_| ())
    }
}

fn warn(error: &CliError) {
    page::tell(&format!(
        "warning: the coordinator does not know that the job is over: {}",
        error.told()
    ));
}
