//! Which algorithm, protocol and how many channels suit collectives of each size on a fabric.
//!
//! Rings and trees among hosts are simulated on the fabric with what each protocol costs; what ranks
//! of one host do among themselves, and how fast channels copy, is added by formula. Measurements of
//! nccl-tests, where they are given, say how many times as long the first byte takes, and the others
//! do: for all combinations, or for the one that was measured. The table says for each range of sizes
//! what is fastest, in the form that NCCL's tuner plugins read.

mod measured;
#[cfg(test)]
mod tests;

use reweave_common::fabric::Fabric;
use reweave_common::iteration::Operation;
use reweave_common::units::Rate;

use crate::collectives::{self, Algorithm, Collective, CollectiveError};
use crate::sim::SimTime;
use crate::sim::ecmp::Ecmp;
use crate::sim::network::{Costs, Network};

pub use measured::{Calibration, Measurement, Printed, Sample, read};

/// How a library marks data as complete. Its costs are those of NCCL's own model of networks.
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
const CHANNELS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// More channels must be so much faster to be worth their processors.
const WORTHWHILE: f64 = 0.99;

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

/// What is swept, and on what.
#[derive(Debug, Clone)]
pub struct Sweep<'f> {
    pub fabric: &'f Fabric,
    pub operation: Operation,
    /// In rising order.
    pub sizes: Vec<f64>,
    /// What one channel copies at most.
    pub channel: Rate,
    pub ranks_per_host: usize,
    pub calibrations: Calibrations,
    /// For each simulation.
    pub limit: u64,
}

/// How a collective is done.
pub type Combination = (Algorithm, Protocol);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibrations {
    /// Of whatever was not measured by itself.
    pub general: Calibration,
    pub of: Vec<(Combination, Calibration)>,
}

impl Calibrations {
    fn of(&self, combination: Combination) -> Calibration {
        let own = self.of.iter().find(|(of, _)| *of == combination);
        own.map_or(self.general, |(_, calibration)| *calibration)
    }
}

/// What is fastest for one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub bytes: f64,
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    pub channels: u32,
    pub time_us: f64,
    /// Of all that was weighed, with the fewest channels that do.
    pub weighed: Vec<(Algorithm, Protocol, u32, f64)>,
}

/// A range of sizes with one choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub from_bytes: u64,
    /// Included.
    pub to_bytes: u64,
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    pub channels: u32,
}

/// The fastest of all combinations, size by size.
pub fn sweep(sweep: &Sweep<'_>) -> Result<Vec<Choice>, CollectiveError> {
    sweep
        .sizes
        .iter()
        .map(|&bytes| choice(sweep, bytes))
        .collect()
}

/// How often what is fastest is looked for anew with the fit that its measurements gave.
const MOST_FITS: usize = 4;

/// What a run says of the simulated times: of one combination, if the library was bound to it; else
/// of what it will have chosen by itself, the fastest as far as the sweep knows. None of nothing.
pub fn calibrate(
    sweep: &Sweep<'_>,
    measured: &[Measurement],
    only: Option<Combination>,
) -> Result<Option<Calibration>, CollectiveError> {
    let sizes = measured.iter().map(|it| simulated_all(sweep, it.bytes));
    let sizes: Vec<_> = sizes.collect::<Result<_, _>>()?;
    let mut fitted = None;
    for _ in 0..MOST_FITS {
        let calibrations = Calibrations {
            general: fitted.unwrap_or_default(),
            of: Vec::new(),
        };
        let samples = sizes
            .iter()
            .zip(measured)
            .filter_map(|(simulated, measured)| {
                let done = |it: &&Simulated| only.is_none_or(|only| it.combination == only);
                let weighed = simulated.iter().filter(done);
                let weighed = weighed.map(|it| (it, it.channels(&calibrations)));
                let (fastest, (channels, _)) =
                    weighed.reduce(|a, b| if b.1.1 < a.1.1 { b } else { a })?;
                Some(Sample {
                    latency_us: fastest.latency_us,
                    wire_us: fastest.bytes_us(channels),
                    measured_us: measured.time_us,
                })
            });
        let next = Calibration::fit(&samples.collect::<Vec<_>>());
        if next == fitted {
            break;
        }
        fitted = next;
    }
    Ok(fitted)
}

fn choice(sweep: &Sweep<'_>, bytes: f64) -> Result<Choice, CollectiveError> {
    let simulated = simulated_all(sweep, bytes)?;
    let weighed = simulated.iter().map(|it| {
        let (algorithm, protocol) = it.combination;
        let (channels, time_us) = it.channels(&sweep.calibrations);
        (algorithm, protocol, channels, time_us)
    });
    let weighed: Vec<_> = weighed.collect();
    let fastest = weighed
        .iter()
        .copied()
        .reduce(|a, b| if b.3 < a.3 { b } else { a });
    let none = CollectiveError::NotDone {
        operation: sweep.operation,
        by: Algorithm::Ring,
    };
    let (algorithm, protocol, channels, time_us) = fastest.ok_or(none)?;
    Ok(Choice {
        bytes,
        algorithm,
        protocol,
        channels,
        time_us,
        weighed,
    })
}

/// One combination for one size.
struct Simulated {
    combination: Combination,
    /// What an empty one takes as well.
    latency_us: f64,
    /// What the bytes take on links, and what one channel takes to copy them.
    wire_us: f64,
    copied_us: f64,
}

impl Simulated {
    fn bytes_us(&self, channels: u32) -> f64 {
        self.wire_us.max(self.copied_us / f64::from(channels))
    }

