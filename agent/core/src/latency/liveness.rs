//! Distinguishes a stalled responder from a path that loses probes.
//!
//! A stalled host answers everything once it runs again; each answer says how long the responder held the probe. So
//! losses are declared only after the peer was heard again:
//!
//! ```text
//!   probes  | | | | | | | | | | | | |
//!   answers | | |             |||||||| |
//!                ^ silent     ^ resumed
//!                             |<-GRACE->| unanswered probes are now lost, or `stalled` if they were sent
//!                                         while the responder was stalled
//! ```
//!
//! A peer that is silent for longer than [`MAX_STALL`] counts as unreachable, not as stalled.

use std::time::Duration;

use super::flight::Flight;
use super::prober::MIN_STALL;
use super::{Clocks, ResponderDelay};

/// Longest stall that is tolerated before silence counts as loss.
const MAX_STALL: Duration = Duration::from_secs(5);
/// Time for the backlog of a resumed responder to arrive.
const RESUME_GRACE: Duration = Duration::from_millis(300);

/// Times are in nanoseconds of the prober's monotonic clock.
#[derive(Debug, Default)]
pub(super) struct PeerLiveness {
    last_heard_ns: u64,
    resumed_ns: u64,
    /// Start and end of the latest stall of the responder.
    stall_ns: Option<[u64; 2]>,
}

impl PeerLiveness {
    pub(super) fn handle_answer(&mut self, read: &Clocks, held: Option<ResponderDelay>) {
        let now_ns = read.steady_ns;
        if is_stall(now_ns.saturating_sub(self.last_heard_ns)) {
            self.resumed_ns = now_ns;
        }
        self.last_heard_ns = now_ns;
        let held_ns = held.map_or(0, |held| held.nanos);
        if is_stall(held_ns) {
            let start = now_ns.saturating_sub(held_ns);
            let earlier = self.stall_ns.filter(|[_, end]| *end >= start);
            self.stall_ns = Some([earlier.map_or(start, |[first, _]| first.min(start)), now_ns]);
        }
    }

    /// An ICMP port unreachable for a probe: the peer's kernel runs.
    pub(super) fn handle_refused(&mut self, sent: &Clocks) {
        self.last_heard_ns = self.last_heard_ns.max(sent.steady_ns + 1);
    }

    /// Whether the responder was stalled when this probe was sent.
    pub(super) fn was_stalled(&self, sent: &Clocks) -> bool {
        self.stall_ns
            .is_some_and(|[start, end]| (start..=end).contains(&sent.steady_ns))
    }

    /// Whether an unanswered probe may be declared lost by now.
    pub(super) fn may_declare_lost(&self, flight: &Flight, now: &Clocks) -> bool {
        if self.last_heard_ns > flight.sent.steady_ns {
            let resumed_for = now.steady_ns.saturating_sub(self.resumed_ns);
            Duration::from_nanos(resumed_for) >= RESUME_GRACE
        } else {
            flight.age(now) >= MAX_STALL
        }
    }
}

fn is_stall(nanos: u64) -> bool {
    Duration::from_nanos(nanos) >= MIN_STALL
}
