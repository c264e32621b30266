//! The number of routers before a host, by echoes with a rising TTL, so that no probe for a flow has to reach the
//! flow's receiver.

use std::time::Duration;

use reweave_common::moment::Moment;

use super::question::Question;
use crate::probe::TraceEvent;

/// Further than any fabric is wide.
const MAX_HOPS: u8 = 16;
/// A host behind this many hops that say nothing does not answer at all.
const MAX_SILENT_HOPS: u8 = 4;
/// What was found is accepted for this long.
const DISTANCE_TTL: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Distance {
    routers: Option<u8>,
    /// How many routers have answered on the way to a host that did not.
    heard: u8,
    search: Option<Search>,
    next_search: Moment,
}

#[derive(Debug)]
struct Search {
    ttl: u8,
    silent: u8,
    question: Question<TraceEvent>,
}

/// How a search ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DistanceOutcome {
    Found,
    /// The host does not answer.
    Deaf,
}

impl Distance {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            routers: None,
            heard: 0,
            search: None,
            next_search: now,
        }
    }

    pub(super) fn routers(&self) -> Option<u8> {
        self.routers
    }

    /// How many routers before a host that does not answer do.
    pub(super) fn heard(&self) -> Option<u8> {
        (self.routers.is_none() && self.heard > 0).then_some(self.heard)
    }

    /// The host's agent knows better than any echo.
    pub(super) fn handle_report(&mut self, now: Moment, routers: u8) {
        if routers <= MAX_HOPS {
            self.end(now, Some(routers));
        }
    }

    /// The question that is open now, with its TTL.
    pub(super) fn question(&mut self) -> Option<(u8, &mut Question<TraceEvent>)> {
        let search = self.search.as_mut()?;
        Some((search.ttl, &mut search.question))
    }

    pub(super) fn peek(&self) -> Option<(u8, &Question<TraceEvent>)> {
        let search = self.search.as_ref()?;
        Some((search.ttl, &search.question))
    }

    /// When there is something to do that is no question.
    pub(super) fn next_search(&self) -> Option<Moment> {
        self.search.is_none().then_some(self.next_search)
    }

    /// What was found may be wrong.
    pub(super) fn doubt(&mut self, now: Moment) {
        self.next_search = self.next_search.min(now + DISTANCE_TTL / 10);
    }

    /// Goes on with the search as far as the answers allow.
    pub(super) fn handle_time(&mut self, now: Moment) -> Option<DistanceOutcome> {
        let Some(search) = &mut self.search else {
            if now >= self.next_search {
                self.search = Some(Search::new(now));
            }
            return None;
        };
        let (arrived, silent) = match search.question {
            Question::Answered(event) => (event == TraceEvent::Echoed, 0),
            Question::Silence => (false, search.silent + 1),
            _ => return None,
        };
        if arrived {
            let routers = search.ttl - 1;
            return Some(self.end(now, Some(routers)));
        }
        if silent == MAX_SILENT_HOPS || search.ttl == MAX_HOPS {
            self.heard = search.ttl - silent;
            return Some(self.end(now, None));
        }
        *search = Search {
            ttl: search.ttl + 1,
            silent,
            question: Question::new(now),
        };
        None
    }

    fn end(&mut self, now: Moment, routers: Option<u8>) -> DistanceOutcome {
        self.search = None;
        self.next_search = now + DISTANCE_TTL;
        self.routers = routers;
        routers.map_or(DistanceOutcome::Deaf, |_| DistanceOutcome::Found)
    }
}

impl Search {
    fn new(now: Moment) -> Self {
        Self {
            ttl: 1,
            silent: 0,
            question: Question::new(now),
        }
    }
}
