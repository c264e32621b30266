//! Which algorithm, protocol and how many channels suit collectives of each size on a fabric.
//!
//! Rings and trees are simulated on the fabric with what each protocol costs; measurements of
//! nccl-tests, where they are given, shift and stretch the times to what was measured. The table says
//! for each range of sizes what is fastest, in the form that NCCL's tuner plugins read.

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

pub use measured::{Calibration, Measurement, read};

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
    pub calibration: Calibration,
    /// For each simulation.
    pub limit: u64,
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

fn choice(sweep: &Sweep<'_>, bytes: f64) -> Result<Choice, CollectiveError> {
    let mut weighed = Vec::new();
    let able = ALGORITHMS.into_iter().filter(|it| it.does(sweep.operation));
    for (algorithm, protocol) in able.flat_map(|it| PROTOCOLS.map(|protocol| (it, protocol))) {
        let [wire_us, latency_us] = simulated(sweep, bytes, algorithm, protocol)?;
        let time = |channels: u32| {
            let copied_us = copied_us(sweep, bytes, protocol, channels);
            sweep
                .calibration
                .applied(latency_us + wire_us.max(copied_us))
        };
        let least = CHANNELS.into_iter().map(time).fold(f64::INFINITY, f64::min);
        let enough = CHANNELS
            .into_iter()
            .find(|&channels| time(channels) * WORTHWHILE <= least);
        let channels = enough.unwrap_or(1);
        weighed.push((algorithm, protocol, channels, time(channels)));
    }
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

/// What of its time is bytes on the wire, and what of it an empty one takes as well.
fn simulated(
    sweep: &Sweep<'_>,
    bytes: f64,
    algorithm: Algorithm,
    protocol: Protocol,
) -> Result<[f64; 2], CollectiveError> {
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
            &mut |_| (),
        );
        Ok::<_, CollectiveError>(played?.time.micros())
    };
    let (whole, empty) = (time(bytes)?, time(0.0)?);
    Ok([(whole - empty).max(0.0), empty])
}

/// What the channels of one host take to copy its share.
fn copied_us(sweep: &Sweep<'_>, bytes: f64, protocol: Protocol, channels: u32) -> f64 {
    let hosts = sweep.fabric.endpoints().count().max(1);
    let sent = collectives::bus_factor(sweep.operation, hosts) * bytes * protocol.wire_per_byte();
    let each = sweep.channel.bits_per_s() as f64 / 8.0 / 1e6;
    sent / (each * f64::from(channels))
}

/// Ranges between the sizes that were swept: each choice holds up to the middle, on a logarithmic
/// scale, between its size and the next.
pub fn table(choices: &[Choice]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (nth, choice) in choices.iter().enumerate() {
        let middle = |next: &Choice| (choice.bytes * next.bytes).sqrt() as u64;
        let to_bytes = choices.get(nth + 1).map_or(u64::MAX, middle);
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
