//! The one way in: what happens outside becomes an event, and events wait in a queue of bounded
//! length. When it fills up, telemetry goes first: what an agent measured now, it will measure again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reweave_common::circuit::{Readback, Switchover};
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::{Ack, Instruction};
use reweave_common::member::{Digest, Member};
use reweave_common::operator::{About, Request, Response};
use reweave_common::sample::Sample;
use reweave_core::{NoEntry, Pass};
use tokio::sync::{mpsc, oneshot};

use crate::replication::Outcome;

/// A thousand agents report twice a second, and the core takes microseconds for each report.
const LENGTH: usize = 4096;
/// So many places are never given to telemetry.
const RESERVED: usize = 1024;

/// Tells sessions of one agent apart: later ones have higher numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId(pub(crate) u64);

/// Which agent, over which session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) node: NodeId,
    pub(crate) session: SessionId,
}

/// By whose right something is asked.
#[derive(Debug)]
pub(crate) enum Asker {
    /// Its certificate says so, or it is a part of this program.
    Member(Member),
    /// It has a token, and the cluster knows whose.
    Visitor(Digest),
}

#[derive(Debug)]
pub(crate) enum Event {
    Arrived {
        from: Origin,
        outbox: mpsc::Sender<Instruction>,
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
        outbox: mpsc::Sender<Switchover>,
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
    /// Somebody without a certificate, with a token and a key.
    Knocked {
        token: Digest,
        key: Digest,
        from: String,
        reply: oneshot::Sender<Result<Pass, NoEntry>>,
    },
    /// Somebody was not let in, so often since it was last told.
    TurnedAway {
        from: String,
        why: String,
        times: u64,
    },
    Asked {
        by: Asker,
        request: Request,
        reply: oneshot::Sender<Response>,
    },
    /// Of the replica of this coordinator.
    Replicated(Outcome),
    Tick,
    End,
}

/// The queue is gone, and with it the thread that drives the core.
#[derive(Debug)]
pub(crate) struct Closed;

#[derive(Debug, Clone)]
pub(crate) struct Intake {
    events: mpsc::Sender<Event>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    shed: AtomicU64,
    refused: AtomicU64,
}

/// Since the program started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Telemetry that found no place.
    pub(crate) shed: u64,
    /// Peers that were not let in.
    pub(crate) refused: u64,
}

pub(crate) fn queue() -> (Intake, mpsc::Receiver<Event>) {
    queue_of(LENGTH)
}

fn queue_of(length: usize) -> (Intake, mpsc::Receiver<Event>) {
    let (events, queue) = mpsc::channel(length);
    let counters = Arc::default();
    (Intake { events, counters }, queue)
}

impl Intake {
    /// Waits for a place.
    pub(crate) async fn put(&self, event: Event) -> Result<(), Closed> {
        self.events.send(event).await.map_err(|_| Closed)
    }

    /// Waits for a place, outside of the event loop.
    pub(crate) fn put_blocking(&self, event: Event) -> Result<(), Closed> {
        self.events.blocking_send(event).map_err(|_| Closed)
    }

    /// Does not wait: what finds no place is gone.
    pub(crate) fn put_telemetry(&self, event: Event) -> Result<(), Closed> {
        if self.events.is_closed() {
            return Err(Closed);
        }
        let crowded = self.events.capacity() <= RESERVED.min(self.events.max_capacity() / 4);
        if crowded || self.events.try_send(event).is_err() {
            self.counters.shed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether anybody takes events.
    pub(crate) fn is_open(&self) -> bool {
        !self.events.is_closed()
    }

    pub(crate) fn note_refused(&self, times: u64) {
        self.counters.refused.fetch_add(times, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            shed: self.counters.shed.load(Ordering::Relaxed),
            refused: self.counters.refused.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
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
    async fn telemetry_leaves_room_for_what_matters_more() {
        let (intake, mut queue) = queue_of(8);
        for _ in 0..10 {
            intake.put_telemetry(sample()).unwrap();
        }
        assert_eq!((queue.len(), intake.counts().shed), (6, 4));
        intake.put(Event::Left { from: origin() }).await.unwrap();
        intake.put(Event::Tick).await.unwrap();
        queue.recv().await.unwrap();
        intake.put_telemetry(sample()).unwrap();
        assert_eq!(intake.counts().shed, 5);
    }

    #[tokio::test]
    async fn a_dead_drive_is_noticed() {
        let (intake, queue) = queue_of(8);
        drop(queue);
        assert!(intake.put_telemetry(sample()).is_err());
        assert!(intake.put(Event::Tick).await.is_err());
    }
}
