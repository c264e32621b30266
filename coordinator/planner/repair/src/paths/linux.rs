//! The choice of Linux routers among the next hops of a route.
//!
//! The kernel hashes a flow's fields with SipHash under a key. The next hops divide the range of the hash by their
//! weights. By default the key is random at boot, and choices cannot be predicted. With
//! `net.ipv4.fib_multipath_hash_seed`, the key is derived from that value, and the choices can be computed here.

use std::hash::Hasher;

use reweave_common::flow::{FlowKey, Protocol};
use siphasher::sip::SipHasher24;

/// `net.ipv4.fib_multipath_hash_policy` of a router, as far as it distinguishes connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashPolicy {
    /// 0: addresses alone.
    Addresses,
    /// 1: addresses, protocol and ports.
    Ports,
    /// 3 with `fib_multipath_hash_fields` 0x37: the same fields, hashed twice.
    Fields,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinuxHash {
    pub policy: HashPolicy,
    /// `net.ipv4.fib_multipath_hash_seed`; 0 stands for an unknown key.
    pub seed: u32,
}

impl LinuxHash {
    /// The place among next hops of these weights; nothing when the key is not known, or no next hop
    /// takes anything.
    pub fn choose(&self, flow: &FlowKey, weights: &[u32]) -> Option<usize> {
        Self::place(self.position(flow)?, weights.iter().copied())
    }

    /// Returns the position of a flow in the range, the same at each router with this key.
    pub fn position(&self, flow: &FlowKey) -> Option<u32> {
        (self.seed != 0).then(|| self.hash(flow) >> 1)
    }

    /// Whose part of the line that is.
    pub fn place(position: u32, weights: impl Iterator<Item = u32> + Clone) -> Option<usize> {
        let position = u64::from(position);
        let total: u64 = weights.clone().map(u64::from).sum();
        let mut below = 0;
        let mut weights = weights;
        weights.position(|weight| {
            below += u64::from(weight);
            // The kernel rounds to the nearest, and a next hop without weight has no part.
            let bound = ((below << 31) + total / 2).checked_div(total);
            weight > 0 && bound.is_some_and(|bound| position < bound)
        })
    }

    fn hash(&self, flow: &FlowKey) -> u32 {
        let hash = self.fields_hashed(flow);
        match self.policy {
            // There the kernel mixes in a hash of inner headers, which plain packets do not have.
            HashPolicy::Fields => two_words(hash, 0),
            HashPolicy::Addresses | HashPolicy::Ports => hash,
        }
    }

    fn fields_hashed(&self, flow: &FlowKey) -> u32 {
        let key = u64::from(self.seed) << 32 | u64::from(self.seed);
        let mut hasher = SipHasher24::new_with_keys(key, key);
        hasher.write(&self.keys(flow));
        match hasher.finish() as u32 {
            0 => 1,
            hash => hash,
        }
    }

    /// Returns the kernel's `struct flow_keys` from its `basic` field on. Both directions of a flow hash equally: the
    /// smaller end comes first, as a little-endian machine compares them.
    fn keys(&self, flow: &FlowKey) -> [u8; 48] {
        let mut keys = [0; 48];
        let mut addresses = [flow.source, flow.destination].map(|end| end.ip().octets());
        addresses.sort_by_key(|octets| u32::from_le_bytes(*octets));
        keys[36..40].copy_from_slice(&addresses[0]);
        keys[40..44].copy_from_slice(&addresses[1]);
        if self.policy != HashPolicy::Addresses {
            let mut ports = [flow.source, flow.destination].map(|end| end.port().to_be_bytes());
            ports.sort_by_key(|octets| u16::from_le_bytes(*octets));
            keys[28..30].copy_from_slice(&ports[0]);
            keys[30..32].copy_from_slice(&ports[1]);
            keys[2] = match flow.protocol {
                Protocol::Tcp => 6,
                Protocol::Udp => 17,
            };
        }
        keys
    }
}

/// Bob Jenkins' hash of two words, as the kernel's `jhash_2words` with no initial value.
fn two_words(a: u32, b: u32) -> u32 {
    const JHASH_INITIAL: u32 = 0xdead_beef + (2 << 2);
    let [mut a, mut b, mut c] = [
        a.wrapping_add(JHASH_INITIAL),
        b.wrapping_add(JHASH_INITIAL),
        JHASH_INITIAL,
    ];
    for (into, from, by) in [
        (2, 1, 14),
        (0, 2, 11),
        (1, 0, 25),
        (2, 1, 16),
        (0, 2, 4),
        (1, 0, 14),
        (2, 1, 24),
    ] {
        let word = [a, b, c][from];
        let target = match into {
            0 => &mut a,
            1 => &mut b,
            _ => &mut c,
        };
        *target = (*target ^ word).wrapping_sub(word.rotate_left(by));
    }
    c
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use super::*;

    fn flow(port: u16) -> FlowKey {
        FlowKey {
            protocol: Protocol::Udp,
            source: SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 7), port),
            destination: SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, 5), 4791),
        }
    }

    fn chosen(policy: HashPolicy, weights: &[u32]) -> String {
        let hash = LinuxHash {
            policy,
            seed: 12345,
        };
        let chosen = (7400..7432).map(|port| hash.choose(&flow(port), weights).unwrap());
        chosen.map(|place| place.to_string()).collect()
    }

    /// Output of `ip route get` on Linux 6.18 for source ports 7400 to 7431.
    #[test]
    fn linux_hash_matches_kernel() {
        let equal = [1; 4];
        assert_eq!(
            chosen(HashPolicy::Ports, &equal),
            "01233233000031313123011030200303"
        );
        assert_eq!(
            chosen(HashPolicy::Fields, &equal),
            "32201020122233321222000333021232"
        );
    }

    #[test]
    fn address_hash_ignores_ports() {
        let all = chosen(HashPolicy::Addresses, &[1; 4]);
        assert!(all.chars().all(|place| all.starts_with(place)), "{all}");
    }

    #[test]
    fn hash_is_symmetric_and_needs_seed() {
        let hash = |seed| LinuxHash {
            policy: HashPolicy::Fields,
            seed,
        };
        let (there, back) = (flow(9), flow(9).reversed());
        let [one, other] = [there, back].map(|flow| hash(7).choose(&flow, &[3, 2, 1]));
        assert_eq!(one, other);
        assert_eq!(hash(0).choose(&there, &[1, 1]), None);
        assert_eq!(hash(7).choose(&there, &[0, 0]), None);
        assert_eq!(hash(7).choose(&there, &[0, 5, 0]), Some(1));
    }
}
