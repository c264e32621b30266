//! Proves that a port is idle: two readings of its counters, far enough apart, differ by next to nothing. An agent's
//! word is no proof, because a NIC may go on sending. A node that stopped reporting may have started to send again, so
//! each reading expires.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;

use crate::log::command::IdlePort;
use crate::log::reason::Reason;
use crate::model::world::Measurements;

const MIN_IDLE: Duration = Duration::from_millis(200);
/// Neighbours keep exchanging keepalives.
const MAX_BYTES_PER_S: f64 = 125_000.0;
/// A longer interval, in which an agent was stalled, may hide traffic at its end.
const MAX_STRETCH: Duration = Duration::from_secs(1);

/// A node and the name of one of its interfaces.
pub(crate) type Port = (NodeId, String);

#[derive(Debug, Clone)]
pub(crate) struct IdleTracker {
    since: Moment,
    ports: BTreeMap<Port, Watched>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    /// The first reading of the current interval: its time, and the bytes counted until then.
    first: Option<(Moment, u64)>,
    last_quiet: Option<Stretch>,
}

/// A complete interval with next to no traffic.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    bytes: u64,
    within: Duration,
    end: Moment,
}

/// The idle intervals of all ports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IdleProof {
    pub ports: Vec<IdlePort>,
    /// The end of the oldest interval among them. None if there was no port.
    pub at: Option<Moment>,
}

impl IdleTracker {
    /// Ignores readings before `since`.
    pub(crate) fn new(since: Moment) -> Self {
        Self {
            since,
            ports: BTreeMap::new(),
        }
    }

    /// Follows exactly these ports.
    pub(crate) fn handle_observations(
        &mut self,
        known: Measurements<'_>,
        ports: impl IntoIterator<Item = Port>,
    ) {
        let before = std::mem::take(&mut self.ports);
        for port in ports {
            let observed = known.ingest.observations().node(port.0);
            let counters = observed.and_then(|it| it.counters.get(&port.1));
            let watched = before.get(&port).copied().unwrap_or_default();
            let watched = self.ports.entry(port).or_insert(watched);
            if let Some(counters) = counters.filter(|it| it.at > self.since) {
                // Agents may report any number, so the sum saturates.
                let passed = (counters.value.sent + counters.value.received).count();
                watched.see(counters.at, passed);
            }
        }
    }

