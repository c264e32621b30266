//! How fast routers may be asked. Most answer only so often, Linux by default once a second after
//! a burst of six, so questions to one router keep a distance, which grows when it falls silent.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::moment::Moment;

const LEAST_GAP: Duration = Duration::from_millis(5);
const MOST_GAP: Duration = Duration::from_secs(1);
/// After so many answers in a row the gap is halved.
const STREAK: u8 = 16;
/// More routers than lie around one host; of more, those that have rested are forgotten.
const MOST_LANES: usize = 4096;

/// Who is about to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whom {
    Router(Ipv4Addr),
    /// Whoever is so many hops away: who that is shows once there is an answer.
    Hop(u8),
}

#[derive(Debug, Default)]
pub(super) struct Pace {
    lanes: BTreeMap<Whom, Lane>,
}

#[derive(Debug)]
struct Lane {
    gap: Duration,
    free_at: Moment,
    streak: u8,
}

impl Pace {
    /// When they may be asked again.
    pub(super) fn free_at(&self, whom: Whom) -> Moment {
        self.lanes
            .get(&whom)
            .map_or(Moment::default(), |lane| lane.free_at)
    }

    pub(super) fn handle_asked(&mut self, now: Moment, whom: Whom) {
        if self.lanes.len() >= MOST_LANES {
            self.lanes.retain(|_, lane| now < lane.free_at);
        }
        let lane = self.lane(whom);
        lane.free_at = lane.free_at.max(now + lane.gap);
    }

    /// The router that answers was asked, whoever was meant.
    pub(super) fn handle_answered(&mut self, now: Moment, whom: Whom, by: Ipv4Addr) {
        self.lane(whom).handle_answered();
        let router = Whom::Router(by);
        if whom != router {
            self.handle_asked(now, router);
        }
    }

    /// A router that answered before does not.
    pub(super) fn handle_silence(&mut self, now: Moment, router: Ipv4Addr) {
        let lane = self.lane(Whom::Router(router));
        lane.streak = 0;
        lane.gap = (lane.gap * 4).min(MOST_GAP);
        lane.free_at = now + lane.gap;
    }

    fn lane(&mut self, whom: Whom) -> &mut Lane {
        self.lanes.entry(whom).or_insert(Lane {
            gap: LEAST_GAP,
            free_at: Moment::default(),
            streak: 0,
        })
    }
}

impl Lane {
    fn handle_answered(&mut self) {
        self.streak += 1;
        if self.streak == STREAK {
            self.streak = 0;
            self.gap = (self.gap / 2).max(LEAST_GAP);
        }
    }
}
