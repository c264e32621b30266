//! The session of an agent, which is heard for its own node, and no faster than it may speak.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reweave_common::ids::NodeId;
use reweave_common::instruction::Instruction;
use reweave_common::operator::About;
use reweave_link::{Channel, Session};
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use tokio::sync::mpsc;

use super::Ending;
use super::member::{self, Kind};
use super::places::Place;
use crate::house::House;
use crate::intake::{Event, Origin};

/// Readings of hundreds of interfaces and flows, twice a second.
const RATE_BYTES_PER_S: u32 = 64 << 10;
/// A full picture at the beginning; a longer one is read too, and then waited for.
const BURST_BYTES: u32 = 256 << 10;

enum OfAgents {}

impl Kind for OfAgents {
    type Told = Instruction;
    type Message = CoordinatorMessage;
    const NAME: &'static str = "agent";
}

/// The place is held for as long as the session lasts.
pub(super) async fn serve(
    session: Session,
    from: Origin,
    house: House,
    _place: Option<Place<NodeId>>,
) {
    if !member::comes_to_lead(&house).await {
        return member::send_elsewhere::<OfAgents>(session, &house).await;
    }
    let agent = Agent {
        session: &session,
        from,
        house: &house,
    };
    let name = &session.peer().name;
    tracing::info!("agent {name} is here, from {}", session.address());
    let ending = agent.serve().await;
    // Without a queue nobody needs to know.
    let _ = house.intake.put(Event::Left { from }).await;
    member::part::<OfAgents>(session, &house, ending).await;
}

struct Agent<'s> {
    session: &'s Session,
    from: Origin,
    house: &'s House,
}

impl Agent<'_> {
    async fn serve(&self) -> Ending {
        let (outbox, instructions) = mpsc::channel(member::OUTBOX);
        let from = self.from;
        if self
            .house
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
        for channel in [Channel::Commands, Channel::Telemetry] {
            let session = self.session;
            session.pace(channel, RATE_BYTES_PER_S, BURST_BYTES).await;
        }
        tokio::select! {
            ending = self.hear(Channel::Commands) => ending,
            ending = self.hear(Channel::Telemetry) => ending,
            ending = member::instruct::<OfAgents>(self.session, instructions) => ending,
            ending = member::tell_of_denied::<OfAgents>(self.session) => ending,
            error = self.session.shut_out() => error.into(),
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
        let (from, intake) = (self.from, &self.house.intake);
        match message {
            AgentMessage::Sample(sample) => {
                intake.put_telemetry(Event::Measured { from, sample })?;
            }
            AgentMessage::Ack(ack) => intake.put(Event::Acknowledged { from, ack }).await?,
            AgentMessage::Clock { time_of_day_us } => {
                self.describe(Some(skew_us(time_of_day_us, time_of_day())))?;
            }
            AgentMessage::Renew { request } => {
                member::renew::<OfAgents>(self.session, self.house, &request).await?;
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
            good_for: good_for.unwrap_or_default(),
            skew_us,
        };
        let from = self.from;
        Ok(self
            .house
            .intake
            .put_telemetry(Event::Described { from, about })?)
    }
}

pub(super) fn time_of_day() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// By how much theirs is ahead of ours; the way here counts as behind.
pub(super) fn skew_us(theirs_us: u64, ours: Duration) -> i64 {
    let ours_us = i128::try_from(ours.as_micros()).unwrap_or(i128::MAX);
    let skew = i128::from(theirs_us) - ours_us;
    i64::try_from(skew).unwrap_or(if skew < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_may_be_off_by_anything() {
        let noon = Duration::from_secs(43_200);
        assert_eq!(skew_us(43_200_000_000, noon), 0);
        assert_eq!(skew_us(43_199_000_000, noon), -1_000_000);
        assert_eq!(skew_us(0, noon), -43_200_000_000);
        assert_eq!(skew_us(u64::MAX, noon), i64::MAX);
    }
}
