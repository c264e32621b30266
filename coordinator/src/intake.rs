//! The intake: everything from outside becomes an event in a bounded queue. Telemetry has a queue of its own, with
//! lower priority. What does not fit there is dropped, since an agent will measure it again. Reports that an agent
//! sends only once wait for a place, and their session with them.
//!
//! Agreed entries come before all of it, and without a limit: the replica must answer its peers in time, and would
//! wait too. There are no more of them than were proposed or read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use reweave_common::circuit::{Readback, Switchover};
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::{Ack, Instruction};
use reweave_common::lock::lock;
use reweave_common::member::{Digest, Member};
use reweave_common::operator::{About, Request, Response};
use reweave_common::sample::Sample;
use reweave_core::{NoEntry, Pass};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::error::{TryRecvError, TrySendError};
use tokio::sync::{mpsc, oneshot};

use crate::replication::Outcome;
use crate::sessions::Reason;

const INTAKE_QUEUE_LENGTH: usize = 1024;
/// A thousand agents report twice a second, and the core takes microseconds for each report.
const TELEMETRY_QUEUE_LENGTH: usize = 4096;

/// Distinguishes sessions of one agent: later ones have higher numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId(pub(crate) u64);

/// The agent and the session of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) node: NodeId,
    pub(crate) session: SessionId,
}

/// What one member is to do. A queue keeps room for dozens even when it holds none, and there are
/// thousands of queues: in boxes they are small.
pub(crate) type Outbox<T> = mpsc::Sender<Box<T>>;

/// The identity and right behind a request.
#[derive(Debug, Clone)]
pub(crate) enum Asker {
    /// Its certificate says so, or it is a part of this program.
    Member(Member),
    /// It has a token, and the cluster knows whose.
    Visitor(Digest),
}

/// What is answered, and the seal of the plan that was to be approved, as it was when that was decided.
#[derive(Debug, PartialEq)]
pub(crate) struct SealedResponse {
    pub(crate) response: Response,
    pub(crate) seal: Option<String>,
}

impl From<Response> for SealedResponse {
    fn from(response: Response) -> Self {
        let seal = None;
        Self { response, seal }
    }
}

#[derive(Debug)]
pub(crate) enum Event {
    Arrived {
        from: Origin,
        outbox: Outbox<Instruction>,
    },
    Measured {
        from: Origin,
        sample: Sample,
    },
    Acknowledged {
        from: Origin,
        ack: Ack,
    },
    Left {
        from: Origin,
    },
    /// The driver of this optical switch.
    DriverArrived {
        optical: OpticalId,
        session: SessionId,
        outbox: Outbox<Switchover>,
    },
    ReadBack {
        optical: OpticalId,
        session: SessionId,
        readback: Readback,
    },
    DriverLeft {
        session: SessionId,
    },
    /// What is known of an agent besides what it measures.
    Described {
        from: Origin,
        about: About,
    },
    /// A peer without a certificate, with a token and a key.
    Knocked {
        token: Digest,
        key: Digest,
        from: String,
        reply: oneshot::Sender<Result<Pass, NoEntry>>,
    },
    /// A peer was refused, this number of times since the previous report.
    TurnedAway {
        from: String,
        why: String,
        times: u64,
    },
    Asked {
        by: Asker,
        request: Request,
        reply: oneshot::Sender<SealedResponse>,
    },
    /// An outcome of this coordinator's replica.
    Replicated(Outcome),
    Tick,
    End,
}

/// The queue is gone, and with it the thread that drives the core.
#[derive(Debug)]
pub(crate) struct Closed;

#[derive(Debug, Clone)]
pub(crate) struct Intake {
    outcomes: mpsc::UnboundedSender<Outcome>,
    events: mpsc::Sender<Event>,
    telemetry: mpsc::Sender<Event>,
    counters: Arc<Counters>,
}

/// The receiving end of the intake.
#[derive(Debug)]
pub(crate) struct Queue {
    outcomes: mpsc::UnboundedReceiver<Outcome>,
    events: mpsc::Receiver<Event>,
    telemetry: mpsc::Receiver<Event>,
}

#[derive(Debug, Default)]
struct Counters {
    shed: AtomicU64,
    refused: Mutex<BTreeMap<Reason, u64>>,
}

/// Counters since the program started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Telemetry that found no place.
    pub(crate) shed: u64,
    /// Peers that were not let in.
    refused: BTreeMap<Reason, u64>,
}

impl Counts {
    pub(crate) fn refused_for(&self, reason: Reason) -> u64 {
        self.refused.get(&reason).copied().unwrap_or_default()
    }
}

pub(crate) fn queue() -> (Intake, Queue) {
    queue_of(INTAKE_QUEUE_LENGTH, TELEMETRY_QUEUE_LENGTH)
}

fn queue_of(length: usize, most_telemetry: usize) -> (Intake, Queue) {
    let (outcomes, outcomes_out) = mpsc::unbounded_channel();
    let (events, events_out) = mpsc::channel(length);
    let (telemetry, telemetry_out) = mpsc::channel(most_telemetry);
    let intake = Intake {
        outcomes,
        events,
        telemetry,
        counters: Arc::default(),
    };
    let queue = Queue {
        outcomes: outcomes_out,
        events: events_out,
        telemetry: telemetry_out,
    };
    (intake, queue)
}

