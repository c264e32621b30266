//! RDMA between hosts: its ports, and measurements between hosts.

mod helper;

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::probing::Stamps;
use crate::time_span::TimeSpan;
use crate::units::{Bytes, Rate};

pub use helper::{Answer, MAX_LINE_BYTES, Request};

/// TCP port on which hosts negotiate an RDMA measurement, the same number as the UDP port of probes.
pub const RDMA_PORT: u16 = crate::probing::PROBE_PORT;

/// A port as its NIC describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaPort {
    #[serde(deserialize_with = "crate::printable::text")]
    pub device: String,
    pub port: u8,
    pub up: bool,
    pub layer: LinkLayer,
    #[serde(rename = "speed_bits_per_s")]
    pub speed: Option<Rate>,
    /// Active and maximum MTU in bytes.
    pub mtu_bytes: u32,
    pub most_mtu_bytes: u32,
    /// Clock of the completion timestamps.
    pub stamps: Stamps,
    pub gids: Vec<Gid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkLayer {
    Infiniband,
    Ethernet,
}

/// An address of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gid {
    pub index: u32,
    pub kind: GidKind,
    pub bytes: [u8; 16],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GidKind {
    Infiniband,
    RoceV1,
    /// In UDP, so routers can forward it.
    RoceV2,
}

/// The transport of queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Unreliable datagrams: they are never resent, and the NIC stamps their departure.
    Ud,
    /// Reliable connections, as training jobs use them.
    Rc,
}

/// The result of one measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RdmaReading {
    Latency(RdmaLatency),
    Bandwidth(RdmaBandwidth),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaLatency {
    pub peer: Ipv4Addr,
    pub transport: Transport,
    pub sent: u32,
    pub lost: u32,
    /// Round-trip time without the time at the responder; absent without an answer.
    pub network: Option<Times>,
    pub responder: Option<Times>,
    /// The worse source of both sides.
    pub stamps: Stamps,
}

/// The distribution of durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    #[serde(rename = "least_ns", with = "crate::nanos")]
    pub least: TimeSpan,
    #[serde(rename = "median_ns", with = "crate::nanos")]
    pub median: TimeSpan,
    #[serde(rename = "p99_ns", with = "crate::nanos")]
    pub p99: TimeSpan,
    #[serde(rename = "most_ns", with = "crate::nanos")]
    pub most: TimeSpan,
}

/// Writes over a connection, from the start of the first to the acknowledgement of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaBandwidth {
    pub peer: Ipv4Addr,
    pub bytes: Bytes,
    #[serde(rename = "took_ns", with = "crate::nanos")]
    pub took: TimeSpan,
}

impl RdmaReading {
    pub fn peer(&self) -> Ipv4Addr {
        match self {
            Self::Latency(it) => it.peer,
            Self::Bandwidth(it) => it.peer,
        }
    }

    /// Returns none for bandwidth.
    pub fn transport(&self) -> Option<Transport> {
        match self {
            Self::Latency(it) => Some(it.transport),
            Self::Bandwidth(_) => None,
        }
    }
}

impl RdmaPort {
    /// Returns the routable address of the port that is made from this IPv4 address.
    pub fn gid_of(&self, address: Ipv4Addr) -> Option<&Gid> {
        let mut gids = self.gids.iter();
        gids.find(|gid| gid.kind == GidKind::RoceV2 && gid.address() == Some(address))
    }
}

impl Gid {
    /// Returns the IPv4 address that it is made from, if any.
    pub fn address(&self) -> Option<Ipv4Addr> {
        std::net::Ipv6Addr::from(self.bytes).to_ipv4_mapped()
    }
}

impl Times {
    /// Returns none without durations.
    pub fn of(mut durations: Vec<TimeSpan>) -> Option<Self> {
        durations.sort_unstable();
        // The smallest value that at least this percentage does not exceed.
        let rank = |percent: usize| (durations.len() * percent).div_ceil(100).max(1) - 1;
        let at = |percent| durations.get(rank(percent)).copied();
        Some(Self {
            least: *durations.first()?,
            median: at(50)?,
            p99: at(99)?,
            most: *durations.last()?,
        })
    }
}

impl RdmaBandwidth {
    pub fn rate(&self) -> Rate {
        Rate::mean(self.bytes, *self.took)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Some(address) => address.fmt(f),
            None => std::net::Ipv6Addr::from(self.bytes).fmt(f),
        }
    }
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Infiniband => "InfiniBand",
            Self::Ethernet => "Ethernet",
        })
    }
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Infiniband => "IB",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
        })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ud => "UD",
            Self::Rc => "RC",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: impl IntoIterator<Item = u64>) -> Option<Times> {
        let durations = micros.into_iter().map(TimeSpan::from_micros);
        Times::of(durations.collect())
    }

    #[test]
    fn percentiles_are_upper_bounds() {
        let times = micros((1..=200).rev()).unwrap();
        let shown = [times.least, times.median, times.p99, times.most];
        assert_eq!(shown.map(|it| it.as_micros()), [1, 100, 198, 200]);
        let one = micros([7]).unwrap();
        assert_eq!(one.least, one.p99);
        assert_eq!(micros([]), None);
    }

    #[test]
    fn only_routable_gid_is_chosen() {
        let gid = |index, kind, bytes: Ipv4Addr| Gid {
            index,
            kind,
            bytes: bytes.to_ipv6_mapped().octets(),
        };
        let host = Ipv4Addr::new(10, 0, 0, 4);
        let port = RdmaPort {
            device: "rxe0".to_owned(),
            port: 1,
            up: true,
            layer: LinkLayer::Ethernet,
            speed: None,
            mtu_bytes: 1024,
            most_mtu_bytes: 4096,
            stamps: Stamps::Program,
            gids: vec![
                gid(0, GidKind::RoceV1, host),
                gid(1, GidKind::RoceV2, Ipv4Addr::LOCALHOST),
                gid(2, GidKind::RoceV2, host),
            ],
        };
        assert_eq!(port.gid_of(host).map(|gid| gid.index), Some(2));
        assert_eq!(port.gid_of(Ipv4Addr::UNSPECIFIED), None);
        assert_eq!(port.gids[2].to_string(), "10.0.0.4");
    }
}
