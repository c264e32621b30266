//! Best algorithm, protocol and number of channels for collectives of each size on a fabric.
//!
//! Rings and trees among hosts are simulated on the fabric with the costs of each protocol, for an increasing number of
//! channels: each channel has flows of its own, which hashes spread, and takes time to start at every step. Transfers
//! within a host are added by formula. Measurements of nccl-tests, if given, calibrate the time to the first byte, the
//! starts of further channels, and the time per byte. The table has the fastest choice for each range of sizes, with
//! the reason for the number of channels, in the format of NCCL's tuner plugins.

mod measured;
mod simulated;
#[cfg(test)]
mod tests;
mod why;

use reweave_common::iteration::Operation;

use crate::collectives::{Algorithm, CollectiveError};

pub use measured::{Calibration, Measurement, Printed, read};
pub use simulated::Ground;
pub use why::{Because, Rival, Why};

use measured::Sample;
use simulated::Simulated;

/// Protocol by which a library marks data as complete. Costs are from NCCL's own model of networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A flag beside every four bytes: no waiting, and half of the bandwidth.
    LowLatency,
    /// A flag in every 128 bytes.
    LowLatency128,
    /// Whole buffers, and a fence.
    Simple,
}

pub const PROTOCOLS: [Protocol; 3] = [
    Protocol::LowLatency,
    Protocol::LowLatency128,
    Protocol::Simple,
];
pub const ALGORITHMS: [Algorithm; 2] = [Algorithm::Ring, Algorithm::Tree];
/// Default numbers of channels that are tried.
pub const DEFAULT_CHANNEL_COUNTS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// More channels must be so much faster to be worth their processors.
const MAX_WORTHWHILE_RATIO: f64 = 0.99;

impl Protocol {
    pub fn word(self) -> &'static str {
        match self {
            Self::LowLatency => "ll",
            Self::LowLatency128 => "ll128",
            Self::Simple => "simple",
        }
    }

    /// Before each step, in microseconds.
    fn step_us(self, algorithm: Algorithm) -> f64 {
        let tree = algorithm == Algorithm::Tree;
        match (self, tree) {
            (Self::LowLatency, false) => 2.7,
            (Self::LowLatency, true) => 5.0,
            (Self::LowLatency128, false) => 4.0,
            (Self::LowLatency128, true) => 8.5,
            (Self::Simple, _) => 14.0,
        }
    }

    /// The same between ranks of one host.
    fn inside_us(self, algorithm: Algorithm) -> f64 {
        let tree = algorithm == Algorithm::Tree;
        match (self, tree) {
            (Self::LowLatency, _) => 0.6,
            (Self::LowLatency128, false) => 1.9,
            (Self::LowLatency128, true) => 1.25,
            (Self::Simple, false) => 3.4,
            (Self::Simple, true) => 4.0,
        }
    }

    fn wire_per_byte(self) -> f64 {
        match self {
            Self::LowLatency => 2.0,
            Self::LowLatency128 => 128.0 / 120.0,
            Self::Simple => 1.0,
        }
    }
}

/// Algorithm and protocol of a collective.
pub type Combination = (Algorithm, Protocol);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibrations {
    /// Calibration of combinations without measurements of their own.
    pub general: Calibration,
    pub of: Vec<(Combination, Calibration)>,
}

impl Calibrations {
    fn of(&self, combination: Combination) -> &Calibration {
        let own = self.of.iter().find(|(of, _)| *of == combination);
        own.map_or(&self.general, |(_, calibration)| calibration)
    }
}

/// Measurements, with the settings of the library.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    pub lines: Vec<Measurement>,
    pub combination: Option<Combination>,
    pub channels: Option<u32>,
}

/// Time of one combination.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighed {
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    pub channels: u32,
    pub time_us: f64,
}

/// Fastest choice for one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub bytes: f64,
    pub best: Weighed,
    pub why: Why,
    /// All weighed combinations.
    pub weighed: Vec<Weighed>,
}

/// A range of sizes with one choice.
#[derive(Debug, Clone, PartialEq)]
pub struct TuningRow {
    pub from_bytes: u64,
    /// Included.
    pub to_bytes: u64,
    /// Choice for the largest weighed size of the range.
    pub choice: Choice,
}

/// Everything simulated that a table needs.
#[derive(Debug)]
pub struct Survey {
    operation: Operation,
    all: Vec<Simulated>,
}

/// Maximum number of repetitions of the search with the new calibration.
const MAX_FITS: usize = 4;

impl Survey {
    pub fn of(ground: &Ground<'_>) -> Result<Self, CollectiveError> {
        Ok(Self {
            operation: ground.operation,
            all: ground.simulated()?,
        })
    }

    /// The fastest of all combinations, size by size; sizes are in rising order.
    pub fn sweep(
        &self,
        sizes: &[f64],
        calibrations: &Calibrations,
    ) -> Result<Vec<Choice>, CollectiveError> {
        let choices = sizes.iter().map(|&bytes| {
            self.choice(bytes, calibrations)
                .ok_or(CollectiveError::NotDone {
                    operation: self.operation,
                    by: Algorithm::Ring,
                })
        });
        choices.collect()
    }

