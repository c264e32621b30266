//! Whether a flow's packets arrive, and past how many routers, by the receiver's agent. The agent is asked first. If
//! it watches the flow, a packet like the flow's own goes all the way, and the agent is asked again. This restarts
//! after a while, or when the path changes.

use std::time::Duration;

use reweave_common::moment::Moment;

use crate::path_confirmation::PathConfirmation;

const MAX_TRIES: u8 = 6;
/// An agent looks after its mail about ten times a second.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(150);
/// What was seen is accepted for this long, and who does not answer is let alone.
const ARRIVAL_TTL: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Arrival {
    routers: Option<u8>,
    /// The way seems to be another one since then.
    doubted: bool,
    /// Whether the agent looks for packets of the flow now.
    looked_for: bool,
    settled: bool,
    tries_left: u8,
    due: Moment,
}

impl Arrival {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            routers: None,
            doubted: false,
            looked_for: false,
            settled: false,
            tries_left: MAX_TRIES,
            due: now,
        }
    }

    pub(super) fn routers(&self) -> Option<u8> {
        self.routers
    }

    pub(super) fn confirms(&self, routers: usize) -> bool {
        !self.doubted && self.routers.map(usize::from) == Some(routers)
    }

    /// Whether there is nothing to be asked for a while.
    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    pub(super) fn due(&self) -> Moment {
        self.due
    }

    /// Whether a question is to be asked now; and whether a packet is to go before it.
    pub(super) fn poll(&mut self, now: Moment) -> Option<bool> {
        if now < self.due {
            return None;
        }
        if self.tries_left == 0 {
            self.settle(now, None);
            return None;
        }
        self.settled = false;
        self.tries_left -= 1;
        self.due = now + ANSWER_TIMEOUT;
        Some(self.looked_for)
    }

    /// No requests for a while.
    pub(super) fn rest(&mut self, now: Moment) {
        self.settle(now, None);
    }

    pub(super) fn handle_sight(&mut self, now: Moment, sight: PathConfirmation) {
        match sight {
            PathConfirmation::Past(routers) => self.settle(now, Some(routers)),
            PathConfirmation::Blind => self.rest(now),
            PathConfirmation::Nothing if self.looked_for => {}
            PathConfirmation::Nothing => (self.looked_for, self.due) = (true, now),
        }
    }

    pub(super) fn doubt(&mut self, now: Moment) {
        (self.doubted, self.settled) = (true, false);
        (self.looked_for, self.tries_left, self.due) = (false, MAX_TRIES, now);
    }

    fn settle(&mut self, now: Moment, routers: Option<u8>) {
        *self = Self {
            routers,
            settled: true,
            due: now + ARRIVAL_TTL,
            ..Self::new(now)
        };
    }
}
