//! The rate of requests to routers. Most limit their answers, Linux by default to one a second after a burst of six.
//! So requests to one router keep a distance, which grows when it falls silent.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::moment::Moment;

const MIN_GAP: Duration = Duration::from_millis(5);
const MAX_GAP: Duration = Duration::from_secs(1);
/// After this many answers in a row the gap is halved.
const ANSWERS_PER_SPEEDUP: u8 = 16;
/// More routers than lie around one host. Beyond that, the agent forgets routers that it has not probed for a while.
const MAX_ROUTERS: usize = 4096;

/// The target of a request: the router that answered at this hop count before, if there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct RouterHop {
    pub(super) router: Option<Ipv4Addr>,
    pub(super) ttl: u8,
}

/// A router keeps its own pace. One that is not known yet may be any of those at that distance, and is asked as if it
/// were the slowest of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PacingKey {
    To(Ipv4Addr),
    AsFarAs(u8),
}

#[derive(Debug, Default)]
pub(super) struct RouterPacing {
    lanes: BTreeMap<PacingKey, PacingState>,
}

#[derive(Debug)]
struct PacingState {
    gap: Duration,
    free_at: Moment,
    streak: u8,
}

impl RouterHop {
    fn way(self) -> PacingKey {
        self.router
            .map_or(PacingKey::AsFarAs(self.ttl), PacingKey::To)
    }

    fn ways(self) -> impl Iterator<Item = PacingKey> {
        let router = self.router.map(PacingKey::To);
        router.into_iter().chain([PacingKey::AsFarAs(self.ttl)])
    }
}

impl RouterPacing {
    /// When they may be asked again.
    pub(super) fn free_at(&self, whom: RouterHop) -> Moment {
        let lane = self.lanes.get(&whom.way());
        lane.map_or(Moment::default(), |lane| lane.free_at)
    }

    pub(super) fn handle_asked(&mut self, now: Moment, whom: RouterHop) {
        if self.lanes.len() >= MAX_ROUTERS {
            self.lanes.retain(|_, lane| now < lane.free_at);
        }
        for way in whom.ways() {
            self.lane(way).handle_asked(now);
        }
    }

    /// Counts a request to the router that answered, whichever was the target.
    pub(super) fn handle_answered(&mut self, now: Moment, whom: RouterHop, by: Ipv4Addr) {
        self.lane(PacingKey::AsFarAs(whom.ttl)).handle_answered();
        let lane = self.lane(PacingKey::To(by));
        lane.handle_answered();
        if whom.router != Some(by) {
            lane.handle_asked(now);
        }
    }

    /// A router that answered before does not.
    pub(super) fn handle_silence(&mut self, now: Moment, whom: RouterHop) {
        for way in whom.ways() {
            let lane = self.lane(way);
            lane.streak = 0;
            lane.gap = (lane.gap * 4).min(MAX_GAP);
            lane.free_at = now + lane.gap;
        }
    }

    fn lane(&mut self, way: PacingKey) -> &mut PacingState {
        self.lanes.entry(way).or_insert(PacingState {
            gap: MIN_GAP,
            free_at: Moment::default(),
            streak: 0,
        })
    }
}

impl PacingState {
    fn handle_asked(&mut self, now: Moment) {
        self.free_at = self.free_at.max(now + self.gap);
    }

    fn handle_answered(&mut self) {
        self.streak += 1;
        if self.streak == ANSWERS_PER_SPEEDUP {
            self.streak = 0;
            self.gap = (self.gap / 2).max(MIN_GAP);
        }
    }
}
