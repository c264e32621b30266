//! Circuits for traffic that changes in every iteration, such as that of experts. They are set again for the last
//! counts of the gates, in addition to a packet network for the rest.
//!
//! The time is that of the busiest host: the circuits of each pair carry what they can, and the packet network carries
//! the rest of all pairs at the same time. [`Advice`] says whether new circuits pay off, from past counts: each
//! iteration is planned from the previous one.

mod few;
mod gates;
mod laying;

pub use gates::parse;

use std::cmp::Ordering;

use serde::Serialize;

use crate::gain::span;
use crate::topology::{Pair, counted};

/// Bytes between hosts in an iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    hosts: usize,
    bytes: Vec<f64>,
    /// Total bytes that each host sends and receives.
    totals: Vec<[f64; 2]>,
}

impl Counts {
    pub fn new(hosts: usize) -> Self {
        Self {
            hosts,
            bytes: vec![0.0; hosts * hosts],
            totals: vec![[0.0; 2]; hosts],
        }
    }

    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Adds bytes. Traffic within a host is ignored.
    pub fn add(&mut self, from: usize, to: usize, bytes: f64) {
        if from != to {
            self.bytes[from * self.hosts + to] += bytes;
            self.totals[from][0] += bytes;
            self.totals[to][1] += bytes;
        }
    }

    pub fn between(&self, from: usize, to: usize) -> f64 {
        self.bytes[from * self.hosts + to]
    }

    /// Returns the bytes that a host sends to another, and receives from it.
    fn both_ways(&self, host: usize, other: usize) -> [f64; 2] {
        [self.between(host, other), self.between(other, host)]
    }

    /// The mean of several.
    pub fn mean(all: &[Self]) -> Self {
        let hosts = all.first().map_or(0, Self::hosts);
        let mut mean = Self::new(hosts);
        let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
        for (from, to) in pairs {
            let sum: f64 = all.iter().map(|counts| counts.between(from, to)).sum();
            mean.add(from, to, sum / all.len() as f64);
        }
        mean
    }
}

/// A region of hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// Ports of each host for circuits.
    pub ports: usize,
    pub circuit_gbps: f64,
    /// Rate of a host over packet switches.
    pub switched_gbps: f64,
}

/// Number of circuits between each pair of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circuits {
    hosts: usize,
    counts: Vec<u8>,
}

impl Circuits {
    fn new(hosts: usize) -> Self {
        Self {
            hosts,
            counts: vec![0; hosts * hosts],
        }
    }

    /// Pairs may be named several times.
    pub fn of(hosts: usize, pairs: &[[usize; 2]]) -> Self {
        let mut circuits = Self::new(hosts);
        pairs.iter().for_each(|&[a, b]| circuits.change(a, b, 1));
        circuits
    }

    pub fn between(&self, a: usize, b: usize) -> usize {
        usize::from(self.counts[a * self.hosts + b])
    }

    /// Returns the numbers of one host, by the other host.
    fn of_host(&self, host: usize) -> &[u8] {
        &self.counts[host * self.hosts..][..self.hosts]
    }

    pub fn degree(&self, host: usize) -> usize {
        let own = self.of_host(host).iter();
        own.map(|&count| usize::from(count)).sum()
    }

    fn change(&mut self, a: usize, b: usize, by: i8) {
        self.set(a, b, self.between(a, b).saturating_add_signed(by.into()));
    }

    fn set(&mut self, a: usize, b: usize, count: usize) {
        for place in [a * self.hosts + b, b * self.hosts + a] {
            self.counts[place] = u8::try_from(count).unwrap_or(u8::MAX);
        }
    }

    /// Each pair once for each of its circuits.
    pub fn pairs(&self) -> Vec<Pair> {
        let pairs = (0..self.hosts).flat_map(|a| (a + 1..self.hosts).map(move |b| [a, b]));
        let each =
            |[a, b]: [usize; 2]| std::iter::repeat_n([a as u32, b as u32], self.between(a, b));
        pairs.flat_map(each).collect()
    }

    /// Returns the number of circuits that must move to reach the other set.
    pub fn moved(&self, other: &Self) -> usize {
        let more = self.counts.iter().zip(&other.counts);
        more.map(|(old, new)| usize::from(new.saturating_sub(*old)))
            .sum::<usize>()
            / 2
    }
}

