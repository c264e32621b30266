//! Lines between agents and the coordinator: sessions that break, and messages that take their time.
//!
//! Within a session each channel keeps its order, as streams do; between channels nothing does.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::moment::Moment;

use super::chance::Chance;

/// Later sessions have higher numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// To the agent.
    Instructions,
    Acks,
    Samples,
}

/// Properties of the connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weather {
    /// Minimum delay of a message.
    pub least_delay: Duration,
    pub most_delay: Duration,
    /// Share of messages that take up to ten times as long.
    pub straggle: f64,
    /// Messages of agents that never arrive.
    pub loss: f64,
    /// Acks and samples that arrive out of order.
    pub disorder: f64,
    /// Acks that arrive twice.
    pub echo: f64,
    /// Instructions that arrive once more, much later, as from a leader of former times.
    pub ghosts: f64,
    pub latest_ghost: Duration,
    /// Probes or their answers that are lost.
    pub probe_loss: f64,
}

impl Weather {
    pub const FAIR_WEATHER: Self = Self {
        least_delay: Duration::from_micros(200),
        most_delay: Duration::from_millis(2),
        straggle: 0.0,
        loss: 0.0,
        disorder: 0.0,
        echo: 0.0,
        ghosts: 0.0,
        latest_ghost: Duration::from_secs(8),
        probe_loss: 0.0,
    };

    pub const FOUL_WEATHER: Self = Self {
        least_delay: Duration::from_micros(200),
        most_delay: Duration::from_millis(60),
        straggle: 0.05,
        loss: 0.05,
        disorder: 0.1,
        echo: 0.1,
        ghosts: 0.5,
        latest_ghost: Duration::from_secs(8),
        probe_loss: 0.02,
    };
}

#[derive(Debug)]
pub struct Wire {
    pub weather: Weather,
    chance: Chance,
    sessions: u64,
    /// When the last message of a channel arrives.
    last: BTreeMap<(SessionId, Channel), Moment>,
}

impl Wire {
    pub fn new(chance: Chance, weather: Weather) -> Self {
        Self {
            weather,
            chance,
            sessions: 0,
            last: BTreeMap::new(),
        }
    }

    pub fn new_session(&mut self) -> SessionId {
        self.sessions += 1;
        SessionId(self.sessions)
    }

    /// When each copy of a message arrives that is sent now.
    pub fn arrivals(&mut self, now: Moment, session: SessionId, channel: Channel) -> Vec<Moment> {
        let is_up = channel != Channel::Instructions;
        if is_up && self.chance.happens(self.weather.loss) {
            return Vec::new();
        }
        let mut arrival = now + self.delay();
        let keeps_order = !is_up || !self.chance.happens(self.weather.disorder);
        if keeps_order {
            let last = self.last.entry((session, channel)).or_default();
            arrival = arrival.max(*last + Duration::from_micros(1));
            *last = arrival;
        }
        let is_doubled = channel == Channel::Acks && self.chance.happens(self.weather.echo);
        let again = is_doubled.then(|| now + self.delay() * 2);
        [Some(arrival), again].into_iter().flatten().collect()
    }

    /// Returns the arrival of each copy of an order that is sent now, with its session. A copy repeated by a former
    /// leader has no session.
    pub fn orders(
        &mut self,
        now: Moment,
        session: SessionId,
        may_repeat: bool,
    ) -> Vec<(Moment, Option<SessionId>)> {
        let again = if may_repeat { self.ghost(now) } else { None };
        let arrivals = self.arrivals(now, session, Channel::Instructions);
        let arrivals = arrivals.into_iter().map(|at| (at, Some(session)));
        let again = again.map(|at| (at, None));
        again.into_iter().chain(arrivals).collect()
    }

    /// Returns when an instruction arrives once more, if it does.
    fn ghost(&mut self, now: Moment) -> Option<Moment> {
        let comes = self.chance.happens(self.weather.ghosts);
        let latest = self.weather.latest_ghost;
        comes.then(|| now + self.chance.time(Duration::from_millis(5), latest))
    }

    /// Returns the time of a probe with its answer, unless one of them is lost.
    pub fn probe_time(&mut self, least: Duration) -> Option<Duration> {
        let arrives = !self.chance.happens(self.weather.probe_loss);
        let queued = self
            .chance
            .time(Duration::from_micros(20), Duration::from_micros(900));
        arrives.then_some(least + queued)
    }

    /// Returns a random time within these limits.
    pub fn a_while(&mut self, [least, most]: [Duration; 2]) -> Duration {
        self.chance.time(least, most)
    }

    fn delay(&mut self) -> Duration {
        let Weather {
            least_delay,
            most_delay,
            straggle,
            ..
        } = self.weather;
        let delay = self.chance.time(least_delay, most_delay);
        if self.chance.happens(straggle) {
            delay * 10
        } else {
            delay
        }
    }
}
