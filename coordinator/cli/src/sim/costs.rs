//! Options for the cost of sending, and for the hash of switches.

use clap::{Args, ValueEnum};
use reweave_common::units::Rate;
use reweave_repair::paths::ecmp::Ecmp;
use reweave_repair::paths::linux::{HashPolicy, LinuxHash};
use reweave_sim::engine::SimTime;
use reweave_sim::engine::network;

use crate::error::CliError;

#[derive(Debug, Clone, Args)]
pub(crate) struct Costs {
    /// Start-up time of a transfer, in addition to latency
    #[arg(long, value_name = "US", default_value = "0", value_parser = micros)]
    start_up_us: SimTime,
    /// Header bytes per packet; with --packet-bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    header_bytes: u32,
    /// Packet size including headers
    #[arg(long, value_name = "BYTES", default_value_t = 9000)]
    packet_bytes: u32,
    /// Total forwarding rate of a host
    #[arg(long, value_name = "GBPS", value_parser = rate)]
    relay_gbps: Option<Rate>,
    /// Forwarding delay of a host
    #[arg(long, value_name = "US", default_value = "0", value_parser = micros)]
    relay_us: SimTime,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Hashing {
    /// How switches choose among equal-cost paths
    #[arg(long, value_enum, default_value_t = Hash::Mixed)]
    hash: Hash,
    /// Seed of the hash
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Hash {
    /// Each switch uses its own hash
    Mixed,
    /// All switches by one CRC-32
    Crc32,
}

fn micros(text: &str) -> Result<SimTime, String> {
    let micros = text.parse().ok().and_then(SimTime::from_micros);
    micros.ok_or_else(|| "write a time in microseconds, from 0 on".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate = text.parse().ok().and_then(Rate::from_gbps);
    rate.ok_or_else(|| "write a rate in Gb/s".to_owned())
}

impl Costs {
    /// Returns `None` if packets hold nothing but headers.
    pub(super) fn known(&self) -> Option<network::Costs> {
        let payload = self.packet_bytes.checked_sub(self.header_bytes)?;
        (payload > 0).then(|| network::Costs {
            start_up: self.start_up_us,
            wire_per_byte: f64::from(self.packet_bytes) / f64::from(payload),
            relay_rate: self.relay_gbps,
            relay_delay: self.relay_us,
        })
    }
}

impl Hashing {
    pub(crate) fn ecmp(&self) -> Ecmp {
        match self.hash {
            Hash::Mixed => Ecmp::Mixed {
                seed: u64::from(self.seed),
            },
            Hash::Crc32 => Ecmp::Crc { seed: self.seed },
        }
    }

    /// Returns the hash of Linux routers that all have the seed as their key.
    pub(crate) fn linux(&self, policy: HashPolicy) -> Result<Ecmp, CliError> {
        match self.seed {
            0 => Err(CliError::NoKey),
            seed => Ok(Ecmp::Linux(LinuxHash { policy, seed })),
        }
    }
}