    /// The fewest that do, and how long it takes with these.
    fn channels(&self, calibrations: &Calibrations) -> (u32, f64) {
        let calibration = calibrations.of(self.combination);
        let time = |channels: u32| calibration.applied(self.latency_us, self.bytes_us(channels));
        let least = CHANNELS.into_iter().map(time).fold(f64::INFINITY, f64::min);
        let enough = CHANNELS
            .into_iter()
            .find(|&channels| time(channels) * WORTHWHILE <= least);
        let channels = enough.unwrap_or(1);
        (channels, time(channels))
    }
}

fn simulated_all(sweep: &Sweep<'_>, bytes: f64) -> Result<Vec<Simulated>, CollectiveError> {
    let able = ALGORITHMS.into_iter().filter(|it| it.does(sweep.operation));
    let combinations = able.flat_map(|it| PROTOCOLS.map(|protocol| (it, protocol)));
    combinations.map(|it| simulated(sweep, bytes, it)).collect()
}

fn simulated(
    sweep: &Sweep<'_>,
    bytes: f64,
    (algorithm, protocol): Combination,
) -> Result<Simulated, CollectiveError> {
    let costs = Costs {
        start_up: SimTime::from_micros(protocol.step_us(algorithm)).unwrap_or_default(),
        wire_per_byte: protocol.wire_per_byte(),
        relay_rate: None,
        relay_delay: SimTime::ZERO,
    };
    let network = Network::of(sweep.fabric, costs);
    let time = |bytes| {
        let collective = Collective {
            fabric: sweep.fabric,
            members: None,
            operation: sweep.operation,
            bytes,
        };
        let played = collectives::time(
            &collective,
            algorithm,
            &network,
            &Ecmp::default(),
            sweep.limit,
            &mut |_| true,
        );
        Ok::<_, CollectiveError>(played?.time.micros())
    };
    let (whole, empty) = (time(bytes)?, time(0.0)?);
    Ok(Simulated {
        combination: (algorithm, protocol),
        latency_us: empty + inside_us(sweep, algorithm, protocol),
        wire_us: (whole - empty).max(0.0) * more_on_wires(sweep, algorithm),
        copied_us: copied_us(sweep, bytes, protocol),
    })
}

/// A ring comes by all ranks of each host, a tree goes through them once up and once down.
fn inside_us(sweep: &Sweep<'_>, algorithm: Algorithm, protocol: Protocol) -> f64 {
    let others = (sweep.ranks_per_host.max(1) - 1) as f64;
    let hosts = sweep.fabric.endpoints().count() as f64;
    let times = if sweep.operation == Operation::AllReduce {
        2.0
    } else {
        1.0
    };
    let steps = match algorithm {
        Algorithm::Tree => others,
        _ => others * hosts,
    };
    times * steps * protocol.inside_us(algorithm)
}

/// Around a ring of more ranks, each link carries a little more.
fn more_on_wires(sweep: &Sweep<'_>, algorithm: Algorithm) -> f64 {
    let hosts = sweep.fabric.endpoints().count().max(1);
    let factor = |ranks: usize| collectives::bus_factor(sweep.operation, ranks);
    let simulated = factor(hosts);
    match algorithm == Algorithm::Ring && simulated > 0.0 {
        true => factor(hosts * sweep.ranks_per_host.max(1)) / simulated,
        false => 1.0,
    }
}

/// What one channel of a rank takes to copy its share.
fn copied_us(sweep: &Sweep<'_>, bytes: f64, protocol: Protocol) -> f64 {
    let ranks = (sweep.fabric.endpoints().count() * sweep.ranks_per_host).max(1);
    let sent = collectives::bus_factor(sweep.operation, ranks) * bytes * protocol.wire_per_byte();
    sent / (sweep.channel.bits_per_s() as f64 / 8.0 / 1e6)
}

/// Ranges between the sizes that were swept: each choice holds up to the middle, on a logarithmic
/// scale, between its size and the next. Of what is larger than the largest nothing is said.
pub fn table(choices: &[Choice]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (nth, choice) in choices.iter().enumerate() {
        let middle = |next: &Choice| (choice.bytes * next.bytes).sqrt() as u64;
        let to_bytes = choices.get(nth + 1).map_or(choice.bytes as u64, middle);
        let same = |row: &&mut Row| {
            (row.algorithm, row.protocol, row.channels)
                == (choice.algorithm, choice.protocol, choice.channels)
        };
        match rows.last_mut().filter(same) {
            Some(row) => row.to_bytes = to_bytes,
            None => rows.push(Row {
                from_bytes: rows.last().map_or(0, |row| row.to_bytes + 1),
                to_bytes,
                algorithm: choice.algorithm,
                protocol: choice.protocol,
                channels: choice.channels,
            }),
        }
    }
    rows
}

/// The rows as NCCL's tuner plugins read them: collective, least and most bytes, algorithm,
/// protocol, channels, nodes, ranks, and two columns that shall not matter.
pub fn csv(operation: Operation, hosts: usize, ranks: usize, rows: &[Row]) -> String {
    let collective = operation.name().replace('-', "");
    let line = |row: &Row| {
        let Row {
            from_bytes,
            to_bytes,
            algorithm,
            protocol,
            channels,
        } = row;
        let protocol = protocol.word();
        format!(
            "{collective},{from_bytes},{to_bytes},{algorithm},{protocol},{channels},{hosts},{ranks},-1,-1\n"
        )
    };
    rows.iter().map(line).collect()
}
