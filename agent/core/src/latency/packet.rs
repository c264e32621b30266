//! Probes and answers on the wire. Both have the same length, so an answer is never larger than its probe. Numbers
//! are big-endian.
//!
//! ```text
//! 0 magic   4 kind   5 TTL left   6 whose stamps   7 whose stamps, earlier
//! 8 session   12 number   16 held   24 earlier: its number   28 held then   36 seen
//! ```

use reweave_common::probing::Stamps;

use super::ResponderDelay;

/// The length of every packet, without headers.
pub const PACKET_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"RwP1";
const KIND_PROBE: u8 = 1;
const KIND_ANSWER: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet {
    Probe(ProbeId),
    Answer(ProbeAnswer),
}

/// The session and the number of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeId {
    /// Chosen at random by the prober when it starts.
    pub session: u32,
    /// Counts from 1 for each responder.
    pub number: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeAnswer {
    pub name: ProbeId,
    /// The probe's remaining TTL.
    pub ttl: u8,
    /// The delay as far as it is known before the answer leaves. None if a clock was set meanwhile.
    pub held: Option<ResponderDelay>,
    /// How long an earlier probe was held, whose answer has left.
    pub earlier: Option<(u32, ResponderDelay)>,
    /// The lowest bit is set if the previous probe arrived, the next bit for the one before, and so on.
    pub seen: u64,
}

impl Packet {
    pub fn to_bytes(&self) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        let name = match self {
            Self::Probe(name) => name,
            Self::Answer(answer) => &answer.name,
        };
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = KIND_PROBE;
        bytes[8..12].copy_from_slice(&name.session.to_be_bytes());
        bytes[12..16].copy_from_slice(&name.number.to_be_bytes());
        if let Self::Answer(answer) = self {
            answer.write(&mut bytes);
        }
        bytes
    }

    /// None if it is neither a probe nor an answer. Trailing bytes are ignored.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<PACKET_BYTES>()?;
        if bytes[..4] != MAGIC {
            return None;
        }
        let [session, number] = [8, 12].map(|at| word(bytes, at));
        let name = ProbeId { session, number };
        match bytes[4] {
            KIND_PROBE => Some(Self::Probe(name)),
            KIND_ANSWER => Some(Self::Answer(ProbeAnswer::read(name, bytes)?)),
            _ => None,
        }
    }
}

impl ProbeAnswer {
    fn write(&self, bytes: &mut [u8; PACKET_BYTES]) {
        bytes[4] = KIND_ANSWER;
        bytes[5] = self.ttl;
        bytes[6] = grade(self.held);
        bytes[7] = grade(self.earlier.map(|(_, held)| held));
        let nanos = self.held.map_or(0, |held| held.nanos);
        bytes[16..24].copy_from_slice(&nanos.to_be_bytes());
        if let Some((number, held)) = self.earlier {
            bytes[24..28].copy_from_slice(&number.to_be_bytes());
            bytes[28..36].copy_from_slice(&held.nanos.to_be_bytes());
        }
        bytes[36..44].copy_from_slice(&self.seen.to_be_bytes());
    }

    fn read(name: ProbeId, bytes: &[u8; PACKET_BYTES]) -> Option<Self> {
        let earlier = held(bytes[7], long(bytes, 28))?;
        Some(Self {
            name,
            ttl: bytes[5],
            held: held(bytes[6], long(bytes, 16))?,
            earlier: earlier.map(|held| (word(bytes, 24), held)),
            seen: long(bytes, 36),
        })
    }
}

/// 0 if the time is not known.
fn grade(held: Option<ResponderDelay>) -> u8 {
    match held.map(|held| held.stamps) {
        None => 0,
        Some(Stamps::Program) => 1,
        Some(Stamps::Kernel) => 2,
        Some(Stamps::Hardware) => 3,
    }
}

fn held(grade: u8, nanos: u64) -> Option<Option<ResponderDelay>> {
    let stamps = match grade {
        0 => return Some(None),
        1 => Stamps::Program,
        2 => Stamps::Kernel,
        3 => Stamps::Hardware,
        _ => return None,
    };
    Some(Some(ResponderDelay { nanos, stamps }))
}

fn word(bytes: &[u8; PACKET_BYTES], at: usize) -> u32 {
    let part = bytes[at..].first_chunk().copied().unwrap_or_default();
    u32::from_be_bytes(part)
}

fn long(bytes: &[u8; PACKET_BYTES], at: usize) -> u64 {
    let part = bytes[at..].first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(part)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn any_held() -> impl Strategy<Value = ResponderDelay> {
        let stamps = vec![Stamps::Program, Stamps::Kernel, Stamps::Hardware];
        (any::<u64>(), prop::sample::select(stamps))
            .prop_map(|(nanos, stamps)| ResponderDelay { nanos, stamps })
    }

    fn any_packet() -> impl Strategy<Value = Packet> {
        let name = any::<(u32, u32)>().prop_map(|(session, number)| ProbeId { session, number });
        let held = option::of(any_held());
        let earlier = option::of((any::<u32>(), any_held()));
        let answer = (name, any::<u8>(), held, earlier, any::<u64>()).prop_map(
            |(name, ttl, held, earlier, seen)| ProbeAnswer {
                name,
                ttl,
                held,
                earlier,
                seen,
            },
        );
        let name = any::<(u32, u32)>().prop_map(|(session, number)| ProbeId { session, number });
        prop_oneof![
            name.prop_map(Packet::Probe),
            answer.prop_map(Packet::Answer)
        ]
    }

    proptest! {
        #[test]
        fn packet_roundtrips(packet in any_packet()) {
            prop_assert_eq!(Packet::read(&packet.to_bytes()), Some(packet));
        }

        #[test]
        fn truncated_packet_is_rejected(packet in any_packet(), length in 0..PACKET_BYTES) {
            prop_assert_eq!(Packet::read(&packet.to_bytes()[..length]), None);
        }

        #[test]
        fn arbitrary_bytes_are_safe(bytes in vec(any::<u8>(), 0..100), flips: [u8; 8]) {
            let _ = Packet::read(&bytes);
            let mut near = Packet::Probe(ProbeId { session: 1, number: 2 }).to_bytes();
            near[4..12].copy_from_slice(&flips);
            let _ = Packet::read(&near);
        }
    }

    #[test]
    fn foreign_packets_are_rejected() {
        let mut packet = Packet::Probe(ProbeId {
            session: 1,
            number: 2,
        })
        .to_bytes();
        packet[0] = b'r';
        assert_eq!(Packet::read(&packet), None);
        let mut packet = Packet::Probe(ProbeId {
            session: 1,
            number: 2,
        })
        .to_bytes();
        packet[4] = 9;
        assert_eq!(Packet::read(&packet), None);
    }
}