    fn choice(&self, bytes: f64, calibrations: &Calibrations) -> Option<Choice> {
        let all = self.all.iter();
        let weighed = all.map(|it| weighed(it, bytes, calibrations));
        let weighed: Vec<_> = weighed.collect();
        let fastest = weighed.iter().copied().reduce(quicker)?;
        let is_alike =
            |it: &Weighed| (it.algorithm, it.protocol) == (fastest.algorithm, fastest.protocol);
        let enough =
            |it: &Weighed| is_alike(it) && it.time_us * MAX_WORTHWHILE_RATIO <= fastest.time_us;
        let best = weighed.iter().copied().find(enough)?;
        let alike = self.all.iter().zip(&weighed).filter(|(_, it)| is_alike(it));
        let why = Why::of(
            bytes,
            best.channels,
            &alike.collect::<Vec<_>>(),
            calibrations,
        )?;
        Some(Choice {
            bytes,
            best,
            why,
            weighed,
        })
    }

    /// Returns the calibration from runs of one combination, or of the library's own choice, which is assumed to be the
    /// fastest known one. None without runs.
    pub fn calibrate(&self, runs: &[Run]) -> Option<Calibration> {
        let mut fitted = None;
        for _ in 0..MAX_FITS {
            let calibrations = Calibrations {
                general: fitted.unwrap_or_default(),
                of: Vec::new(),
            };
            let samples = runs.iter().flat_map(|run| {
                let lines = run.lines.iter();
                lines.filter_map(|line| self.sample(run, line, &calibrations))
            });
            let next = Calibration::fit(&samples.collect::<Vec<_>>());
            if next == fitted {
                break;
            }
            fitted = next;
        }
        fitted
    }

    fn sample(&self, run: &Run, line: &Measurement, by: &Calibrations) -> Option<Sample> {
        let done = |it: &&Simulated| {
            run.combination.is_none_or(|only| it.combination == only)
                && run.channels.is_none_or(|only| it.channels == only)
        };
        let done = self.all.iter().filter(done);
        let timed = done.map(|it| (it, weighed(it, line.bytes, by)));
        let (fastest, _) = timed.reduce(|a, b| if b.1.time_us < a.1.time_us { b } else { a })?;
        Some(Sample {
            parts: fastest.parts(line.bytes, by.of(fastest.combination)),
            measured_us: line.time_us,
        })
    }
}

fn quicker(a: Weighed, b: Weighed) -> Weighed {
    if b.time_us < a.time_us { b } else { a }
}

fn weighed(simulated: &Simulated, bytes: f64, calibrations: &Calibrations) -> Weighed {
    let (algorithm, protocol) = simulated.combination;
    let calibration = calibrations.of(simulated.combination);
    Weighed {
        algorithm,
        protocol,
        channels: simulated.channels,
        time_us: calibration.applied(&simulated.parts(bytes, calibration)),
    }
}

impl Choice {
    fn is_like(&self, other: &Self) -> bool {
        let how = |it: &Self| (it.best.algorithm, it.best.protocol, it.best.channels);
        how(self) == how(other)
    }
}

/// Returns ranges around the swept sizes: each choice holds up to the logarithmic middle between its size and the next.
/// Larger sizes are left out.
pub fn table(choices: &[Choice]) -> Vec<TuningRow> {
    let mut rows: Vec<TuningRow> = Vec::new();
    for (nth, choice) in choices.iter().enumerate() {
        let middle = |next: &Choice| (choice.bytes * next.bytes).sqrt() as u64;
        let to_bytes = choices.get(nth + 1).map_or(choice.bytes as u64, middle);
        let choice = choice.clone();
        match rows.last_mut().filter(|row| row.choice.is_like(&choice)) {
            Some(row) => (row.to_bytes, row.choice) = (to_bytes, choice),
            None => rows.push(TuningRow {
                from_bytes: rows.last().map_or(0, |row| row.to_bytes + 1),
                to_bytes,
                choice,
            }),
        }
    }
    rows
}

/// The rows as NCCL's tuner plugins read them: collective, least and most bytes, algorithm, protocol, channels, nodes,
/// ranks, and two columns without effect. Above each, as a remark, why it is this many channels.
pub fn csv(operation: Operation, hosts: usize, ranks: usize, rows: &[TuningRow]) -> String {
    let collective = operation.name().replace('-', "");
    let lines = rows.iter().map(|row| {
        let TuningRow {
            from_bytes,
            to_bytes,
            choice: Choice {
                bytes, best, why, ..
            },
        } = row;
        let Weighed {
            algorithm,
            protocol,
            channels,
            ..
        } = best;
        let protocol = protocol.word();
        format!(
            "# {bytes} bytes: {why}\n\
             {collective},{from_bytes},{to_bytes},{algorithm},{protocol},{channels},{hosts},{ranks},-1,-1\n"
        )
    });
    lines.collect()
}