impl Queue {
    /// Waits for the next. None when all senders are gone.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            biased;
            Some(outcome) = self.outcomes.recv() => Some(Event::Replicated(outcome)),
            event = self.events.recv() => event,
            event = self.telemetry.recv() => event,
        }
    }

    pub(crate) fn try_next(&mut self) -> Result<Event, TryRecvError> {
        let urgent = self.try_urgent();
        urgent.or_else(|_| self.telemetry.try_recv())
    }

    /// The next that is no telemetry.
    pub(crate) fn try_urgent(&mut self) -> Result<Event, TryRecvError> {
        let first = self.outcomes.try_recv().map(Event::Replicated);
        first.or_else(|_| self.events.try_recv())
    }
}

/// Builds a runtime that waits for the next event, for threads outside of a runtime.
pub(crate) fn waiting() -> std::io::Result<Runtime> {
    Builder::new_current_thread().build()
}

impl Intake {
    /// Waits for a place.
    pub(crate) async fn put(&self, event: Event) -> Result<(), Closed> {
        self.events.send(event).await.map_err(|_| Closed)
    }

    /// Waits for nothing.
    pub(crate) fn put_outcome(&self, outcome: Outcome) -> Result<(), Closed> {
        self.outcomes.send(outcome).map_err(|_| Closed)
    }

    /// Waits for a place, outside of the runtime.
    #[cfg(test)]
    pub(crate) fn put_blocking(&self, event: Event) -> Result<(), Closed> {
        self.events.blocking_send(event).map_err(|_| Closed)
    }

    /// Does not wait: what finds no place is gone.
    pub(crate) fn put_telemetry(&self, event: Event) -> Result<(), Closed> {
        match self.telemetry.try_send(event) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(Closed),
            Err(TrySendError::Full(_)) => {
                self.counters.shed.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Puts an event that counts as telemetry, and waits for room.
    pub(crate) async fn put_patiently(&self, event: Event) -> Result<(), Closed> {
        self.telemetry.send(event).await.map_err(|_| Closed)
    }

    /// Whether the receiver is alive.
    pub(crate) fn is_open(&self) -> bool {
        !self.events.is_closed()
    }

    pub(crate) fn note_refused(&self, reason: Reason, times: u64) {
        *lock(&self.counters.refused).entry(reason).or_default() += times;
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            shed: self.counters.shed.load(Ordering::Relaxed),
            refused: lock(&self.counters.refused).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reweave_common::moment::Moment;

    use super::*;

    fn origin() -> Origin {
        Origin {
            node: NodeId::from_index(0),
            session: SessionId(1),
        }
    }

    fn sample() -> Event {
        Event::Measured {
            from: origin(),
            sample: Sample {
                taken: Moment::default(),
                readings: vec![],
            },
        }
    }

    #[tokio::test]
    async fn telemetry_is_dropped_first() {
        let (intake, mut queue) = queue_of(2, 4);
        for _ in 0..6 {
            intake.put_telemetry(sample()).unwrap();
        }
        assert_eq!(intake.counts().shed, 2);
        intake.put(Event::Left { from: origin() }).await.unwrap();
        intake.put(Event::Tick).await.unwrap();
        assert!(matches!(queue.next().await, Some(Event::Left { .. })));
        assert!(matches!(queue.try_next(), Ok(Event::Tick)));
        assert!(matches!(queue.next().await, Some(Event::Measured { .. })));
        intake.put_telemetry(sample()).unwrap();
        assert_eq!(intake.counts().shed, 2);
    }

    #[tokio::test]
    async fn committed_entries_come_first() {
        let (intake, mut queue) = queue_of(1, 1);
        intake.put(Event::Tick).await.unwrap();
        for is_full in [true, false] {
            intake.put_outcome(Outcome::Disk { is_full }).unwrap();
        }
        let disk = |event| match event {
            Event::Replicated(Outcome::Disk { is_full }) => is_full,
            other => panic!("{other:?}"),
        };
        assert!(disk(queue.next().await.unwrap()));
        assert!(!disk(queue.try_next().unwrap()));
        assert!(matches!(queue.try_next(), Ok(Event::Tick)));
    }

    #[tokio::test]
    async fn one_time_event_waits_for_room() {
        let (intake, mut queue) = queue_of(2, 1);
        intake.put_patiently(sample()).await.unwrap();
        let waits = intake.put_patiently(sample());
        tokio::pin!(waits);
        let done = tokio::time::timeout(Duration::ZERO, &mut waits).await;
        assert!(done.is_err(), "there is no place");
        assert!(queue.next().await.is_some());
        waits.await.unwrap();
        assert!(queue.next().await.is_some());
        assert_eq!(intake.counts().shed, 0);
    }

    #[tokio::test]
    async fn dead_event_loop_is_noticed() {
        let (intake, queue) = queue_of(8, 8);
        drop(queue);
        assert!(intake.put_telemetry(sample()).is_err());
        assert!(intake.put(Event::Tick).await.is_err());
    }
}
