//! When a peer was last heard, and whether its silence may be held against the network.
//!
//! A host that stands still answers nothing meanwhile, and everything afterwards; the answers say how long it
//! held the probes back. So its silence is judged when it has ended:
//!
//! ```text
//!   probes  | | | | | | | | | | | | |
//!   answers | | |             |||||||| |
//!                ^ silence    ^ resumed
//!                             |<-GRACE->| what is not answered by now is lost; what was sent while the
//!                                         host stood still is set aside
//! ```
//!
//! A host that says nothing for [`SILENCE`] is not taken for one that stands still.

use std::time::Duration;

use super::flight::Flight;
use super::prober::STOOD_STILL_NS;
use super::{Clocks, Held};

/// Nobody is taken to stand still for longer.
const SILENCE: Duration = Duration::from_secs(5);
/// All that was held back has come by then.
const GRACE_NS: u64 = 300_000_000;

/// By the prober's steady clock.
#[derive(Debug, Default)]
pub(super) struct Heard {
    last_ns: u64,
    resumed_ns: u64,
    /// From when until when it stood still, the last time.
    still_ns: Option<[u64; 2]>,
}

impl Heard {
    pub(super) fn note_answer(&mut self, read: &Clocks, held: Option<Held>) {
        let now = read.steady_ns;
        if now.saturating_sub(self.last_ns) >= STOOD_STILL_NS {
            self.resumed_ns = now;
        }
        self.last_ns = now;
        let held_ns = held.map_or(0, |held| held.nanos);
        if held_ns >= STOOD_STILL_NS {
            let from = now.saturating_sub(held_ns);
            let same = self.still_ns.filter(|[_, until]| *until >= from);
            self.still_ns = Some([same.map_or(from, |[first, _]| first.min(from)), now]);
        }
    }

    /// Its kernel spoke up for a probe that was sent then, so the host does not stand still.
    pub(super) fn note_refused(&mut self, sent: &Clocks) {
        self.last_ns = self.last_ns.max(sent.steady_ns + 1);
    }

    /// Whether it stood still when this was sent.
    pub(super) fn stood_still(&self, sent: &Clocks) -> bool {
        self.still_ns
            .is_some_and(|[from, until]| (from..=until).contains(&sent.steady_ns))
    }

    /// Whether a probe that was not answered in time is lost, as far as is known by now.
    pub(super) fn may_judge(&self, flight: &Flight, now: &Clocks) -> bool {
        match self.last_ns > flight.sent.steady_ns {
            true => now.steady_ns.saturating_sub(self.resumed_ns) >= GRACE_NS,
            false => flight.age(now) >= SILENCE,
        }
    }
}
