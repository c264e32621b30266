//! Carries out a rank's program over its flows.

use std::future::pending;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::units::Bytes;
use reweave_common::workload::{ProgramStep, Transfer};
use tokio::sync::{Notify, oneshot};

use super::clock;
use super::flow::Flow;
use super::protocol::{Event, FlowBytes, RankReport};

/// A rank with all its sessions open.
pub(crate) struct RankFlows {
    pub(crate) outgoing: Vec<Flow>,
    pub(crate) incoming: Vec<Flow>,
    /// Notified by the first flow that breaks.
    pub(crate) broken: Rc<Notify>,
}

impl RankFlows {
    /// Ends when a session has broken, which may be one that is not in use.
    pub(crate) async fn broken(&self) {
        self.broken.notified().await;
    }

    /// One iteration: how long it took, and how much of that was spent exchanging. It never ends
    /// when a session it needs has broken.
    pub(crate) async fn iterate(&self, program: &[ProgramStep]) -> io::Result<[Duration; 2]> {
        let began = clock::now();
        let mut exposed = Duration::ZERO;
        for step in program {
            match step {
                ProgramStep::Compute(duration) => clock::sleep(*duration).await?,
                ProgramStep::Exchange { sends, receives } => {
                    let began = clock::now();
                    self.exchange(sends, receives).await;
                    exposed += clock::now() - began;
                }
            }
        }
        Ok([clock::now() - began, exposed])
    }

    async fn exchange(&self, sends: &[Transfer], receives: &[Transfer]) {
        let mut moving = Vec::new();
        for send in sends {
            order_parts(&self.outgoing, |flow| flow.spec.to, send, &mut moving);
        }
        for receive in receives {
            order_parts(&self.incoming, |flow| flow.spec.from, receive, &mut moving);
        }
        for moved in moving {
            if moved.await.is_err() {
                pending::<()>().await;
            }
        }
    }

    pub(crate) fn sample(&self) -> Event {
        let bytes = |flow: &Flow| FlowBytes {
            id: flow.spec.id,
            bytes_received: flow.bytes(),
        };
        let flows = self.incoming.iter().map(bytes).collect();
        Event::Sample {
            at_us: clock::micros(clock::now()),
            flows,
        }
    }

    pub(crate) fn report(&self, stopped: bool) -> RankReport {
        let all = self.incoming.iter().chain(&self.outgoing);
        RankReport {
            broken: all.filter_map(Flow::breakage).next(),
            sent: self.outgoing.iter().map(Flow::report).collect(),
            received: self.incoming.iter().map(Flow::report).collect(),
            stopped,
        }
    }
}

/// Splits a transfer over all flows of its pair, which stand in order.
fn order_parts(
    flows: &[Flow],
    peer: impl Fn(&Flow) -> Rank,
    transfer: &Transfer,
    moving: &mut Vec<oneshot::Receiver<()>>,
) {
    let of_pair: Vec<_> = flows
        .iter()
        .filter(|flow| peer(flow) == transfer.peer)
        .collect();
    let parts = transfer.bytes.split(of_pair.len());
    let ordered = of_pair
        .iter()
        .zip(parts)
        .filter(|(_, part)| *part > Bytes::ZERO);
    moving.extend(ordered.map(|(flow, part)| flow.order(part.count())));
}
