//! The session of an agent, which reports for its own node, within its rate limit.

use std::iter;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reweave_common::ids::NodeId;
use reweave_common::instruction::Instruction;
use reweave_common::operator::About;
use reweave_common::sample::{HostReading, Reading, Sample};
use reweave_link::{Channel, EncodedMessage, Session, TokenBucket};
use reweave_proto::hello::Version;
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use reweave_proto::since_version::came_with;
use tokio::sync::mpsc;

use super::Ending;
use super::deny_list_updates::EncodedLists;
use super::identity_locks::IdentityLock;
use super::member::{self, Kind};
use crate::intake::{Event, Origin};
use crate::server_context::ServerContext;
use crate::session_limit::Bounds;

/// Sessions of one agent that wait to begin: each holds what its agent has sent ahead.
pub(crate) const STARTING_SESSIONS: Bounds = Bounds {
    max_per_group: None,
    max_per_key: Some(8),
};

/// This many readings of one report are taken at once.
const MAX_READINGS_PER_PIECE: usize = 256;

enum OfAgents {}

impl Kind for OfAgents {
    type Instruction = Instruction;
    type Message = CoordinatorMessage;
    const ROLE_NAME: &'static str = "agent";

    fn said(words: &EncodedLists) -> &EncodedMessage {
        &words.agents
    }

    /// Agents of 1.0 install for good at once, and look no closer than they do.
    fn for_version(instruction: Instruction, version: Version) -> Option<Instruction> {
        match instruction {
            instruction if version >= came_with(1) => Some(instruction),
            Instruction::Unconfirmed(it) => Some(Instruction::Install(it.install)),
            Instruction::Closely(_) => None,
            instruction => Some(instruction),
        }
    }
}

/// The lock is held for as long as the session lasts. Who came before this coordinator led takes it then.
pub(super) async fn serve(
    session: Session,
    from: Origin,
    context: ServerContext,
    lock: Option<IdentityLock<NodeId>>,
) {
    if let Err(ending) = member::stand_by::<OfAgents>(&session, &context).await {
        return member::part::<OfAgents>(session, &context, ending).await;
    }
    let lock = lock.map_or_else(|| take_lock(&session, from, &context), Ok);
    let _lock = match lock {
        Ok(lock) => lock,
        Err(why) => {
            tracing::warn!("{}: {why}", session.peer());
            return session.close(&why).await;
        }
    };
    let agent = Agent {
        session: &session,
        from,
        context: &context,
        renewals: member::renewals(),
    };
    let name = &session.peer().name;
    tracing::info!("agent {name} connected from {}", session.address());
    let ending = agent.serve().await;
    // The event has no receiver if the queue is closed.
    let _ = context.intake.put(Event::Left { from }).await;
    member::part::<OfAgents>(session, &context, ending).await;
}

/// The lock of its node, or why another holds it.
pub(super) fn take_lock(
    session: &Session,
    from: Origin,
    context: &ServerContext,
) -> Result<IdentityLock<NodeId>, String> {
    let (address, admission) = (session.address(), session.credentials().admission);
    let locks = &context.agent_locks;
    let taken = locks.take(from.node, from.session, address, admission);
    taken.map_err(|other| {
        format!("another machine uses this certificate, from {other}; give each node its own")
    })
}

struct Agent<'s> {
    session: &'s Session,
    from: Origin,
    context: &'s ServerContext,
    renewals: TokenBucket,
}

impl Agent<'_> {
    async fn serve(&self) -> Ending {
        let (outbox, instructions) = mpsc::channel(member::OUTBOX_LENGTH);
        let from = self.from;
        if self
            .context
            .intake
            .put(Event::Arrived { from, outbox })
            .await
            .is_err()
        {
            return Ending::Closed;
        }
        if let Err(closed) = self.describe(None) {
            return closed;
        }
        for (channel, pace) in self.context.agent_rates.of(from.node).channels() {
            self.session.pace(channel, pace).await;
        }
        tokio::select! {
            ending = self.hear(Channel::Commands) => ending,
            ending = self.hear(Channel::Telemetry) => ending,
            ending = member::instruct::<OfAgents>(self.session, instructions) => ending,
            ending = member::send_deny_lists::<OfAgents>(self.session, self.context) => ending,
            ending = member::send_coordinators::<OfAgents>(self.session, self.context) => ending,
            error = self.session.revoked() => error.into(),
            error = self.session.expired() => error.into(),
        }
    }

    async fn hear(&self, channel: Channel) -> Ending {
        loop {
            let heard = match self.session.receive(channel).await {
                Ok(message) => self.take(message).await,
                Err(error) => Err(error.into()),
            };
            if let Err(ending) = heard {
                return ending;
            }
        }
    }

    async fn take(&self, message: AgentMessage) -> Result<(), Ending> {
        let (from, intake) = (self.from, &self.context.intake);
        match message {
            AgentMessage::Sample(sample) => {
                for sample in pieces(sample) {
                    let is_urgent = sample.readings.iter().any(is_reported_once);
                    let event = Event::Measured { from, sample };
                    if is_urgent {
                        intake.put_patiently(event).await?;
                    } else {
                        intake.put_telemetry(event)?;
                    }
                }
            }
            AgentMessage::Ack(ack) => intake.put(Event::Acknowledged { from, ack }).await?,
            AgentMessage::Clock { time_of_day_us } => {
                self.describe(Some(skew_us(time_of_day_us, time_of_day())))?;
            }
            AgentMessage::Renew { request } => {
                self.renewals.take_one().await;
                member::renew::<OfAgents>(self.session, self.context, &request).await?;
            }
        }
        Ok(())
    }

    /// Lets the core know what is known of the agent.
    fn describe(&self, skew_us: Option<i64>) -> Result<(), Ending> {
        let session = self.session;
        let good_for = session.good_until().duration_since(SystemTime::now());
        let about = About {
            build: session.build().to_owned(),
            protocol: session.version().to_string(),
            good_for: good_for.unwrap_or_default().into(),
            skew_us,
        };
        let from = self.from;
        Ok(self
            .context
            .intake
            .put_telemetry(Event::Described { from, about })?)
    }
}

