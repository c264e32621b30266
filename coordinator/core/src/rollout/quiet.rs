//! The proof that nothing passes a port any more: two readings of its counters, far enough apart,
//! with next to nothing between them. That nodes say so is no proof: a card may send on as it did.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;

use crate::command::Quiet;
use crate::model::Known;
use crate::reason::Reason;

const QUIET_FOR: Duration = Duration::from_millis(200);
/// Neighbours go on greeting each other.
const MOST_BYTES_PER_S: f64 = 125_000.0;

/// What a node calls one of its ends of links.
pub(crate) type Port = (NodeId, String);

#[derive(Debug, Clone)]
pub(crate) struct Quietness {
    since: Moment,
    ports: BTreeMap<Port, Watched>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    /// When, and how much had passed by then.
    first: Option<(Moment, u64)>,
    quiet: Option<(u64, Duration)>,
}

impl Quietness {
    /// Readings that came before count for nothing.
    pub(crate) fn new(since: Moment) -> Self {
        Self {
            since,
            ports: BTreeMap::new(),
        }
    }

    /// Of these, and no others that mattered before.
    pub(crate) fn handle_observations(
        &mut self,
        known: Known<'_>,
        ports: impl IntoIterator<Item = Port>,
    ) {
        let before = std::mem::take(&mut self.ports);
        for port in ports {
            let observed = known.ingest.observations().node(port.0);
            let counters = observed.and_then(|it| it.counters.get(&port.1));
            let watched = before.get(&port).copied().unwrap_or_default();
            let watched = self.ports.entry(port).or_insert(watched);
            if let Some(counters) = counters.filter(|it| it.at > self.since) {
                let passed = counters.value.sent.count() + counters.value.received.count();
                watched.see(counters.at, passed);
            }
        }
    }

    /// Of every port, or those that are not known to be quiet.
    pub(crate) fn proof(&self) -> Result<Vec<Quiet>, Vec<Reason>> {
        let (mut proof, mut loud) = (Vec::new(), Vec::new());
        for ((node, interface), watched) in &self.ports {
            let (node, interface) = (*node, interface.clone());
            match watched.quiet {
                Some((bytes, within)) => proof.push(Quiet {
                    node,
                    interface,
                    bytes,
                    within,
                }),
                None => loud.push(Reason::NotDrained { node, interface }),
            }
        }
        if loud.is_empty() {
            Ok(proof)
        } else {
            Err(loud)
        }
    }
}

impl Watched {
    fn see(&mut self, at: Moment, passed: u64) {
        let Some((first, before)) = self.first else {
            self.first = Some((at, passed));
            return;
        };
        let (within, bytes) = (at.since(first), passed.saturating_sub(before));
        let few = bytes as f64 <= MOST_BYTES_PER_S * within.as_secs_f64();
        if !few || passed < before {
            (self.first, self.quiet) = (Some((at, passed)), None);
        } else if within >= QUIET_FOR {
            self.quiet = Some((bytes, within));
        }
    }
}