const GBPS_TO_BYTES_PER_MS: f64 = 1e9 / 8.0 / 1e3;

impl Region {
    /// Returns the time of an iteration's traffic over these circuits and the packet network.
    pub fn time_ms(&self, counts: &Counts, circuits: &Circuits) -> f64 {
        let hosts = 0..counts.hosts;
        hosts
            .map(|host| self.host_ms(counts, circuits, host))
            .fold(0.0, f64::max)
    }

    /// Returns the time in which one host sends or receives, whichever is longer.
    fn host_ms(&self, counts: &Counts, circuits: &Circuits, host: usize) -> f64 {
        let joined = circuits.of_host(host).iter().enumerate();
        let joined = joined.filter(|(_, count)| **count > 0);
        let way_ms = |way: usize| {
            let lanes = joined.clone().map(|(other, &count)| Lane {
                bytes: counts.both_ways(host, other)[way],
                circuits: f64::from(count),
            });
            self.way_ms(counts.totals[host][way], &lanes)
        };
        way_ms(0).max(way_ms(1))
    }

    /// Returns the earliest time at which the packet network has carried everything beyond the circuits. A pair needs
    /// the packet network only until its circuits are done. Assuming that pairs which are active at some time stay
    /// active gives a lower bound, so a few steps from below reach the solution.
    fn way_ms(&self, total: f64, lanes: &(impl Iterator<Item = Lane> + Clone)) -> f64 {
        let rest = total - lanes.clone().map(|it| it.bytes).sum::<f64>();
        // A rest below rounding errors is zero.
        let rest = if rest > total * ROUNDING_TOLERANCE {
            rest
        } else {
            0.0
        };
        let mut time_ms = 0.0;
        loop {
            let (mut bytes, mut rate) = (rest, self.switched_gbps * GBPS_TO_BYTES_PER_MS);
            for Lane {
                bytes: own,
                circuits,
            } in lanes.clone()
            {
                let own_rate = circuits * self.circuit_gbps * GBPS_TO_BYTES_PER_MS;
                if own > own_rate * time_ms {
                    bytes += own;
                    rate += own_rate;
                }
            }
            let end_ms = if bytes > 0.0 { bytes / rate } else { 0.0 };
            if end_ms <= time_ms {
                return time_ms;
            }
            time_ms = end_ms;
        }
    }

    /// Circuits for what was counted: of eight hosts the best there are, of many what exchanges lead to.
    pub fn circuits(&self, counts: &Counts) -> Circuits {
        few::best(self, counts, laying::lay(self, counts))
    }
}

/// Traffic from or to another host, with the circuits between them.
struct Lane {
    bytes: f64,
    circuits: f64,
}

const ROUNDING_TOLERANCE: f64 = 1e-12;

/// Minimum number of iterations for advice.
pub const MIN_ITERATIONS: usize = 3;

/// Whether new circuits in every iteration pay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Without any circuits.
    pub switched_ms: f64,
    /// Time with constant circuits for the mean counts.
    pub static_ms: f64,
    /// Time with circuits for the previous iteration, without the time to set them.
    pub regional_ms: f64,
    pub reconfigure_ms: f64,
    /// Gain per iteration, and its uncertainty (twice the standard error).
    pub gain_ms: f64,
    pub uncertain_ms: f64,
    pub pays: bool,
    /// A switch that takes no longer than this whenever circuits move would pay; none does where it is not
    /// above zero.
    pub pays_below_ms: f64,
    /// Number of ports with which constant circuits are as fast.
    pub ports_instead: Option<usize>,
    pub why: String,
}

