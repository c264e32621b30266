//! One request to the network: repeated without an answer, and abandoned in the end.

use std::time::Duration;

use reweave_common::moment::Moment;

const MAX_TRIES: u8 = 3;
/// The time is longer than a full buffer on the path delays a packet.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) enum Question<A> {
    Due {
        since: Moment,
        tries_left: u8,
    },
    Asked {
        id: u16,
        until: Moment,
        tries_left: u8,
    },
    Answered(A),
    Silence,
}

impl<A> Question<A> {
    pub(super) fn new(now: Moment) -> Self {
        Self::Due {
            since: now,
            tries_left: MAX_TRIES,
        }
    }

    /// A request without a recent answer, sent just once.
    pub(super) fn without_hope(now: Moment) -> Self {
        Self::Due {
            since: now,
            tries_left: 1,
        }
    }

    /// Since when it wants to be asked.
    pub(super) fn due(&self) -> Option<Moment> {
        match *self {
            Self::Due { since, .. } => Some(since),
            _ => None,
        }
    }

    /// When its patience ends.
    pub(super) fn deadline(&self) -> Option<Moment> {
        match *self {
            Self::Asked { until, .. } => Some(until),
            _ => None,
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        matches!(self, Self::Answered(_) | Self::Silence)
    }

    pub(super) fn ask(&mut self, now: Moment, id: u16) {
        if let Self::Due { tries_left, .. } = *self {
            *self = Self::Asked {
                id,
                until: now + ANSWER_TIMEOUT,
                tries_left: tries_left - 1,
            };
        }
    }

    /// Whether `id` is what was asked last; an answer that is too late is none.
    pub(super) fn answer(&mut self, id: u16, answer: A) -> bool {
        let asked = matches!(self, Self::Asked { id: asked, .. } if *asked == id);
        if asked {
            *self = Self::Answered(answer);
        }
        asked
    }

    /// Whether it lost its patience just now.
    pub(super) fn handle_time(&mut self, now: Moment) -> bool {
        let Self::Asked {
            until, tries_left, ..
        } = *self
        else {
            return false;
        };
        if now < until {
            return false;
        }
        *self = match tries_left {
            0 => Self::Silence,
            _ => Self::Due {
                since: now,
                tries_left,
            },
        };
        true
    }
}
