//! How fast routers may be asked. Most answer only so often, Linux by default once a second after
//! a burst of six, so questions to one router keep a distance, which grows when it falls silent.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::moment::Moment;

const LEAST_GAP: Duration = Duration::from_millis(5);
const MOST_GAP: Duration = Duration::from_secs(1);
/// After so many answers in a row the gap is halved.
const STREAK: u8 = 16;

#[derive(Debug, Default)]
pub(super) struct Pace {
    lanes: BTreeMap<u8, Lane>,
}

/// The routers that are so many hops away: who they are is known only after they have answered.
#[derive(Debug)]
struct Lane {
    gap: Duration,
    free_at: Moment,
    streak: u8,
}

impl Pace {
    /// When this lane may be used again.
    pub(super) fn free_at(&self, ttl: u8) -> Moment {
        self.lanes
            .get(&ttl)
            .map_or(Moment::default(), |lane| lane.free_at)
    }

    pub(super) fn handle_asked(&mut self, now: Moment, ttl: u8) {
        let lane = self.lane(ttl);
        lane.free_at = now + lane.gap;
    }

    pub(super) fn handle_answered(&mut self, ttl: u8) {
        let lane = self.lane(ttl);
        lane.streak += 1;
        if lane.streak == STREAK {
            lane.streak = 0;
            lane.gap = (lane.gap / 2).max(LEAST_GAP);
        }
    }

    /// A router that answered before does not.
    pub(super) fn handle_silence(&mut self, now: Moment, ttl: u8) {
        let lane = self.lane(ttl);
        lane.streak = 0;
        lane.gap = (lane.gap * 4).min(MOST_GAP);
        lane.free_at = now + lane.gap;
    }

    fn lane(&mut self, ttl: u8) -> &mut Lane {
        self.lanes.entry(ttl).or_insert(Lane {
            gap: LEAST_GAP,
            free_at: Moment::default(),
            streak: 0,
        })
    }
}
