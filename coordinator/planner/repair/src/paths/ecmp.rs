//! The choice of a switch among equal-cost paths.

use std::net::SocketAddrV4;

use reweave_common::flow::{FlowKey, Protocol};

use super::linux::LinuxHash;

pub(super) const TCP_PROTOCOL: u8 = 6;

/// Hash of a flow's header fields, computed once; each switch combines it with its own value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label(u64);

/// The fields that switches hash. Addresses are the nodes' places in the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fields {
    pub source: u32,
    pub destination: u32,
    pub source_port: u16,
    pub destination_port: u16,
    pub protocol: u8,
}

/// Hash of a fabric's switches. Each seed is another fabric of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ecmp {
    /// A good hash, different in each switch.
    Mixed { seed: u64 },
    /// CRC-32 of the fields, as in many switches, with one seed for all: a switch chooses as the previous one did, so
    /// some of its paths stay unused.
    Crc { seed: u32 },
    /// Linux routers with a common key: next hops in the order of their ports, with equal weights. The address of a
    /// node stands for its position.
    Linux(LinuxHash),
}

impl Default for Ecmp {
    fn default() -> Self {
        Self::Mixed { seed: 0 }
    }
}

impl Ecmp {
    pub fn label(&self, fields: Fields) -> Label {
        match *self {
            Self::Mixed { seed } => {
                let ends = u64::from(fields.source) << 32 | u64::from(fields.destination);
                let ports =
                    u64::from(fields.source_port) << 16 | u64::from(fields.destination_port);
                let rest = ports << 8 | u64::from(fields.protocol);
                Label(mixed(mixed(seed ^ ends) ^ rest))
            }
            Self::Crc { seed } => Label(u64::from(crc32(seed, &fields.octets()))),
            Self::Linux(hash) => {
                // A missing key is reported earlier.
                let position = hash.position(&fields.flow());
                Label(u64::from(position.unwrap_or(0)))
            }
        }
    }

    /// Whether the hash needs addresses, and not only positions of nodes.
    pub fn hashes_addresses(&self) -> bool {
        matches!(self, Self::Linux(_))
    }

    /// The choice among `choices` at a node.
    pub fn choose(&self, node: u32, label: Label, choices: usize) -> usize {
        if choices <= 1 {
            return 0;
        }
        let hash = match self {
            Self::Mixed { .. } => mixed(label.0 ^ u64::from(node).wrapping_mul(GOLDEN_GAMMA)),
            Self::Crc { .. } => label.0,
            Self::Linux(_) => {
                let equal = std::iter::repeat_n(1, choices);
                return LinuxHash::place(label.0 as u32, equal).unwrap_or(0);
            }
        };
        (hash % choices as u64) as usize
    }
}

impl Fields {
    fn flow(self) -> FlowKey {
        let end = |address: u32, port| SocketAddrV4::new(address.into(), port);
        FlowKey {
            protocol: match self.protocol {
                TCP_PROTOCOL => Protocol::Tcp,
                _ => Protocol::Udp,
            },
            source: end(self.source, self.source_port),
            destination: end(self.destination, self.destination_port),
        }
    }

    fn octets(self) -> [u8; 13] {
        let mut octets = [0; 13];
        octets[..4].copy_from_slice(&self.source.to_be_bytes());
        octets[4..8].copy_from_slice(&self.destination.to_be_bytes());
        octets[8..10].copy_from_slice(&self.source_port.to_be_bytes());
        octets[10..12].copy_from_slice(&self.destination_port.to_be_bytes());
        octets[12] = self.protocol;
        octets
    }
}

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finisher of splitmix64.
fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(GOLDEN_GAMMA);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The CRC of Ethernet.
fn crc32(seed: u32, octets: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    let octet = |crc: u32, &octet: &u8| (0..8).fold(crc ^ u32::from(octet), step);
    !octets.iter().fold(!seed, octet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::linux::HashPolicy;

    const HASH_FIELDS: Fields = Fields {
        source: 1,
        destination: 2,
        source_port: 3,
        destination_port: 4,
        protocol: 17,
    };

    #[test]
    fn crc32_matches_ethernet() {
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn hash_is_even_and_per_switch() {
        let ecmp = Ecmp::Mixed { seed: 7 };
        let mut counts = [[0; 4]; 4];
        for source_port in 0..4000 {
            let label = ecmp.label(Fields {
                source_port,
                ..HASH_FIELDS
            });
            let [first, second] = [0, 1].map(|node| ecmp.choose(node, label, 4));
            counts[first][second] += 1;
        }
        for count in counts.as_flattened() {
            assert!((200..300).contains(count), "{counts:?}");
        }
    }

    #[test]
    fn linux_ecmp_matches_address_model() {
        let hash = LinuxHash {
            policy: HashPolicy::Fields,
            seed: 99,
        };
        for source_port in 0..64 {
            let fields = Fields {
                source: u32::from_be_bytes([10, 0, 0, 1]),
                destination: u32::from_be_bytes([10, 0, 0, 9]),
                source_port,
                ..HASH_FIELDS
            };
            let label = Ecmp::Linux(hash).label(fields);
            let chosen = Ecmp::Linux(hash).choose(7, label, 4);
            assert_eq!(Some(chosen), hash.choose(&fields.flow(), &[1; 4]));
        }
    }

    #[test]
    fn shared_hash_chooses_same_everywhere() {
        let ecmp = Ecmp::Crc { seed: 0 };
        let label = ecmp.label(HASH_FIELDS);
        let choices = [0, 1, 2].map(|node| ecmp.choose(node, label, 8));
        assert_eq!(choices, [choices[0]; 3]);
    }
}
