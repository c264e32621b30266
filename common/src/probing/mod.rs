//! Latency and loss between hosts: an agent's probe list, and the results.

mod summary;
mod times;
mod window;

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::flow::FlowKey;
use crate::time_span::TimeSpan;
use crate::units::Rate;

pub use summary::{Spread, Summary};
pub use times::{Durations, ProbePart, Times};
pub use window::ProbeWindow;

/// The UDP port agents answer probes on.
pub const PROBE_PORT: u16 = 7333;

/// Flows to probe. Each list replaces the previous one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeList {
    /// Flows of the probes: each source port may take another path.
    pub flows: Vec<FlowKey>,
    /// Probe interval of each flow.
    pub period: TimeSpan,
    /// Maximum rate of all probes; the interval grows to keep it.
    pub most_rate: Rate,
    /// Addresses whose probes are answered, even after the list has expired.
    pub roster: Vec<Ipv4Addr>,
    /// Lifetime of the list: without a new one, probing ends.
    pub valid_for: TimeSpan,
    /// Interval of the packet trains that measure the bandwidth of each flow's path while the network is idle; without
    /// it, there are no trains. Their total rate is also limited by `most_rate`.
    pub trains_every: Option<TimeSpan>,
}

/// Results of one flow's probes that ended since the last reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReading {
    pub flow: FlowKey,
    pub tally: ProbeTally,
}

/// Source of departure and arrival times, from the worst to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stamps {
    /// The program: delays of the host count as delays of the network.
    Program,
    Kernel,
    Hardware,
}

/// Counts of probes by outcome. Tallies of other times and flows can be merged. Coordinators hold half a million of
/// them; a full counter stays at its maximum.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeTally {
    pub answered: u32,
    pub lost: LossByDirection,
    /// The host answered that no socket receives probes.
    pub refused: u32,
    /// In flight while the prober or the responder was stalled: counted neither as answered nor as lost.
    pub stalled: u32,
    /// Probes that this host could not send.
    pub unsent: Unsent,
    /// Probes of the sender's MTU size, which are not counted elsewhere.
    pub large: Large,
    /// Answers that arrived after the answer to a later probe.
    pub reordered: u32,
    /// Duplicate answers.
    pub duplicated: u32,
    /// Answered probes whose times are invalid, because a clock was set meanwhile.
    pub untimed: u32,
    pub times: Times,
    /// Number of times by source of the timestamps.
    pub stamped: Stamped,
    /// Routers on the path of the last answer.
    pub routers: Option<Routers>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Stamped {
    pub program: u32,
    pub kernel: u32,
    pub hardware: u32,
}

/// Probes without an answer, by direction of the loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossByDirection {
    pub there: u32,
    pub back: u32,
    /// No later answer showed whether the probe had arrived.
    pub somewhere: u32,
}

/// Probes that never left their host, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Unsent {
    /// A rule of its own kernel, such as a firewall, drops them.
    pub forbidden: u32,
    /// A queue of the host was full.
    pub no_room: u32,
    /// The host has no route.
    pub no_way: u32,
}

/// Probes in a packet of the sender's MTU size, with known outcome. The answers are small.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Large {
    pub arrived: u32,
    pub lost: u32,
}

/// Number of routers that a probe passed, in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Routers {
    pub there: u8,
    pub back: u8,
}

/// Number of unusable packets on probe ports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Strays {
    /// Packets that are no probes.
    pub malformed: u64,
    /// Probes from hosts that are not on the roster, and answers without a probe.
    pub foreign: u64,
    /// Answers that arrived after their probe had been counted as lost.
    pub late: u64,
}

/// Unusable packets of one host: on the ports from which it probes, and on the port where it answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PortStrays {
    pub asking: Strays,
    pub answering: Strays,
}

impl Strays {
    pub fn count(&self) -> u64 {
        let known = self.malformed.saturating_add(self.foreign);
        known.saturating_add(self.late)
    }
}

impl Stamped {
    pub fn note(&mut self, stamps: Stamps) {
        *match stamps {
            Stamps::Program => &mut self.program,
            Stamps::Kernel => &mut self.kernel,
            Stamps::Hardware => &mut self.hardware,
        } += 1;
    }

    /// Returns the source of at least four fifths of the times; the others may be worse. None without times.
    pub fn mostly(&self) -> Option<Stamps> {
        let all = sum([self.program, self.kernel, self.hardware]);
        let few = all / 5;
        match () {
            () if all == 0 => None,
            () if sum([self.program]) > few => Some(Stamps::Program),
            () if sum([self.program, self.kernel]) > few => Some(Stamps::Kernel),
            () => Some(Stamps::Hardware),
        }
    }
}

fn sum<const N: usize>(counts: [u32; N]) -> u64 {
    counts.map(u64::from).iter().sum()
}

impl LossByDirection {
    fn merge(&mut self, other: Self) {
        let pairs = [
            (&mut self.there, other.there),
            (&mut self.back, other.back),
            (&mut self.somewhere, other.somewhere),
        ];
        for (own, more) in pairs {
            *own = own.saturating_add(more);
        }
    }

    pub fn count(&self) -> u64 {
        sum([self.there, self.back, self.somewhere])
    }
}

impl Unsent {
    pub fn count(&self) -> u64 {
        sum([self.forbidden, self.no_room, self.no_way])
    }