impl Region {
    /// Returns advice from the counts of consecutive iterations. Moving circuits takes `time_ms`, of which computation
    /// hides `hidden_ms`. None below [`MIN_ITERATIONS`] iterations.
    pub fn advice(
        &self,
        past: &[Counts],
        time_ms: impl Fn(usize) -> f64,
        hidden_ms: f64,
    ) -> Option<Advice> {
        if past.len() < MIN_ITERATIONS {
            return None;
        }
        let (fixed, none) = (
            self.circuits(&Counts::mean(past)),
            Circuits::new(past[0].hosts),
        );
        let planned: Vec<_> = past.iter().map(|counts| self.circuits(counts)).collect();
        let still = self.times(past, |_| &fixed);
        let regional = self.times(past, |nth| &planned[nth]);
        let gains: Vec<_> = still.iter().zip(&regional).map(|(a, b)| a - b).collect();
        let moved: Vec<_> = planned.windows(2).map(|it| it[0].moved(&it[1])).collect();
        let waits = moved.iter().map(|&moved| match moved {
            0 => 0.0,
            _ => (time_ms(moved) - hidden_ms).max(0.0),
        });
        let (gains_ms, reconfigure_ms) = (mean(&gains), mean(&waits.collect::<Vec<_>>()));
        let (regional_ms, uncertain_ms) = (mean(&regional), 2.0 * standard_error(&gains));
        let mut advice = Advice {
            switched_ms: mean(&self.times(past, |_| &none)),
            static_ms: mean(&still),
            regional_ms,
            reconfigure_ms,
            gain_ms: gains_ms - reconfigure_ms,
            uncertain_ms,
            pays: gains_ms - reconfigure_ms > uncertain_ms,
            pays_below_ms: (gains_ms - uncertain_ms) / often(&moved) + hidden_ms,
            ports_instead: self.ports_instead(past, regional_ms),
            why: String::new(),
        };
        advice.why = advice.words();
        Some(advice)
    }

    /// Returns the time of each iteration but the first, with the circuits set before it.
    fn times<'c>(&self, past: &[Counts], before: impl Fn(usize) -> &'c Circuits) -> Vec<f64> {
        let each = past[1..].iter().enumerate();
        each.map(|(nth, counts)| self.time_ms(counts, before(nth)))
            .collect()
    }

    /// Returns the smallest number of ports with which constant circuits are as fast as moved ones.
    fn ports_instead(&self, past: &[Counts], enough_ms: f64) -> Option<usize> {
        let mean_counts = Counts::mean(past);
        let does = |ports: &usize| {
            let wider = Self {
                ports: *ports,
                ..*self
            };
            let fixed = wider.circuits(&mean_counts);
            mean(&wider.times(past, |_| &fixed)) <= enough_ms
        };
        (1..=self.ports * MAX_PORT_FACTOR).find(does)
    }
}

/// Returns the share of iterations in which circuits move; 1 if none ever move.
fn often(moved: &[usize]) -> f64 {
    match moved.iter().filter(|&&circuits| circuits > 0).count() {
        0 => 1.0,
        times => times as f64 / moved.len() as f64,
    }
}

/// No operator buys more than this many times the ports.
const MAX_PORT_FACTOR: usize = 4;

impl Advice {
    fn words(&self) -> String {
        let [still, moved, cost, gain] = [
            self.static_ms,
            self.regional_ms,
            self.reconfigure_ms,
            self.gain_ms,
        ]
        .map(span);
        if self.pays {
            return format!(
                "new circuits for every iteration take {moved} of traffic and {cost} of set-up; \
                 fixed circuits take {still}: {gain} gained"
            );
        }
        let instead = self.ports_instead.map_or(String::new(), |ports| {
            let ports = counted(ports, "port");
            format!("; {ports} for circuits that stay would be as fast")
        });
        let below = self.what_would_pay();
        format!(
            "new circuits do not pay off: {moved} of traffic and {cost} of set-up, while fixed \
             circuits take {still}; {below}{instead}"
        )
    }
}

impl Advice {
    fn what_would_pay(&self) -> String {
        if self.pays_below_ms > 0.0 {
            let below = span(self.pays_below_ms);
            return format!("it would pay with a switch that takes less than {below}");
        }
        let why = match self.regional_ms.total_cmp(&self.static_ms) {
            Ordering::Less => "the gain is not certain enough",
            Ordering::Equal => "the gates change too little from one iteration to the next",
            Ordering::Greater => "the gates change too much from one iteration to the next",
        };
        format!("{why} for any switch")
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn standard_error(values: &[f64]) -> f64 {
    let (mean, count) = (mean(values), values.len() as f64);
    let squares: f64 = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    (squares / (count - 1.0).max(1.0) / count).sqrt()
}
