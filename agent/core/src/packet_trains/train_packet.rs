//! The messages about trains, and their packets, on the wire. Numbers are big-endian.
//!
//! ```text
//! 0 magic   4 kind   5 refusal   8 session   12 train   16 key   24 packets, number or page
//! 28 bytes of a packet   64 what had arrived when, in a page
//! ```

/// The length of every header; requests and their answers are not longer.
pub const HEADER_BYTES: usize = 64;
/// The number of packets in a page of arrivals.
pub const PAGE_PACKETS: usize = 256;
/// The length of a page and of its request.
pub const PAGE_BYTES: usize = HEADER_BYTES + PAGE_PACKETS * 4;
/// Stands for a packet that did not arrive.
const NOT_ARRIVED: u32 = u32::MAX;

const MAGIC: [u8; 4] = *b"RwT1";
const KIND_ASK: u8 = 1;
const KIND_GRANT: u8 = 2;
const KIND_REFUSE: u8 = 3;
const KIND_TRAIN_PACKET: u8 = 4;
const KIND_FETCH: u8 = 5;
const KIND_ARRIVALS: u8 = 6;

/// The session and the number of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Train {
    /// Chosen at random by the sender.
    pub session: u32,
    pub number: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainShape {
    pub packets: u32,
    /// The payload of each packet.
    pub bytes: u16,
}

/// Why a host refuses a train now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrainRefusal {
    /// Its links are not idle, or not for long enough.
    Busy,
    /// Its budget is used up, or another train is expected.
    Later,
    /// It accepts no trains of that shape.
    Shape,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrainMessage {
    Ask(TrainShape),
    /// Every packet of the train, and every request for its arrivals, must have the key.
    Grant {
        key: u64,
    },
    Refuse(TrainRefusal),
    TrainPacket {
        key: u64,
        number: u32,
    },
    Fetch {
        key: u64,
        page: u32,
    },
    /// Nanoseconds since the first arrival.
    Arrivals {
        page: u32,
        after_ns: Vec<Option<u32>>,
    },
}

