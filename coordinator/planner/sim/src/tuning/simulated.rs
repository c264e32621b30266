//! Simulated time of each combination on a fabric, in parts that measurements can calibrate.

use reweave_common::fabric::Fabric;
use reweave_common::iteration::Operation;
use reweave_common::units::Rate;
use reweave_repair::paths::ecmp::Ecmp;

use super::measured::{Calibration, Parts};
use super::{ALGORITHMS, Combination, PROTOCOLS, Protocol};
use crate::collectives::{self, Algorithm, Collective, CollectiveError, Swing};
use crate::engine::SimTime;
use crate::engine::network::{Costs, Network};

/// Collective and fabric of the simulation.
#[derive(Debug, Clone)]
pub struct Ground<'f> {
    pub fabric: &'f Fabric,
    pub operation: Operation,
    /// The numbers of channels that are tried, in rising order.
    pub channels: Vec<u32>,
    /// Maximum copy rate of one channel.
    pub channel: Rate,
    /// Time that each further channel adds to each step, because one thread starts all channels.
    pub start_us: f64,
    pub ranks_per_host: usize,
    /// Work limit of each simulation.
    pub limit: u64,
}

/// One combination by this many channels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Simulated {
    pub(super) combination: Combination,
    pub(super) channels: u32,
    /// Time of an empty collective with one channel, and increase per step with all channels.
    empty_us: f64,
    start_us: f64,
    /// The sends that wait for one another, and how many courses of them begin in turn.
    steps: f64,
    passes: f64,
    in_pieces: bool,
    /// Time per byte if all transfers run at once.
    pub(super) us_per_byte: f64,
    /// The same as channels copy it, and where flows are spread evenly.
    pub(super) copied_us_per_byte: f64,
    pub(super) even_us_per_byte: f64,
}

/// Maximum number of random hashes to estimate the cost of collisions. Many hosts already give many samples.
const MAX_HASH_DRAWS: usize = 8;
const HOSTS_BY_DRAWS: usize = 512;
/// Size at which the rate of simultaneous transfers is measured.
const RATE_SAMPLE_BYTES: f64 = 1e9;
/// Pieces of more than this would be cut no finer.
const PIECE_COUNTS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

impl Simulated {
    /// Returns the time for this number of bytes, in pieces of the best size.
    pub(super) fn parts(&self, bytes: f64, calibration: &Calibration) -> Parts {
        let pieces = if self.in_pieces {
            &PIECE_COUNTS[..]
        } else {
            &PIECE_COUNTS[..1]
        };
        let parts = pieces.iter().map(|&pieces| self.in_pieces(bytes, pieces));
        let time = |parts: &Parts| calibration.applied(parts);
        let least = parts.reduce(|a, b| if time(&b) < time(&a) { b } else { a });
        least.unwrap_or_default()
    }

    /// Each piece follows the one before by a step. Until the last edges have begun, one course of
    /// them is on the wires at a time.
    fn in_pieces(&self, bytes: f64, pieces: f64) -> Parts {
        let further = pieces - 1.0;
        let whole_us = bytes * self.us_per_byte;
        let wire_us = if self.in_pieces {
            whole_us * (further + self.steps / self.passes) / pieces
        } else {
            whole_us
        };
        Parts {
            latency_us: self.empty_us * (1.0 + further / self.steps.max(1.0)),
            start_us: self.start_us * (self.steps + further),
            wire_us,
        }
    }
}

