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

/// What to probe. Each list replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeList {
    /// By these five fields probes are sent: each source port may take another path.
    pub flows: Vec<FlowKey>,
    /// Each flow is probed this often.
    pub period: TimeSpan,
    /// All probes together are no more than this; the period grows where it must.
    pub most_rate: Rate,
    /// Who is answered; it stays in force when the list has run out.
    pub roster: Vec<Ipv4Addr>,
    /// Without a fresh list, probing ends then.
    pub valid_for: TimeSpan,
    /// How often, while the wires rest, a train of packets measures the bandwidth of each flow's way; never, without.
    /// All trains together are no more than `most_rate`, too.
    pub trains_every: Option<TimeSpan>,
}

/// Results of one flow's probes that ended since the last reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReading {
    pub flow: FlowKey,
    pub tally: ProbeTally,
}

/// The source of departure and arrival times, from the worst to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stamps {
    /// The program that sent or received: the host's own delays count as the network's.
    Program,
    Kernel,
    Hardware,
}

/// What came of probes. Tallies of other times and flows can be merged into one. Coordinators hold half a
/// million of these: a count that is full stays so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeTally {
    pub answered: u32,
    pub lost: LossByDirection,
    /// The host is there, and reports that no socket answers probes.
    pub refused: u32,
    /// In flight while the prober or the responder was stalled: neither answered nor lost.
    pub stalled: u32,
    /// This host could not send them.
    pub unsent: Unsent,
    /// Those as large as the sender's MTU, which are not among the others.
    pub large: Large,
    /// Answers that came after the answer to a later probe.
    pub reordered: u32,
    /// Answers that came again.
    pub duplicated: u32,
    /// Answered, but a clock was set meanwhile: nothing is said of their times.
    pub untimed: u32,
    pub times: Times,
    /// How many of these times are by whose stamps.
    pub stamped: Stamped,
    /// Of the last answer.
    pub routers: Option<Routers>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Stamped {
    pub program: u32,
    pub kernel: u32,
    pub hardware: u32,
}

/// Probes without an answer, by where they were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossByDirection {
    pub there: u32,
    pub back: u32,
    /// No later answer showed whether the probe had arrived.
    pub somewhere: u32,
}

/// Probes that never left their host, by why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Unsent {
    /// A rule of its own kernel, as of its firewall, stops them.
    pub forbidden: u32,
    /// A queue of its own was full.
    pub no_room: u32,
    /// It knows no way there.
    pub no_way: u32,
}

/// Probes that one packet of the sender's MTU holds, of which it is known whether they came through. What
/// comes back to report it is small.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Large {
    pub arrived: u32,
    pub lost: u32,
}

/// How many routers a probe passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Routers {
    pub there: u8,
    pub back: u8,
}

/// Unusable packets on ports of probes, so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Strays {
    /// They are no probes.
    pub malformed: u64,
    /// Probes of hosts that are not on the roster, and answers without a probe.
    pub foreign: u64,
    /// Answers after their probe was given up as lost.
    pub late: u64,
}

/// The same of one host, apart for the ports that it probes from and the port that it answers on.
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

    /// By which nearly all are: one in five may be by worse ones. None when there are none.
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
    /// Probes with a responder.
    pub fn sent(&self) -> u64 {
        u64::from(self.answered) + self.lost.count()
    }

    /// The lost share of probes with a responder.
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

/// A share that was lost, and between which bounds the true one lies in 95 of 100 cases, as Wilson
/// has it: bounds that hold for few probes too, and where none was lost.
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
    /// The normal distribution's 97.5th percentile.
    const NORMAL_QUANTILE: f64 = 1.959_963_984_540_054;

    /// None when nothing was sent.
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
        // Figures from tables of the Wilson score interval.
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