/// More important work is done between two of them. Interfaces come first: whose an address is must be known before
/// what is said of it.
fn pieces(sample: Sample) -> Vec<Sample> {
    if sample.readings.len() <= MAX_READINGS_PER_PIECE {
        return vec![sample];
    }
    let taken = sample.taken;
    let (once, others): (Vec<_>, Vec<_>) = sample.readings.into_iter().partition(is_reported_once);
    let mut readings = once.into_iter().chain(others);
    // Each piece is collected separately, so that it allocates no more than it needs.
    let next = || {
        Some(
            readings
                .by_ref()
                .take(MAX_READINGS_PER_PIECE)
                .collect::<Vec<_>>(),
        )
    };
    iter::from_fn(next)
        .take_while(|readings| !readings.is_empty())
        .map(|readings| Sample { taken, readings })
        .collect()
}

/// Whether agents report it once, and again when it has changed. A lost one would be unknown for the whole session, and
/// with an interface all that is said of its addresses.
fn is_reported_once(reading: &Reading) -> bool {
    matches!(
        reading,
        Reading::Interface(_) | Reading::Host(HostReading::NicPlace(_))
    )
}

pub(super) fn time_of_day() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// The difference by which their clock is ahead of ours. The time on the way here makes it look behind.
pub(super) fn skew_us(theirs_us: u64, ours: Duration) -> i64 {
    let ours_us = i128::try_from(ours.as_micros()).unwrap_or(i128::MAX);
    let skew = i128::from(theirs_us) - ours_us;
    i64::try_from(skew).unwrap_or(if skew < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use reweave_common::flow::{FlowKey, Protocol};
    use reweave_common::moment::Moment;
    use reweave_common::sample::Interface;

    use super::*;
    use crate::session_limit::SessionLimit;

    #[test]
    fn long_report_splits_with_interfaces_first() {
        let end = "10.0.0.1:1".parse().unwrap();
        let flow = FlowKey {
            protocol: Protocol::Udp,
            source: end,
            destination: end,
        };
        let interface = Interface {
            name: "eth0".to_owned(),
            addresses: vec![],
            gateways: vec![],
        };
        let report = |flows: usize| Sample {
            taken: Moment::from_micros(7),
            readings: vec![Reading::FlowEnded(flow); flows]
                .into_iter()
                .chain([Reading::Interface(interface.clone())])
                .collect(),
        };
        assert_eq!(
            pieces(report(MAX_READINGS_PER_PIECE - 1)),
            [report(MAX_READINGS_PER_PIECE - 1)]
        );
        let long = pieces(report(2 * MAX_READINGS_PER_PIECE));
        let lengths: Vec<_> = long.iter().map(|piece| piece.readings.len()).collect();
        assert_eq!(lengths, [MAX_READINGS_PER_PIECE, MAX_READINGS_PER_PIECE, 1]);
        let room = long.iter().map(|piece| piece.readings.capacity());
        assert!(
            room.sum::<usize>() <= 4 * MAX_READINGS_PER_PIECE,
            "each has room for itself"
        );
        assert!(matches!(long[0].readings[0], Reading::Interface(_)));
        assert!(long.iter().all(|piece| piece.taken == report(0).taken));
        let mut placed = report(MAX_READINGS_PER_PIECE);
        let place = Reading::Host(HostReading::NicPlace(Box::default()));
        placed.readings.push(place.clone());
        assert_eq!(pieces(placed)[0].readings[1], place, "reported once too");
        let empty = Sample {
            readings: vec![],
            ..report(0)
        };
        assert_eq!(pieces(empty.clone()), [empty]);
    }

    #[test]
    fn starting_sessions_of_agent_are_bounded() {
        let limit = SessionLimit::new(STARTING_SESSIONS);
        let start = || limit.try_acquire(NodeId::from_index(0)).ok();
        let max = STARTING_SESSIONS.max_per_key.unwrap();
        let waiting: Vec<_> = (0..max).map(|_| start()).collect();
        assert!(waiting.iter().all(Option::is_some));
        assert!(start().is_none());
        drop(waiting);
        assert!(start().is_some());
    }

    #[test]
    fn clock_skew_never_overflows() {
        let noon = Duration::from_secs(43_200);
        assert_eq!(skew_us(43_200_000_000, noon), 0);
        assert_eq!(skew_us(43_199_000_000, noon), -1_000_000);
        assert_eq!(skew_us(0, noon), -43_200_000_000);
        assert_eq!(skew_us(u64::MAX, noon), i64::MAX);
    }
}
