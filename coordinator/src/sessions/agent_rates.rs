//! Rate limits for each agent, over all its sessions together: message rate and session starts. What exceeds them
//! waits.
//!
//! The number of sessions that wait to begin is limited by a [`crate::session_limit`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reweave_common::ids::NodeId;
use reweave_common::lock::lock;
use reweave_link::{Channel, TokenBucket};
use tokio::sync::Mutex as Queue;

/// Readings of hundreds of interfaces and flows, twice a second.
const RATE_BYTES_PER_S: u32 = 64 << 10;
/// A full picture at the beginning; a longer one is read too, and then waited for.
const BURST_BYTES: u32 = 256 << 10;
/// Some times what that takes on both channels, with all that is acknowledged.
const PACKETS_PER_S: u32 = 512;
const BURST_PACKETS: u32 = 2048;
/// An agent that is started again and again, or whose line comes and goes.
const SESSIONS_PER_S: u32 = 1;
const BURST_SESSIONS: u32 = 8;

/// The rates, with at most one entry for each node.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentRates(Arc<Mutex<BTreeMap<NodeId, AgentRate>>>);

/// The rate of one agent, which clones share.
#[derive(Debug, Clone)]
pub(super) struct AgentRate {
    commands: TokenBucket,
    telemetry: TokenBucket,
    pub(super) packets: TokenBucket,
    sessions: Arc<Queue<TokenBucket>>,
}

impl AgentRates {
    pub(super) fn of(&self, node: NodeId) -> AgentRate {
        lock(&self.0).entry(node).or_default().clone()
    }
}

impl Default for AgentRate {
    fn default() -> Self {
        let channel = || TokenBucket::new(RATE_BYTES_PER_S, BURST_BYTES);
        Self {
            commands: channel(),
            telemetry: channel(),
            packets: TokenBucket::new(PACKETS_PER_S, BURST_PACKETS),
            sessions: Arc::new(Queue::new(TokenBucket::new(SESSIONS_PER_S, BURST_SESSIONS))),
        }
    }
}

impl AgentRate {
    /// How fast it is listened to.
    pub(super) fn channels(self) -> [(Channel, TokenBucket); 2] {
        [
            (Channel::Commands, self.commands),
            (Channel::Telemetry, self.telemetry),
        ]
    }

    /// Waits until another session may begin; sessions begin in the order of arrival.
    pub(super) async fn begin(&self) {
        self.sessions.lock().await.take_one().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, Instant};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn frequent_agent_is_delayed_alone() {
        let rates = AgentRates::default();
        let [one, other] = [0, 1].map(NodeId::from_index);
        let began = Instant::now();
        for _ in 0..=BURST_SESSIONS {
            rates.of(one).begin().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        rates.of(other).begin().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        rates.of(one).begin().await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }
}
