//! Who waits for whom where messages meet: before hosts, and on the links between their own.

use std::collections::BTreeMap;

use reweave_common::ids::Rank;

use super::effects::Queue;
use super::network::Network;
use crate::engine::SimTime;

/// Queues messages that are sent at once. Each waits for the messages queued before it.
pub(super) struct Queues<'q> {
    network: &'q Network<'q>,
    /// How many messages a rank sends: what it has under way is that of all of them.
    sent: BTreeMap<Rank, u32>,
    arrived: BTreeMap<Rank, u32>,
    /// By link, the senders before.
    passed: BTreeMap<u32, f64>,
}

impl<'q> Queues<'q> {
    /// Each of these sends a message; who sends several is named as often.
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

    /// What a message waits before its receiver.
    pub(super) fn arrive(&mut self, to: Rank) -> SimTime {
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

    /// What a share of a message waits on its way: on each link for the senders before it, and for
    /// what else waits there.
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
