//! Waiting times of messages before hosts, and on the links between switches.

use std::collections::BTreeMap;

use reweave_common::ids::Rank;

use super::effects::Queue;
use super::network::Network;
use crate::engine::SimTime;

/// Queues messages that are sent at once. Each waits for the messages queued before it.
pub(super) struct Queues<'q> {
    network: &'q Network<'q>,
    /// Number of messages of each rank: its data in flight are shared by all of them.
    sent: BTreeMap<Rank, u32>,
    arrived: BTreeMap<Rank, u32>,
    /// Earlier senders on each link.
    passed: BTreeMap<u32, f64>,
}

impl<'q> Queues<'q> {
    /// Creates queues for one message per sender; a sender of several is listed several times.
    pub(super) fn new(network: &'q Network<'q>, senders: impl IntoIterator<Item = Rank>) -> Self {
        let mut sent = BTreeMap::new();
        for from in senders {
            *sent.entry(from).or_insert(0) += 1;
        }
        Self {
            network,
            sent,
            arrived: BTreeMap::new(),
            passed: BTreeMap::new(),
        }
    }

    /// Returns the wait of a message before its receiver.
    pub(super) fn arrive(&mut self, from: Rank, to: Rank) -> SimTime {
        if self.network.passes_no_nic(from, to) {
            return SimTime::ZERO;
        }
        let effects = &self.network.settings.effects;
        let before = self.arrived.entry(to).or_default();
        let waits = *before;
        *before += 1;
        if effects.have_queue(Queue::Port(self.network.host(to))) {
            effects.incast.times(waits)
        } else {
            SimTime::ZERO
        }
    }

    /// Returns the wait of a share of a message on its path: on each link, for the earlier senders and for other
    /// traffic there.
    pub(super) fn pass(&mut self, from: Rank, way: &[u32], share: f64) -> SimTime {
        let effects = &self.network.settings.effects;
        let ([first, between @ .., _], true) = (way, effects.uplinks > SimTime::ZERO) else {
            return SimTime::ZERO;
        };
        let part = share / f64::from(self.sent.get(&from).copied().unwrap_or(1));
        let mut senders = 0.0;
        for &lane in between {
            let before = self.passed.entry(lane).or_default();
            if effects.have_queue(Queue::Lane(lane as usize)) {
                let slower = self.network.rate_bps(*first) / self.network.rate_bps(lane);
                senders += slower * (*before + self.network.waiting(lane));
            }
            *before += part;
        }
        let wait = SimTime::from_micros(effects.uplinks.micros() * senders);
        wait.unwrap_or(SimTime::MAX)
    }
}
