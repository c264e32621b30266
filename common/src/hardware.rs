//! The hardware of a host, as far as its traffic depends on it.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::{Bytes, Rate};

/// The capabilities of a NIC, and the negotiated values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Nic")]
pub struct NicReport {
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
    /// Name of the NIC's RDMA device.
    #[serde(deserialize_with = "crate::printable::optional_text")]
    pub rdma: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duplex {
    Half,
    Full,
}

/// Forward error correction of a link.
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
    /// Mega-transfers per second of each lane.
    pub mt_per_s: u32,
    pub lanes: u8,
}

impl Pcie {
    /// Whether the bus is slower than it could be: a bad seat, a bad riser, a wrong slot.
    pub fn is_degraded(&self) -> bool {
        self.now.mt_per_s < self.most.mt_per_s || self.now.lanes < self.most.lanes
    }
}

/// The hardware address of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac([u8; 6]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOfOneNic;

impl fmt::Display for NotOfOneNic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let example = Mac::DEFAULT_FIBRE_MAC;
        write!(f, "a hardware address of one NIC is written like {example}")
    }
}

impl std::error::Error for NotOfOneNic {}

impl Mac {
    /// Default address of all interfaces at fibres. The bits 02 mark an address that no vendor assigns.
    pub const DEFAULT_FIBRE_MAC: Self = Self([0x02, 0xfa, 0xb0, 0, 0, 1]);

    /// Returns `None` for a group address or the zero address.
    pub fn of_one_nic(bytes: [u8; 6]) -> Option<Self> {
        let is_of_group = bytes[0] & 1 == 1;
        (!is_of_group && bytes != [0; 6]).then_some(Self(bytes))
    }

    pub fn bytes(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, end] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{end:02x}")
    }
}

impl FromStr for Mac {
    type Err = NotOfOneNic;

    fn from_str(text: &str) -> Result<Self, NotOfOneNic> {
        let digits = |it: &str| it.len() == 2 && it.bytes().all(|it| it.is_ascii_hexdigit());
        let byte = |it: &str| digits(it).then(|| u8::from_str_radix(it, 16).ok())?;
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let bytes = bytes.and_then(|it| it.try_into().ok());
        bytes.and_then(Self::of_one_nic).ok_or(NotOfOneNic)
    }
}

/// Text in readable formats, and six bytes in binary ones.
impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.collect_str(self)
        } else {
            self.0.serialize(to)
        }
    }
}

/// Accepts any six bytes: a device may report an address that no NIC has.
impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            let text = String::deserialize(from)?;
            return text.parse().map_err(D::Error::custom);
        }
        <[u8; 6]>::deserialize(from).map(Self)
    }
}

/// An interface and its hardware address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareAddress {
    #[serde(deserialize_with = "crate::printable::text")]
    pub interface: String,
    pub address: Mac,
}

/// A host as a whole, without its NICs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub cpus: u32,
    /// Load of all processors, since the previous reading.
    pub cpu_busy_percent: Option<u8>,
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    #[serde(rename = "memory_available_bytes")]
    pub memory_available: Bytes,
    pub numa_nodes: Vec<NumaNode>,
    /// Settings that should be equal on all hosts of a cluster.
    pub settings: Vec<Setting>,
}

/// A setting of a host; if several devices differ, all values.
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

/// The neighbour at the other end of an interface, by LLDP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    #[serde(deserialize_with = "crate::printable::text")]
    pub interface: String,
    /// System name, else the chassis ID.
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
    /// Action by which an operator can enable it.
    #[serde(deserialize_with = "crate::printable::text")]
    pub remedy: String,
}

impl Lack {
    /// Capability that a hardware switch lacks, independent of its agent. Coordinators plan by these texts.
    pub const HARDWARE_PINS: &'static str = "pins in hardware";
    pub const WEIGHTS: &'static str = "weights of routes";
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
    fn bus_degrades_by_speed_or_lanes() {
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

    #[test]
    fn mac_roundtrips_and_must_be_unicast() {
        let text = "02:fa:b0:00:00:01";
        let mac: Mac = text.parse().unwrap();
        assert_eq!((mac.bytes()[1], mac.to_string()), (0xfa, text.to_owned()));
        assert_eq!("02:FA:B0:00:00:01".parse(), Ok(mac));
        for wrong in [
            "",
            "02:fa:b0:00:00",
            "02:fa:b0:00:00:01:02",
            "02:fa:b0:00:00:1",
            "02:fa:b0:00:00:+1",
            "02-fa-b0-00-00-01",
            "00:00:00:00:00:00",
            "ff:ff:ff:ff:ff:ff",
            "01:00:5e:00:00:01",
        ] {
            assert_eq!(wrong.parse::<Mac>(), Err(NotOfOneNic), "{wrong}");
        }
    }
}
