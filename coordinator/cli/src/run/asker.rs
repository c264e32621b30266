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

use super::surroundings::place;

/// So often the coordinator is told that the job is there still, well within the time that the policy has for it.
const TELL_EVERY: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Task {
    pub(super) reach: Reach,
    pub(super) job: String,
    pub(super) hosts: Vec<String>,
    /// Which of them this is.
    pub(super) node: Option<String>,
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
            let registered = registered.map(|started| started.allocation);
            let is_told = registered
                .as_ref()
                .is_ok_and(|it| !task.is_first(&it.order));
            // Nobody may be waiting for it any more.
            let _ = tell.send(registered);
            task.stay(&ends, is_told);
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
        let told = told.unwrap_or(Err(CliError::NoAnswer { waited: patience }));
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
        let order = JobOrder::Register {
            hosts: self.hosts.clone(),
            may_reorder: true,
        };
        tell(&mut coordinator, &self.job, order)?;
        begin(&mut coordinator, &self.job, topology)
    }

    /// Whoever is not among the hosts has started all of them.
    fn is_first(&self, order: &[String]) -> bool {
        place(order, self.node.as_deref()).is_none_or(|place| place == 0)
    }

    /// Tells of the job from time to time, until it is over. Where the first host has told that it `is_told` already,
    /// and perhaps that it is over, the others do not bring it back.
    fn stay(&self, ends: &Receiver<bool>, mut is_told: bool) {
        loop {
            match ends.recv_timeout(TELL_EVERY) {
                Err(RecvTimeoutError::Timeout) => is_told |= self.tell_again(is_told),
                Ok(true) => {
                    let told = self.end();
                    return told.unwrap_or_else(|error| warn(&error));
                }
                Ok(false) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// A coordinator that is away now may be there the next time. Whether it is to be registered no more from here.
    fn tell_again(&self, is_told: bool) -> bool {
        let started = match is_told {
            true => self.begin_again(),
            false => self.register(self.topology),
        };
        let Ok(started) = started else { return false };
        if let Some(generation) = started.generation {
            let job = &self.job;
            page::tell(&format!("plan {generation} is being carried out for {job}"));
        }
        !self.is_first(&started.allocation.order)
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

fn warn(error: &CliError) {
    page::tell(&format!(
        "warning: the coordinator does not know that the job is over: {}",
        error.told()
    ));
}
