//! The history beside the event loop: observations and decisions go over a bounded queue to a thread of its own. What
//! does not fit into the queue is dropped and counted; the event loop never waits.

mod scribe;
mod show;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::operator::Imbalances;
use reweave_common::sample::{HostReading, Reading, Sample};
use reweave_core::{Command, Input};
use reweave_history::{PastError, Probed, ShelfError};
use thiserror::Error;

use crate::config::HistoryConfig;
use crate::error::CoordinatorError;
use crate::local_health::LocalHealth;
use scribe::Scribe;
pub(crate) use show::{ShowOptions, show};

/// Reports and decisions that wait to be taken in: those of four thousand agents in some seconds.
const QUEUE_LENGTH: usize = 16_384;
/// Readings in them: some tens of megabytes.
const MAX_QUEUED_READINGS: usize = 400_000;

#[derive(Debug, Error)]
pub(crate) enum HistoryError {
    #[error("cannot open the history")]
    Open(#[source] ShelfError),
    #[error("cannot read the history")]
    Read(#[source] PastError),
    #[error("{text:?} is not a time: write 2026-11-20T14:00:00Z, or 15m for 15 minutes ago")]
    NoMoment { text: String },
    #[error("{text:?} is not a resolution: use 1s, 10s or 5min")]
    NoResolution { text: String },
    #[error("{text:?} is none of {}", known.join(", "))]
    NoKind {
        text: String,
        known: Vec<&'static str>,
    },
    #[error("cannot print")]
    Print(#[source] std::io::Error),
}

impl HistoryError {
    pub(crate) fn is_bad_input(&self) -> bool {
        match self {
            Self::NoMoment { .. } | Self::NoResolution { .. } | Self::NoKind { .. } => true,
            Self::Open(error) => error.is_bad_input(),
            Self::Read(error) => matches!(error, PastError::NotBefore { .. }),
            Self::Print(_) => false,
        }
    }
}

/// The queue to the thread that writes. When it is dropped, the thread writes the rest and ends.
#[derive(Debug)]
pub(crate) struct History {
    queue: Option<SyncSender<Heard>>,
    load: Arc<Load>,
    writing: Option<JoinHandle<()>>,
}

/// The fill of the queue, and the number of dropped entries.
#[derive(Debug, Default)]
pub(crate) struct Load {
    readings: AtomicUsize,
    dropped: AtomicU64,
}

/// Something worth writing down.
#[derive(Debug)]
struct Heard {
    at: Moment,
    what: What,
}

#[derive(Debug)]
enum What {
    /// From now on, and knows of no node yet. By this much its moments are ahead of the time of day, by which people
    /// ask.
    Leads {
        ahead: Duration,
    },
    Up(NodeId),
    Down(NodeId),
    Report(NodeId, Report),
    Decided(Box<Command>),
    Evenness(Box<Imbalances>),
    Time,
}

/// What a sample says, as far as it is kept: of its many probes only the figures, so that it takes
/// little time and room to hand on.
#[derive(Debug)]
struct Report {
    /// The number of all readings in the sample.
    readings: usize,
    probed: Vec<Probed>,
    others: Vec<Reading>,
}

impl Report {
    fn of(sample: &Sample) -> Self {
        let mut report = Self {
            readings: sample.readings.len(),
            probed: Vec::new(),
            others: Vec::new(),
        };
        for reading in &sample.readings {
            match reading {
                Reading::Probes(reading) => report.probed.push(Probed::of(reading)),
                other => report.others.push(other.clone()),
            }
        }
        report
    }

    /// The size in readings of the usual size. Some readings are lists and count more.
    fn weight(&self) -> usize {
        let weight = |reading: &Reading| match reading {
            Reading::Host(HostReading::Traffic(traffic)) => 1 + traffic.peers.len(),
            Reading::Host(HostReading::Health(health)) => 1 + health.signals.len(),
            Reading::Holds { holding, .. } => 1 + holding.len(),
            _ => 1,
        };
        self.probed.len() + self.others.iter().map(weight).sum::<usize>()
    }
}

impl History {
    /// A store that cannot be opened now is tried again later; one that is none is an error.
    pub(crate) fn begin(
        config: &HistoryConfig,
        fabric: Arc<Fabric>,
        local_health: LocalHealth,
    ) -> Result<Self, CoordinatorError> {
        reweave_history::check(&config.url).map_err(HistoryError::Open)?;
        let (queue, heard) = sync_channel(QUEUE_LENGTH);
        let load = Arc::<Load>::default();
        let scribe = Scribe::new(config.clone(), fabric, Arc::clone(&load), local_health);
        let writing = thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || write(scribe, &heard));
        let writing = writing.map_err(|source| CoordinatorError::Start {
            what: "the history",
            source,
        })?;
        Ok(Self {
            queue: Some(queue),
            load,
            writing: Some(writing),
        })
    }

    /// What is asked is not part of the history, and what is answered is in what is decided.
    pub(crate) fn hear(&self, at: Moment, input: &Input) {
        match input {
            Input::AgentUp { node } => self.put(at, What::Up(*node)),
            Input::AgentDown { node } => self.put(at, What::Down(*node)),
            Input::Tick => self.put(at, What::Time),
            Input::Sample { node, sample } => self.put_report(at, *node, Report::of(sample)),
            _ => {}
        }
    }

    /// Records that this coordinator leads. Only the leader receives reports and decides.
    pub(crate) fn hear_leads(&self, at: Moment, ahead: Duration) {
        self.put(at, What::Leads { ahead });
    }

    pub(crate) fn hear_decided(&self, command: &Command) {
        self.put(command.at, What::Decided(Box::new(command.clone())));
    }

    pub(crate) fn hear_evenness(&self, at: Moment, found: Imbalances) {
        self.put(at, What::Evenness(Box::new(found)));
    }

    fn put_report(&self, at: Moment, node: NodeId, report: Report) {
        if self.load.reserve(report.weight()) {
            self.put(at, What::Report(node, report));
        }
    }

    fn put(&self, at: Moment, what: What) {
        let count = what.weight();
        let heard = Heard { at, what };
        let sent = self.queue.as_ref().map(|queue| queue.try_send(heard));
        if !matches!(sent, Some(Ok(()))) {
            self.load.release(count);
            self.load.drop_some(count.max(1));
        }
    }
}

impl What {
    fn weight(&self) -> usize {
        match self {
            Self::Report(_, report) => report.weight(),
            _ => 0,
        }
    }
}

impl Load {
    /// Whether this many more readings have a place.
    fn reserve(&self, count: usize) -> bool {
        let before = self.readings.fetch_add(count, Ordering::Relaxed);
        let fits = before + count <= MAX_QUEUED_READINGS;
        if !fits {
            self.release(count);
            self.drop_some(count);
        }
        fits
    }

    fn release(&self, count: usize) {
        self.readings.fetch_sub(count, Ordering::Relaxed);
    }

    fn drop_some(&self, count: usize) {
        self.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// How much found no place since this was last asked.
    fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writing) = self.writing.take()
            && writing.join().is_err()
        {
            tracing::error!("the thread that writes the history has died");
        }
    }
}

fn write(mut scribe: Scribe, queue: &Receiver<Heard>) {
    while let Ok(Heard { at, what }) = queue.recv() {
        scribe.release(what.weight());
        scribe.take(at, what);
    }
    scribe.close();
}