    pub fn merge(&mut self, other: Self) {
        let pairs = [
            (&mut self.forbidden, other.forbidden),
            (&mut self.no_room, other.no_room),
            (&mut self.no_way, other.no_way),
        ];
        for (own, more) in pairs {
            *own = own.saturating_add(more);
        }
    }
}

impl Large {
    pub fn sent(&self) -> u64 {
        sum([self.arrived, self.lost])
    }

    pub fn merge(&mut self, other: Self) {
        self.arrived = self.arrived.saturating_add(other.arrived);
        self.lost = self.lost.saturating_add(other.lost);
    }
}

impl ProbeTally {
    /// Returns the number of probes with a responder.
    pub fn sent(&self) -> u64 {
        u64::from(self.answered) + self.lost.count()
    }

    /// Returns the lost share of probes with a responder.
    pub fn loss(&self) -> Option<Loss> {
        Loss::new(self.lost.count(), self.sent())
    }

    pub fn network(&self) -> Durations<'_> {
        self.times.of(ProbePart::Network)
    }

    pub fn merge(&mut self, other: &Self) {
        let pairs = [
            (&mut self.answered, other.answered),
            (&mut self.refused, other.refused),
            (&mut self.stalled, other.stalled),
            (&mut self.reordered, other.reordered),
            (&mut self.duplicated, other.duplicated),
            (&mut self.untimed, other.untimed),
            (&mut self.stamped.program, other.stamped.program),
            (&mut self.stamped.kernel, other.stamped.kernel),
            (&mut self.stamped.hardware, other.stamped.hardware),
        ];
        for (own, more) in pairs {
            *own = own.saturating_add(more);
        }
        self.lost.merge(other.lost);
        self.unsent.merge(other.unsent);
        self.large.merge(other.large);
        self.times.merge(&other.times);
        self.routers = other.routers.or(self.routers);
    }
}

/// A lost share, with the bounds of the 95 % Wilson score interval, which also hold for few probes and for no loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Loss {
    pub share: f64,
    #[serde(rename = "least_share")]
    pub least: f64,
    #[serde(rename = "most_share")]
    pub most: f64,
}

impl Loss {
    /// The 97.5th percentile of the normal distribution.
    const NORMAL_QUANTILE: f64 = 1.959_963_984_540_054;

    /// Returns none if nothing was sent.
    pub fn new(lost: u64, sent: u64) -> Option<Self> {
        if sent == 0 {
            return None;
        }
        let (sent, share) = (sent as f64, lost as f64 / sent as f64);
        let z2 = Self::NORMAL_QUANTILE * Self::NORMAL_QUANTILE;
        let middle = share + z2 / (2.0 * sent);
        let spread = share * (1.0 - share) / sent + z2 / (4.0 * sent * sent);
        let half = Self::NORMAL_QUANTILE * spread.max(0.0).sqrt();
        let scale = 1.0 + z2 / sent;
        Some(Self {
            share,
            least: ((middle - half) / scale).clamp(0.0, share),
            most: ((middle + half) / scale).clamp(share, 1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(lost: u64, sent: u64) -> [f64; 2] {
        let loss = Loss::new(lost, sent).unwrap();
        assert_eq!(loss.share, lost as f64 / sent as f64);
        [loss.least, loss.most].map(|it| (it * 1e4).round() / 1e4)
    }

    #[test]
    fn loss_bounds_are_wilson_intervals() {
        // Values from tables of the Wilson score interval.
        assert_eq!(bounds(200, 20_000), [0.0087, 0.0115]);
        assert_eq!(bounds(1, 10), [0.0179, 0.4042]);
        assert_eq!(bounds(0, 600), [0.0, 0.0064]);
        assert_eq!(bounds(5, 5), [0.5655, 1.0]);
        assert_eq!(Loss::new(0, 0), None);
    }

    #[test]
    fn merged_tally_sums_and_keeps_path() {
        let with = |stamps, there| {
            let mut tally = ProbeTally {
                answered: 3,
                lost: LossByDirection {
                    there: 1,
                    back: 0,
                    somewhere: 2,
                },
                routers: Some(Routers { there, back: 3 }),
                unsent: Unsent {
                    forbidden: 2,
                    no_room: 3,
                    no_way: 4,
                },
                large: Large {
                    arrived: 5,
                    lost: 6,
                },
                ..ProbeTally::default()
            };
            tally.stamped.note(stamps);
            tally
        };
        let mut merged = with(Stamps::Hardware, 3);
        merged.merge(&with(Stamps::Kernel, 5));
        merged.merge(&ProbeTally::default());
        assert_eq!((merged.sent(), merged.lost.count()), (12, 6));
        assert_eq!((merged.unsent.count(), merged.unsent.no_way), (18, 8));
        assert_eq!((merged.large.sent(), merged.large.lost), (22, 12));
        assert_eq!(merged.stamped.mostly(), Some(Stamps::Kernel));
        assert_eq!(merged.routers, Some(Routers { there: 5, back: 3 }));
    }

    #[test]
    fn stamps_count_as_worse_when_many() {
        let mut stamped = Stamped::default();
        assert_eq!(stamped.mostly(), None);
        stamped.kernel = 90;
        stamped.program = 10;
        assert_eq!(stamped.mostly(), Some(Stamps::Kernel));
        stamped.program = 30;
        assert_eq!(stamped.mostly(), Some(Stamps::Program));
    }
}