impl Ground<'_> {
    /// All combinations by all numbers of channels.
    pub(super) fn simulated(&self) -> Result<Vec<Simulated>, CollectiveError> {
        let able = ALGORITHMS.into_iter().filter(|it| it.does(self.operation));
        let simulated = able.map(|algorithm| self.by(algorithm));
        Ok(simulated.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn by(&self, algorithm: Algorithm) -> Result<Vec<Simulated>, CollectiveError> {
        let network = Network::of(self.fabric, Costs::default());
        let collective = self.collective(RATE_SAMPLE_BYTES);
        let swing = Swing::of(&collective, algorithm, &network, self.limit)?;
        let rates: Vec<_> = self
            .channels
            .iter()
            .map(|&channels| self.running(&swing, algorithm, channels))
            .collect::<Result<_, _>>()?;
        let mut simulated = Vec::new();
        for protocol in PROTOCOLS {
            let empty_us = self.empty_us(algorithm, protocol)?;
            simulated.extend(rates.iter().map(|running| Simulated {
                combination: (algorithm, protocol),
                empty_us,
                us_per_byte: running.us_per_byte * protocol.wire_per_byte(),
                copied_us_per_byte: running.copied_us_per_byte * protocol.wire_per_byte(),
                even_us_per_byte: running.even_us_per_byte * protocol.wire_per_byte(),
                ..running.clone()
            }));
        }
        Ok(simulated)
    }

    /// Without what a protocol costs.
    fn running(
        &self,
        swing: &Swing<'_>,
        algorithm: Algorithm,
        channels: u32,
    ) -> Result<Simulated, CollectiveError> {
        let more = self.more_on_wires(algorithm);
        let copied_us = self.copied_us(RATE_SAMPLE_BYTES) / f64::from(channels);
        let draws = (HOSTS_BY_DRAWS / self.hosts().max(1)).clamp(1, MAX_HASH_DRAWS);
        let mut seconds = 0.0;
        for seed in 0..draws as u64 {
            let ecmp = Ecmp::Mixed { seed };
            seconds += swing.seconds(channels, copied_us / more / 1e6, &ecmp)?;
        }
        let per_byte = |seconds: f64| seconds * more * 1e6 / RATE_SAMPLE_BYTES;
        let (steps, passes) = swing.steps();
        Ok(Simulated {
            combination: (algorithm, Protocol::Simple),
            channels,
            empty_us: 0.0,
            start_us: f64::from(channels - 1) * self.start_us,
            steps: steps as f64,
            passes: passes as f64,
            in_pieces: swing.in_pieces(),
            us_per_byte: per_byte(seconds / draws as f64),
            copied_us_per_byte: copied_us / RATE_SAMPLE_BYTES,
            even_us_per_byte: per_byte(swing.even_seconds()),
        })
    }

    fn collective(&self, bytes: f64) -> Collective<'_> {
        Collective {
            fabric: self.fabric,
            members: None,
            operation: self.operation,
            bytes,
        }
    }

    pub fn hosts(&self) -> usize {
        self.fabric.endpoints().count()
    }

    /// Returns the time of an empty collective between hosts and within them.
    fn empty_us(&self, algorithm: Algorithm, protocol: Protocol) -> Result<f64, CollectiveError> {
        let costs = Costs {
            start_up: SimTime::from_micros(protocol.step_us(algorithm)).unwrap_or_default(),
            ..Costs::default()
        };
        let network = Network::of(self.fabric, costs);
        let played = collectives::time(
            &self.collective(0.0),
            algorithm,
            &network,
            &Ecmp::default(),
            self.limit,
            &mut |_| true,
        )?;
        Ok(played.time.micros() + self.inside_us(algorithm, protocol))
    }

    /// A ring visits all ranks of each host, a tree crosses them once up and once down.
    fn inside_us(&self, algorithm: Algorithm, protocol: Protocol) -> f64 {
        let others = (self.ranks_per_host.max(1) - 1) as f64;
        let times = match self.operation {
            Operation::AllReduce => 2.0,
            _ => 1.0,
        };
        let steps = match algorithm {
            Algorithm::Tree => others,
            _ => others * self.hosts() as f64,
        };
        times * steps * protocol.inside_us(algorithm)
    }

    /// Around a ring of more ranks, each link carries a little more.
    fn more_on_wires(&self, algorithm: Algorithm) -> f64 {
        let hosts = self.hosts().max(1);
        let factor = |ranks: usize| collectives::bus_factor(self.operation, ranks);
        let simulated = factor(hosts);
        if algorithm == Algorithm::Ring && simulated > 0.0 {
            factor(hosts * self.ranks_per_host.max(1)) / simulated
        } else {
            1.0
        }
    }

    /// Returns the time in which one channel of a rank copies its bytes.
    fn copied_us(&self, bytes: f64) -> f64 {
        let ranks = (self.hosts() * self.ranks_per_host).max(1);
        let sent = collectives::bus_factor(self.operation, ranks) * bytes;
        sent / (self.channel.bits_per_s() as f64 / 8.0 / 1e6)
    }
}