    /// The proof for all ports, or the reasons for those without an idle interval that ended within `max_age`.
    pub(crate) fn proof(&self, now: Moment, max_age: Duration) -> Result<IdleProof, Vec<Reason>> {
        let mut proof = IdleProof {
            ports: Vec::new(),
            at: None,
        };
        let mut loud = Vec::new();
        for ((node, interface), watched) in &self.ports {
            let (node, interface) = (*node, interface.clone());
            match watched.last_quiet {
                Some(stretch) if now.since(stretch.end) <= max_age => {
                    proof.at = Some(proof.at.map_or(stretch.end, |at| at.min(stretch.end)));
                    proof.ports.push(IdlePort {
                        node,
                        interface,
                        bytes: stretch.bytes,
                        within: stretch.within,
                    });
                }
                _ => loud.push(Reason::NotDrained { node, interface }),
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
    /// Checks each interval by itself: a long idle time earns no allowance.
    fn see(&mut self, at: Moment, passed: u64) {
        let Some((first, before)) = self.first else {
            self.first = Some((at, passed));
            return;
        };
        let (within, bytes) = (at.since(first), passed.saturating_sub(before));
        let few =
            bytes as f64 <= MAX_BYTES_PER_S * within.clamp(MIN_IDLE, MAX_STRETCH).as_secs_f64();
        if !few || passed < before {
            (self.first, self.last_quiet) = (Some((at, passed)), None);
        } else if within >= MIN_IDLE {
            let quiet = Stretch {
                bytes,
                within,
                end: at,
            };
            (self.first, self.last_quiet) = (Some((at, passed)), Some(quiet));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

    /// A port with a reading at each step.
    struct Port {
        now: Moment,
        passed: u64,
        watched: Watched,
    }

    impl Port {
        fn new() -> Self {
            let (now, watched) = (Moment::default(), Watched::default());
            let mut port = Self {
                now,
                passed: 0,
                watched,
            };
            port.watched.see(now, 0);
            port
        }

        fn pass(&mut self, bytes_each: u64, span: Duration) {
            let until = self.now + span;
            while self.now < until {
                self.now = self.now + SAMPLE_INTERVAL;
                self.passed += bytes_each;
                self.watched.see(self.now, self.passed);
            }
        }

        fn is_quiet(&self) -> bool {
            self.watched.last_quiet.is_some()
        }
    }

    /// A long idle time before does not excuse traffic.
    #[test]
    fn idle_port_is_busy_on_traffic() {
        let mut port = Port::new();
        port.pass(0, Duration::from_secs(60));
        assert!(port.is_quiet());
        port.pass(1_000_000, SAMPLE_INTERVAL);
        assert!(!port.is_quiet());
        port.pass(0, MIN_IDLE - SAMPLE_INTERVAL);
        assert!(!port.is_quiet(), "it has not been idle for long enough");
        port.pass(0, SAMPLE_INTERVAL);
        assert!(port.is_quiet());
    }

    #[test]
    fn neighbours_may_greet_each_other() {
        let mut port = Port::new();
        port.pass(300, MIN_IDLE);
        port.pass(3_000, SAMPLE_INTERVAL);
        assert!(port.is_quiet(), "a greeting is no traffic");
        port.pass(300, Duration::from_secs(60));
        assert!(port.is_quiet());
    }

    #[test]
    fn stalled_reader_saves_up_no_bytes() {
        let mut port = Port::new();
        port.pass(0, MIN_IDLE);
        port.now = port.now + Duration::from_secs(15);
        port.passed += 1_000_000;
        port.watched.see(port.now, port.passed);
        assert!(!port.is_quiet());
    }

    /// A little traffic all the time is traffic, too.
    #[test]
    fn slow_stream_is_never_idle() {
        let mut port = Port::new();
        let bytes_each = (1.1 * MAX_BYTES_PER_S * SAMPLE_INTERVAL.as_secs_f64()) as u64;
        for _ in 0..100 {
            port.pass(bytes_each, SAMPLE_INTERVAL);
            assert!(!port.is_quiet());
        }
    }

    #[test]
    fn reset_counters_prove_no_idleness() {
        let mut port = Port::new();
        port.pass(1_000_000, SAMPLE_INTERVAL);
        port.pass(0, MIN_IDLE);
        assert!(port.is_quiet());
        port.passed = 0;
        port.pass(0, SAMPLE_INTERVAL);
        assert!(!port.is_quiet());
    }

    #[test]
    fn proof_is_old_as_oldest_port() {
        let mut port = Port::new();
        let mut quietness = IdleTracker::new(Moment::default());
        let ends = ["fab0", "fab1"].map(|interface| {
            port.pass(0, MIN_IDLE);
            let name = (NodeId::from_index(3), interface.to_owned());
            quietness.ports.insert(name, port.watched);
            port.now
        });
        let proof = quietness.proof(port.now, Duration::from_secs(1)).unwrap();
        assert_eq!((proof.ports.len(), proof.at), (2, Some(ends[0])));
    }

    /// The node has stopped reporting, while other ports were awaited.
    #[test]
    fn stale_idle_proof_is_rejected() {
        let mut port = Port::new();
        port.pass(0, MIN_IDLE);
        let (read, max_age) = (port.now, Duration::from_secs(1));
        let mut quietness = IdleTracker::new(Moment::default());
        let name = (NodeId::from_index(3), "fab0".to_owned());
        quietness.ports.insert(name, port.watched);
        let at = quietness.proof(read + max_age, max_age).unwrap().at;
        assert_eq!(at, Some(read), "the proof is as old as its oldest reading");
        let later = read + max_age + Duration::from_micros(1);
        assert!(quietness.proof(later, max_age).is_err());
    }
}
