//! Places of NICs in the PCI tree of a host.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The address of a PCI function, such as `0000:18:00.0`: domain, bus, device and function. The order is the bus order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    /// Five bits of device and three of function, as the kernel's `devfn`.
    devfn: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotPciAddress;

impl fmt::Display for NotPciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the address of a PCI function is written like 0000:18:00.0")
    }
}

impl std::error::Error for NotPciAddress {}

impl PciAddress {
    pub fn new(domain: u32, bus: u8, devfn: u8) -> Self {
        Self { domain, bus, devfn }
    }

    fn parse(text: &str) -> Option<Self> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        // Volume management devices have domains from 10000 on.
        let domain = hex(domain, &(4..=8))?;
        let bus = hex(bus, &(2..=2))?;
        let device = hex(device, &(2..=2)).filter(|it| *it < 32)?;
        let function = hex(function, &(1..=1)).filter(|it| *it < 8)?;
        Some(Self {
            domain,
            bus: u8::try_from(bus).ok()?,
            devfn: u8::try_from((device << 3) | function).ok()?,
        })
    }
}

fn hex(text: &str, digits: &RangeInclusive<usize>) -> Option<u32> {
    let is_hex = text.bytes().all(|it| it.is_ascii_hexdigit());
    let is_number = is_hex && digits.contains(&text.len());
    is_number.then(|| u32::from_str_radix(text, 16).ok())?
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, devfn } = self;
        let [device, function] = [devfn >> 3, devfn & 7];
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl FromStr for PciAddress {
    type Err = NotPciAddress;

    fn from_str(text: &str) -> Result<Self, NotPciAddress> {
        Self::parse(text).ok_or(NotPciAddress)
    }
}

/// Text in readable formats, and three numbers in binary ones.
impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.collect_str(self)
        } else {
            (self.domain, self.bus, self.devfn).serialize(to)
        }
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            let text = String::deserialize(from)?;
            return text.parse().map_err(D::Error::custom);
        }
        let (domain, bus, devfn) = <(u32, u8, u8)>::deserialize(from)?;
        Ok(Self::new(domain, bus, devfn))
    }
}

/// The kind of path between two PCI functions, the nearest first, by the names of NCCL and `nvidia-smi topo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PciPath {
    /// Through one PCIe switch.
    Pix,
    /// Through several PCIe switches.
    Pxb,
    /// Through the host bridges of one NUMA node.
    Phb,
    /// Through the interconnect between NUMA nodes.
    Sys,
}

impl fmt::Display for PciPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
        })
    }
}

/// A GPU, as seen from a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NearGpu {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub pci: PciAddress,
    /// Its driver's number, else its place in bus order.
    pub index: u16,
    pub path: PciPath,
    /// Number of PCIe switches and NUMA nodes on the path.
    pub hops: u8,
}

/// Where a NIC sits in its host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicPlace {
    #[serde(deserialize_with = "crate::printable::text")]
    pub interface: String,
    pub pci: PciAddress,
    /// Unknown on machines with one node, and in many virtual ones.
    pub numa: Option<u16>,
    /// The GPUs with the nearest kind of path, those with the fewest hops first. At most [`NicPlace::MAX_GPUS`].
    #[serde(deserialize_with = "few_gpus")]
    pub gpus: Vec<NearGpu>,
}

impl NicPlace {
    /// More than any host has.
    pub const MAX_GPUS: usize = 64;
}

fn few_gpus<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NearGpu>, D::Error> {
    let gpus = Vec::<NearGpu>::deserialize(from)?;
    if gpus.len() > NicPlace::MAX_GPUS {
        let most = format!("at most {} GPUs near a NIC", NicPlace::MAX_GPUS);
        return Err(D::Error::invalid_length(gpus.len(), &most.as_str()));
    }
    Ok(gpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_address_roundtrips_in_bus_order() {
        let ordered = [
            "0000:18:00.0",
            "0000:18:1f.7",
            "0000:9d:00.0",
            "10000:e1:00.0",
        ];
        let addresses = ordered.map(|text| text.parse::<PciAddress>().unwrap());
        assert_eq!(addresses.map(|it| it.to_string()), ordered);
        assert!(addresses.is_sorted());
        assert_eq!("0000:9D:00.0".parse(), Ok(addresses[2]));
    }

    #[test]
    fn other_folders_are_no_addresses() {
        for wrong in [
            "",
            "pci0000:15",
            "0000:18:00",
            "000:18:00.0",
            "000000000:18:00.0",
            "0000:118:00.0",
            "0000:18:20.0",
            "0000:18:00.8",
            "0000:18:00.00",
            "0000:+1:00.0",
            "1-1:1.0",
            "LNXSYSTM:00",
        ] {
            assert_eq!(wrong.parse::<PciAddress>(), Err(NotPciAddress), "{wrong}");
        }
    }

    #[test]
    fn place_with_many_gpus_is_refused() {
        let gpu = NearGpu {
            pci: PciAddress::new(0, 0x1b, 0),
            index: 0,
            path: PciPath::Pix,
            hops: 1,
        };
        let decoded = |gpus: usize| {
            let place = NicPlace {
                gpus: vec![gpu; gpus],
                ..NicPlace::default()
            };
            let text = serde_json::to_string(&place).unwrap();
            serde_json::from_str::<NicPlace>(&text).map(|it| it.gpus.len())
        };
        assert_eq!(decoded(NicPlace::MAX_GPUS).ok(), Some(NicPlace::MAX_GPUS));
        let error = decoded(NicPlace::MAX_GPUS + 1).unwrap_err();
        assert!(error.to_string().contains("at most 64 GPUs"), "{error}");
    }
}
