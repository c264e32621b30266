//! What a host is made of, as far as its traffic depends on it.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Rate};

/// What a NIC could do and what it was granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    #[serde(deserialize_with = "crate::printable::text")]
    pub interface: String,
    #[serde(deserialize_with = "crate::printable::optional_text")]
    pub driver: Option<String>,
    #[serde(rename = "speed_bits_per_s")]
    pub speed: Option<Rate>,
    pub duplex: Option<Duplex>,
    pub fec: Option<Fec>,
    pub mtu_bytes: Option<u32>,
    pub pcie: Option<Pcie>,
    pub numa_node: Option<u16>,
    /// The RDMA device that sends over it.
    #[serde(deserialize_with = "crate::printable::optional_text")]
    pub rdma: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duplex {
    Half,
    Full,
}

/// How a link mends its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fec {
    Off,
    /// Firecode, of 10 and 25 Gb/s lanes.
    BaseR,
    ReedSolomon,
    LowLatencyReedSolomon,
}

/// The bus between a NIC and its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pcie {
    pub now: PcieLink,
    pub most: PcieLink,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieLink {
    /// Millions of transfers per second, of each lane.
    pub mt_per_s: u32,
    pub lanes: u8,
}

impl Pcie {
    /// Whether the bus gives less than it could: a bad seat, a bad riser, a wrong slot.
    pub fn is_degraded(&self) -> bool {
        self.now.mt_per_s < self.most.mt_per_s || self.now.lanes < self.most.lanes
    }
}

/// The host around the NICs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub cpus: u32,
    /// Of all processors together, over the time since the reading before.
    pub cpu_busy_percent: Option<u8>,
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    #[serde(rename = "memory_available_bytes")]
    pub memory_available: Bytes,
    pub numa_nodes: Vec<NumaNode>,
    /// What hosts of one cluster should be set alike in.
    pub settings: Vec<Setting>,
}

/// How a host is set: of several devices that differ, all values.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setting {
    #[serde(deserialize_with = "crate::printable::text")]
    pub name: String,
    #[serde(deserialize_with = "crate::printable::text")]
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    pub node: u16,
    pub cpus: u32,
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
}

/// Who said to be at the other end of an interface, by LLDP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    #[serde(deserialize_with = "crate::printable::text")]
    pub interface: String,
    /// The system's name, or else its chassis.
    #[serde(deserialize_with = "crate::printable::text")]
    pub system: String,
    #[serde(deserialize_with = "crate::printable::text")]
    pub port: String,
    pub address: Option<Ipv4Addr>,
}

/// A measurement that cannot be made here.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Lack {
    #[serde(deserialize_with = "crate::printable::text")]
    pub measurement: String,
    #[serde(deserialize_with = "crate::printable::text")]
    pub because: String,
    /// What somebody can do to have it.
    #[serde(deserialize_with = "crate::printable::text")]
    pub remedy: String,
}

impl fmt::Display for PcieLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GT/s x{}", f64::from(self.mt_per_s) / 1e3, self.lanes)
    }
}

impl fmt::Display for Fec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::BaseR => "BaseR",
            Self::ReedSolomon => "RS",
            Self::LowLatencyReedSolomon => "LLRS",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_is_degraded_by_speed_or_by_lanes() {
        let most = PcieLink {
            mt_per_s: 16_000,
            lanes: 16,
        };
        let with = |mt_per_s, lanes| Pcie {
            now: PcieLink { mt_per_s, lanes },
            most,
        };
        assert!(!with(16_000, 16).is_degraded());
        assert!(with(8_000, 16).is_degraded() && with(16_000, 8).is_degraded());
        assert_eq!(with(2_500, 4).now.to_string(), "2.5 GT/s x4");
    }
}
