//! NICs of hosts, and the training traffic between them.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::fabric::NicUse;
use crate::pci::{NearGpu, PciAddress};
use crate::units::Rate;

/// A NIC by the fabric's file, with what its host reports. Values that neither has are absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NicStatus {
    pub host: String,
    pub interface: Option<String>,
    /// Number among the host's NICs of this use, from 0.
    pub rail: u16,
    pub plane: Option<u16>,
    #[serde(rename = "use")]
    pub purpose: NicUse,
    pub link: String,
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub address: Option<Ipv4Addr>,
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub pci: Option<PciAddress>,
    /// NUMA node of its slot.
    pub numa: Option<u16>,
    /// GPU that it serves, by the fabric's file.
    pub gpu: Option<u16>,
    /// GPUs with the nearest kind of PCIe path; at most [`NicStatus::MAX_GPUS`].
    pub gpus: Vec<NearGpu>,
    /// Whether its port is up. Absent without a recent report.
    pub up: Option<bool>,
    /// Rate of the NIC by the fabric's file.
    pub capacity_bits_per_s: Rate,
    /// Measured by its counters.
    pub sent_bits_per_s: Option<Rate>,
    pub received_bits_per_s: Option<Rate>,
}

impl NicStatus {
    pub const MAX_GPUS: usize = 16;
}

/// Training traffic between hosts now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PairTraffics {
    /// Pairs with the highest rate first.
    pub pairs: Vec<PairTraffic>,
    /// Number of all pairs; not all of a large cluster are listed.
    pub all_pairs: usize,
}

/// Traffic from one host to another, per rail. Flows of NICs for storage and management are not counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PairTraffic {
    pub from: String,
    pub to: String,
    /// Rail of the sending NIC. Absent if the NIC is unknown, and for traffic that ranks report past the kernel.
    pub rail: Option<u16>,
    /// Number of flows that send now; zero for traffic that ranks report.
    pub flows: usize,
    /// Total rate of these flows.
    pub rate_bits_per_s: Rate,
}
