//! Content of a datagram.

use std::ops::Range;

/// Every datagram begins with these, so that a stranger's is recognised.
const MAGIC: [u8; 3] = *b"rwv";
const KIND_DATA: u8 = b'd';
const KIND_PROBE: u8 = b'p';
const KIND_ACK: u8 = b'a';

/// No number and no position is ever so large, so that sums of two do not overflow.
const MAX_POSITION: u64 = 1 << 62;

/// Size of the header of a [`Packet::Data`].
pub(super) const DATA_HEADER_BYTES: usize = MAGIC.len() + 1 + 8 + 8;
/// More stretches than this are not acknowledged at once; there are more only while packets are
/// lost by the dozen, and [`Ack::arrived_to`] grows all the same.
pub(super) const MAX_RANGES: usize = 32;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packet<'d> {
    /// Bytes of the stream, and where in it they stand. Each packet has a number of its own, also
    /// when it repeats what another has carried: so the two are never confused.
    Data {
        number: u64,
        position: u64,
        bytes: &'d [u8],
    },
    /// Only asks to be acknowledged. It may be padded.
    Probe {
        number: u64,
    },
    Ack(Ack),
}

/// State of the receiver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ack {
    /// Number of the packet that was just received; none in a delayed acknowledgement, whose delay must not count as
    /// round-trip time.
    pub(super) answers: Option<u64>,
    /// All bytes of the stream before this position have arrived.
    pub(super) arrived_to: u64,
    /// No bytes are taken from this position on.
    pub(super) limit: u64,
    /// Number of missing packets before the last received one.
    pub(super) missing: u64,
    /// The numbers of the packets that have arrived, the latest first.
    pub(super) numbers: Vec<Range<u64>>,
}

impl<'d> Packet<'d> {
    /// Decodes a datagram; none if it is not of this protocol.
    pub(super) fn decode(datagram: &'d [u8]) -> Option<Self> {
        let rest = datagram.strip_prefix(&MAGIC)?;
        let (&kind, mut rest) = rest.split_first()?;
        match kind {
            KIND_DATA => Some(Self::Data {
                number: word(&mut rest)?,
                position: word(&mut rest)?,
                bytes: rest,
            }),
            KIND_PROBE => Some(Self::Probe {
                number: word(&mut rest)?,
            }),
            KIND_ACK => Ack::decode(rest).map(Self::Ack),
            _ => None,
        }
    }
}

impl Ack {
    fn decode(mut rest: &[u8]) -> Option<Self> {
        let mut ack = Self {
            answers: word(&mut rest)?.checked_sub(1),
            arrived_to: word(&mut rest)?,
            limit: word(&mut rest)?,
            missing: word(&mut rest)?,
            numbers: Vec::new(),
        };
        while !rest.is_empty() {
            ack.numbers.push(word(&mut rest)?..word(&mut rest)?);
        }
        Some(ack)
    }

    pub(super) fn encode(&self, datagram: &mut Vec<u8>) {
        let answers = self.answers.map_or(0, |number| number + 1);
        let words = [answers, self.arrived_to, self.limit, self.missing];
        begin(datagram, KIND_ACK, &words);
        for range in &self.numbers {
            datagram.extend(range.start.to_be_bytes());
            datagram.extend(range.end.to_be_bytes());
        }
    }
}

/// Begins a data packet; its bytes are to be appended.
pub(super) fn begin_data(datagram: &mut Vec<u8>, number: u64, position: u64) {
    begin(datagram, KIND_DATA, &[number, position]);
}

/// Encodes a probe, padded to `size`.
pub(super) fn encode_probe(datagram: &mut Vec<u8>, number: u64, size: usize) {
    begin(datagram, KIND_PROBE, &[number]);
    datagram.resize(size.max(datagram.len()), 0);
}

fn begin(datagram: &mut Vec<u8>, kind: u8, words: &[u64]) {
    datagram.clear();
    datagram.extend(MAGIC);
    datagram.push(kind);
    for word in words {
        datagram.extend(word.to_be_bytes());
    }
}

fn word(rest: &mut &[u8]) -> Option<u64> {
    let (word, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_be_bytes(*word)).filter(|word| *word < MAX_POSITION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_roundtrip() {
        let mut datagram = Vec::new();
        begin_data(&mut datagram, 7, 1 << 40);
        assert_eq!(datagram.len(), DATA_HEADER_BYTES);
        datagram.extend(b"bytes");
        let data = Packet::Data {
            number: 7,
            position: 1 << 40,
            bytes: b"bytes",
        };
        assert_eq!(Packet::decode(&datagram), Some(data));

        encode_probe(&mut datagram, 9, 1000);
        assert_eq!(datagram.len(), 1000);
        assert_eq!(Packet::decode(&datagram), Some(Packet::Probe { number: 9 }));

        for answers in [None, Some(0), Some(8)] {
            let ack = Ack {
                answers,
                arrived_to: 5,
                limit: 6,
                missing: 2,
                numbers: vec![8..9, 0..3],
            };
            ack.encode(&mut datagram);
            assert_eq!(Packet::decode(&datagram), Some(Packet::Ack(ack)));
        }
    }

    #[test]
    fn invalid_packets_are_rejected() {
        let mut datagram = Vec::new();
        encode_probe(&mut datagram, 9, 0);
        for length in 0..datagram.len() {
            assert_eq!(Packet::decode(&datagram[..length]), None);
        }
        Ack::default().encode(&mut datagram);
        datagram.extend([0; 15]);
        assert_eq!(Packet::decode(&datagram), None);
        assert_eq!(Packet::decode(b"rwvx0123456789abcdef"), None);
    }
}
