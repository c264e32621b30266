//! Load tests on request: which host may load another, for how long, and the messages between them. Numbers are
//! big-endian.
//!
//! ```text
//! 0 magic   4 kind   5 refusal, streams or force   8 session   12 seconds   16 key   24 port
//! ```

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::periodicity::Periodicity;

/// The length of every packet; an answer is as long as its request.
pub const PACKET_BYTES: usize = 64;
/// The limits of a test's duration and streams.
pub const MAX_TEST_S: u32 = 60;
pub const MAX_STREAMS: u8 = 32;
/// The time for the setup, and for the results.
pub const SETUP_TIMEOUT: Duration = Duration::from_secs(5);
/// A host that was seen training this recently may still be.
const TRAINING_TTL: Duration = Duration::from_secs(60);

const MAGIC: [u8; 4] = *b"RwF1";
const KIND_ASK: u8 = 1;
const KIND_GRANT: u8 = 2;
const KIND_REFUSE: u8 = 3;

/// The parameters of a load test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Press {
    pub seconds: u32,
    pub streams: u8,
    /// Even if a job may be running.
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreflightMessage {
    Ask(Press),
    /// The TCP port; each stream starts with the key.
    Grant {
        key: u64,
        port: u16,
    },
    Refuse(PreflightRefusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreflightRefusal {
    /// A job is training on it, or was recently.
    Training,
    /// Another test is running.
    Pressed,
    /// The request exceeds the limits.
    TooMuch,
    /// It could not open a port.
    Unable,
}

const REFUSAL_CODES: [PreflightRefusal; 4] = [
    PreflightRefusal::Training,
    PreflightRefusal::Pressed,
    PreflightRefusal::TooMuch,
    PreflightRefusal::Unable,
];

/// Whether a packet claims to be about a load test.
pub fn is_word(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

impl PreflightMessage {
    pub fn to_bytes(&self, session: u32) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&session.to_be_bytes());
        match self {
            Self::Ask(press) => {
                bytes[4] = KIND_ASK;
                bytes[5] = u8::from(press.force);
                bytes[6] = press.streams;
                bytes[12..16].copy_from_slice(&press.seconds.to_be_bytes());
            }
            Self::Grant { key, port } => {
                bytes[4] = KIND_GRANT;
                bytes[16..24].copy_from_slice(&key.to_be_bytes());
                bytes[24..26].copy_from_slice(&port.to_be_bytes());
            }
            Self::Refuse(why) => {
                bytes[4] = KIND_REFUSE;
                let code = REFUSAL_CODES.iter().position(|it| it == why);
                bytes[5] = code.unwrap_or_default() as u8;
            }
        }
        bytes
    }

    /// None if it is no such message.
    pub fn read(bytes: &[u8]) -> Option<(u32, Self)> {
        let bytes = bytes
            .first_chunk::<PACKET_BYTES>()
            .filter(|it| is_word(*it))?;
        let word = |at: usize| bytes[at..].first_chunk().copied().map(u32::from_be_bytes);
        let said = match bytes[4] {
            KIND_ASK => Self::Ask(Press {
                seconds: word(12)?,
                streams: bytes[6],
                force: bytes[5] != 0,
            }),
            KIND_GRANT => Self::Grant {
                key: bytes[16..].first_chunk().copied().map(u64::from_be_bytes)?,
                port: bytes[24..].first_chunk().copied().map(u16::from_be_bytes)?,
            },
            KIND_REFUSE => Self::Refuse(*REFUSAL_CODES.get(usize::from(bytes[5]))?),
            _ => return None,
        };
        Some((word(8)?, said))
    }
}

/// Whether this host accepts a load test.
#[derive(Debug, Default)]
pub struct Consent {
    roster: BTreeSet<Ipv4Addr>,
    trained: Option<Moment>,
    pressed_until: Option<Moment>,
}

impl Consent {
    pub fn handle_roster(&mut self, roster: impl IntoIterator<Item = Ipv4Addr>) {
        self.roster = roster.into_iter().collect();
    }

    pub fn handle_rhythm(&mut self, now: Moment, rhythm: Periodicity) {
        if matches!(rhythm, Periodicity::Found(_)) {
            self.trained = Some(now);
        }
    }

    /// The answer; none to hosts that are not on the roster.
    pub fn decide(
        &self,
        now: Moment,
        from: Ipv4Addr,
        press: &Press,
    ) -> Option<Result<(), PreflightRefusal>> {
        if !self.roster.contains(&from) {
            return None;
        }
        let lately = |at: Moment| now.since(at) < TRAINING_TTL;
        let fair =
            (1..=MAX_TEST_S).contains(&press.seconds) && (1..=MAX_STREAMS).contains(&press.streams);
        Some(match () {
            () if !fair => Err(PreflightRefusal::TooMuch),
            () if self.pressed_until.is_some_and(|until| now < until) => {
                Err(PreflightRefusal::Pressed)
            }
            () if self.trained.is_some_and(lately) && !press.force => {
                Err(PreflightRefusal::Training)
            }
            () => Ok(()),
        })
    }

    /// The test has started.
    pub fn handle_pressed(&mut self, now: Moment, press: &Press) {
        let seconds = Duration::from_secs(u64::from(press.seconds));
        self.pressed_until = Some(now + seconds + SETUP_TIMEOUT);
    }

    /// The test has ended.
    pub fn handle_released(&mut self) {
        self.pressed_until = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use reweave_common::time_span::TimeSpan;

    const PEER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const PRESS_TEST: Press = Press {
        seconds: 5,
        streams: 4,
        force: false,
    };

    fn at(s: u64) -> Moment {
        Moment::from_micros(s * 1_000_000)
    }

    fn consent() -> Consent {
        let mut consent = Consent::default();
        consent.handle_roster([PEER_ADDRESS]);
        consent
    }

    fn training() -> Periodicity {
        Periodicity::Found(reweave_common::periodicity::IterationPeriod {
            period: TimeSpan::from_secs(1),
            gap: TimeSpan::from_millis(300),
            sent: reweave_common::units::Bytes::new(1),
            received: reweave_common::units::Bytes::new(1),
            shape: None,
            confidence_percent: reweave_common::units::Percent::new(90).unwrap(),
            iterations: 9,
            since: at(0),
            next_gap: at(1),
        })
    }

    #[test]
    fn only_roster_hosts_are_answered() {
        let stranger = Ipv4Addr::new(10, 0, 0, 2);
        assert_eq!(consent().decide(at(0), stranger, &PRESS_TEST), None);
        assert_eq!(
            consent().decide(at(0), PEER_ADDRESS, &PRESS_TEST),
            Some(Ok(()))
        );
    }

    #[test]
    fn training_host_needs_force() {
        let mut consent = consent();
        consent.handle_rhythm(at(10), training());
        let refused = Some(Err(PreflightRefusal::Training));
        assert_eq!(consent.decide(at(30), PEER_ADDRESS, &PRESS_TEST), refused);
        let force = Press {
            force: true,
            ..PRESS_TEST
        };
        assert_eq!(consent.decide(at(30), PEER_ADDRESS, &force), Some(Ok(())));
        assert_eq!(
            consent.decide(at(71), PEER_ADDRESS, &PRESS_TEST),
            Some(Ok(()))
        );
    }

    #[test]
    fn tests_are_exclusive_and_bounded() {
        let mut consent = consent();
        consent.handle_pressed(at(0), &PRESS_TEST);
        let pressed = Some(Err(PreflightRefusal::Pressed));
        assert_eq!(consent.decide(at(9), PEER_ADDRESS, &PRESS_TEST), pressed);
        assert_eq!(
            consent.decide(at(10), PEER_ADDRESS, &PRESS_TEST),
            Some(Ok(()))
        );
        consent.handle_pressed(at(10), &PRESS_TEST);
        consent.handle_released();
        let endless = Press {
            seconds: 61,
            ..PRESS_TEST
        };
        let too_much = Some(Err(PreflightRefusal::TooMuch));
        assert_eq!(consent.decide(at(11), PEER_ADDRESS, &endless), too_much);
    }

    proptest! {
        #[test]
        fn word_roundtrips(
            session: u32, seconds: u32, streams: u8, force: bool, key: u64, port: u16, code in 0..4_usize,
        ) {
            let words = [
                PreflightMessage::Ask(Press { seconds, streams, force }),
                PreflightMessage::Grant { key, port },
                PreflightMessage::Refuse(REFUSAL_CODES[code]),
            ];
            for word in words {
                let bytes = word.to_bytes(session);
                prop_assert_eq!(PreflightMessage::read(&bytes), Some((session, word)));
                prop_assert_eq!(PreflightMessage::read(&bytes[..PACKET_BYTES - 1]), None);
            }
        }

        #[test]
        fn arbitrary_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..100), kind: u8) {
            let _ = PreflightMessage::read(&bytes);
            let mut near = PreflightMessage::Grant { key: 1, port: 2 }.to_bytes(3);
            near[4..6].copy_from_slice(&[kind, kind]);
            let _ = PreflightMessage::read(&near);
        }
    }
}