/// Whether a packet claims to belong to a train.
pub fn is_message(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

impl TrainMessage {
    pub fn to_bytes(&self, train: Train) -> Vec<u8> {
        let mut bytes = vec![0; self.length()];
        bytes[..4].copy_from_slice(&MAGIC);
        put(&mut bytes, 8, train.session);
        put(&mut bytes, 12, train.number);
        bytes[4] = self.kind();
        match self {
            Self::Ask(shape) => {
                put(&mut bytes, 24, shape.packets);
                put(&mut bytes, 28, u32::from(shape.bytes));
            }
            Self::Grant { key } => put_key(&mut bytes, *key),
            Self::Refuse(why) => bytes[5] = code(*why),
            Self::TrainPacket { key, number: at } | Self::Fetch { key, page: at } => {
                put_key(&mut bytes, *key);
                put(&mut bytes, 24, *at);
            }
            Self::Arrivals { page, after_ns } => {
                put(&mut bytes, 24, *page);
                for place in 0..PAGE_PACKETS {
                    let after = after_ns.get(place).copied().flatten();
                    put(
                        &mut bytes,
                        HEADER_BYTES + place * 4,
                        after.unwrap_or(NOT_ARRIVED),
                    );
                }
            }
        }
        bytes
    }

    /// None if it is no such message. Trailing bytes are ignored, and of a train's packets and page requests only the
    /// header is read.
    pub fn read(bytes: &[u8]) -> Option<(Train, Self)> {
        if bytes.len() < HEADER_BYTES || !is_message(bytes) {
            return None;
        }
        let train = Train {
            session: word(bytes, 8),
            number: word(bytes, 12),
        };
        let (key, at) = (key_of(bytes), word(bytes, 24));
        let message = match bytes[4] {
            KIND_ASK => Self::Ask(TrainShape {
                packets: at,
                bytes: u16::try_from(word(bytes, 28)).ok()?,
            }),
            KIND_GRANT => Self::Grant { key },
            KIND_REFUSE => Self::Refuse(refusal(bytes[5])?),
            KIND_TRAIN_PACKET => Self::TrainPacket { key, number: at },
            KIND_FETCH => Self::Fetch { key, page: at },
            KIND_ARRIVALS => Self::Arrivals {
                page: at,
                after_ns: arrivals(bytes.get(HEADER_BYTES..PAGE_BYTES)?),
            },
            _ => return None,
        };
        Some((train, message))
    }

    fn length(&self) -> usize {
        match self {
            Self::Fetch { .. } | Self::Arrivals { .. } => PAGE_BYTES,
            _ => HEADER_BYTES,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Ask(_) => KIND_ASK,
            Self::Grant { .. } => KIND_GRANT,
            Self::Refuse(_) => KIND_REFUSE,
            Self::TrainPacket { .. } => KIND_TRAIN_PACKET,
            Self::Fetch { .. } => KIND_FETCH,
            Self::Arrivals { .. } => KIND_ARRIVALS,
        }
    }
}

fn code(why: TrainRefusal) -> u8 {
    match why {
        TrainRefusal::Busy => 1,
        TrainRefusal::Later => 2,
        TrainRefusal::Shape => 3,
    }
}

fn refusal(code: u8) -> Option<TrainRefusal> {
    let all = [TrainRefusal::Busy, TrainRefusal::Later, TrainRefusal::Shape];
    all.into_iter().find(|it| self::code(*it) == code)
}

fn arrivals(bytes: &[u8]) -> Vec<Option<u32>> {
    let (words, _) = bytes.as_chunks::<4>();
    let words = words.iter().map(|it| u32::from_be_bytes(*it));
    words.map(|it| (it != NOT_ARRIVED).then_some(it)).collect()
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put_key(bytes: &mut [u8], key: u64) {
    bytes[16..24].copy_from_slice(&key.to_be_bytes());
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let part = bytes[at..].first_chunk().copied().unwrap_or_default();
    u32::from_be_bytes(part)
}

fn key_of(bytes: &[u8]) -> u64 {
    let part = bytes[16..].first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(part)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn any_message() -> impl Strategy<Value = TrainMessage> {
        let refusals = vec![TrainRefusal::Busy, TrainRefusal::Later, TrainRefusal::Shape];
        let after = proptest::option::of(0..NOT_ARRIVED);
        prop_oneof![
            (any::<u32>(), any::<u16>())
                .prop_map(|(packets, bytes)| TrainMessage::Ask(TrainShape { packets, bytes })),
            any::<u64>().prop_map(|key| TrainMessage::Grant { key }),
            prop::sample::select(refusals).prop_map(TrainMessage::Refuse),
            any::<(u64, u32)>().prop_map(|(key, number)| TrainMessage::TrainPacket { key, number }),
            any::<(u64, u32)>().prop_map(|(key, page)| TrainMessage::Fetch { key, page }),
            (any::<u32>(), vec(after, PAGE_PACKETS))
                .prop_map(|(page, after_ns)| TrainMessage::Arrivals { page, after_ns }),
        ]
    }

    fn any_train() -> impl Strategy<Value = Train> {
        any::<(u32, u32)>().prop_map(|(session, number)| Train { session, number })
    }

    proptest! {
        #[test]
        fn message_roundtrips(train in any_train(), message in any_message()) {
            let bytes = message.to_bytes(train);
            prop_assert_eq!(TrainMessage::read(&bytes), Some((train, message)));
        }

        #[test]
        fn truncated_message_is_rejected(
            train in any_train(), message in any_message(), length in 0..HEADER_BYTES,
        ) {
            prop_assert_eq!(TrainMessage::read(&message.to_bytes(train)[..length]), None);
        }

        #[test]
        fn arbitrary_bytes_are_safe(bytes in vec(any::<u8>(), 0..1200), kind: u8, code: u8) {
            let _ = TrainMessage::read(&bytes);
            let mut near = bytes;
            near.resize(near.len().max(HEADER_BYTES), 0);
            near[..4].copy_from_slice(&MAGIC);
            near[4..6].copy_from_slice(&[kind, code]);
            let _ = TrainMessage::read(&near);
        }
    }
}
