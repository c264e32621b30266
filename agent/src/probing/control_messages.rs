//! The kernel's control messages for a packet: its timestamps, its destination, its outcome.

use std::net::Ipv4Addr;

use nix::libc;
use reweave_agent_core::latency::Stamp;

/// All control messages of one packet fit into it.
pub(super) const MAX_CONTROL_BYTES: usize = 256;

/// The control messages of a packet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ControlMessages {
    pub(super) stamp: Stamp,
    /// The own address that it was sent to.
    pub(super) to: Option<Ipv4Addr>,
    pub(super) ttl: Option<u8>,
    pub(super) error: Option<SocketErrorKind>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SocketErrorKind {
    Stamped,
    Refused,
    Other,
}

/// Before each message: its length with this header, then level and kind.
const CMSG_HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
const WORD_BYTES: usize = size_of::<usize>();

impl ControlMessages {
    /// Reads as far as `messages` makes sense.
    pub(super) fn read(mut messages: &[u8]) -> Self {
        let mut beside = Self::default();
        while let Some((level, kind, body, rest)) = next(messages) {
            beside.take(level, kind, body);
            messages = rest;
        }
        beside
    }

    fn take(&mut self, level: libc::c_int, kind: libc::c_int, body: &[u8]) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                // The kernel's stamp, nothing, and the card's.
                let [kernel_ns, hardware_ns] = [0, 2].map(|nth| nanos(body, nth));
                self.stamp = Stamp {
                    kernel_ns,
                    hardware_ns,
                };
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // The field follows the interface and the address that an answer would be sent from.
                self.to = body
                    .get(8..12)
                    .and_then(|it| it.first_chunk())
                    .map(|it: &[u8; 4]| (*it).into());
            }
            (libc::IPPROTO_IP, libc::IP_TTL) => {
                self.ttl = number(body).and_then(|ttl| u8::try_from(ttl).ok());
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR) => self.error = error(body),
            _ => {}
        }
    }
}

type ControlMessage<'m> = (libc::c_int, libc::c_int, &'m [u8], &'m [u8]);

/// A message's level, kind and body, and what follows it.
fn next(messages: &[u8]) -> Option<ControlMessage<'_>> {
    let (length, rest) = messages.split_first_chunk()?;
    let length = usize::from_ne_bytes(*length);
    let (level, kind) = (number(rest)?, number(rest.get(4..)?)?);
    let body = messages.get(CMSG_HEADER_BYTES..length)?;
    let rest = messages.get(length.checked_next_multiple_of(WORD_BYTES)?..);
    Some((level, kind, body, rest.unwrap_or_default()))
}

fn number(bytes: &[u8]) -> Option<libc::c_int> {
    bytes
        .first_chunk()
        .map(|it| libc::c_int::from_ne_bytes(*it))
}

/// The n-th time of a list; zero stands for none.
fn nanos(times: &[u8], nth: usize) -> Option<u64> {
    const TIMESPEC_BYTES: usize = size_of::<libc::timespec>();
    let (seconds, rest) = times.get(nth * TIMESPEC_BYTES..)?.split_first_chunk()?;
    let (nanos, _) = rest.split_first_chunk()?;
    let [seconds, nanos] = [seconds, nanos].map(|it| i64::from_ne_bytes(*it));
    let nanos = u64::try_from(seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?).ok()?;
    (nanos > 0).then_some(nanos)
}

/// The fields after the error number: the origin and, for ICMP, the type and the code.
fn error(body: &[u8]) -> Option<SocketErrorKind> {
    /// Destination unreachable: port unreachable.
    const ICMP_PORT_UNREACHABLE: [u8; 2] = [3, 3];
    let [origin, what @ ..] = *body.get(4..)?.first_chunk::<3>()?;
    Some(match origin {
        libc::SO_EE_ORIGIN_TIMESTAMPING => SocketErrorKind::Stamped,
        libc::SO_EE_ORIGIN_ICMP if what == ICMP_PORT_UNREACHABLE => SocketErrorKind::Refused,
        _ => SocketErrorKind::Other,
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn message(level: libc::c_int, kind: libc::c_int, body: &[u8]) -> Vec<u8> {
        let length = CMSG_HEADER_BYTES + body.len();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([level, kind].map(libc::c_int::to_ne_bytes).as_flattened());
        bytes.extend(body);
        bytes.resize(length.next_multiple_of(WORD_BYTES), 0);
        bytes
    }

    fn times(times: [(i64, i64); 3]) -> Vec<u8> {
        let numbers = times.iter().flat_map(|&(seconds, nanos)| [seconds, nanos]);
        numbers.flat_map(i64::to_ne_bytes).collect()
    }

    fn all() -> Vec<u8> {
        let stamps = times([(7, 11), (0, 0), (0, 13)]);
        let place = [[2, 0, 0, 0], [10, 0, 0, 9], [10, 0, 0, 1]];
        let error = [0, 0, 0, 0, libc::SO_EE_ORIGIN_ICMP, 3, 3, 0];
        [
            message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &stamps),
            message(libc::IPPROTO_IP, libc::IP_TTL, &61_i32.to_ne_bytes()),
            message(libc::IPPROTO_IP, libc::IP_PKTINFO, place.as_flattened()),
            message(libc::IPPROTO_IP, 99, &[1]),
            message(libc::IPPROTO_IP, libc::IP_RECVERR, &error),
        ]
        .concat()
    }

    #[test]
    fn control_messages_are_parsed() {
        let expected = ControlMessages {
            stamp: Stamp {
                kernel_ns: Some(7_000_000_011),
                hardware_ns: Some(13),
            },
            to: Some(Ipv4Addr::new(10, 0, 0, 1)),
            ttl: Some(61),
            error: Some(SocketErrorKind::Refused),
        };
        assert_eq!(ControlMessages::read(&all()), expected);
    }

    #[test]
    fn truncated_control_messages_are_safe() {
        let all = all();
        for length in 0..all.len() {
            let _ = ControlMessages::read(&all[..length]);
        }
        assert_eq!(
            ControlMessages::read(&all[..CMSG_HEADER_BYTES + 47]),
            ControlMessages::default()
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_safe(bytes in vec(any::<u8>(), 0..200), at in 0..100_usize, byte: u8) {
            let _ = ControlMessages::read(&bytes);
            let mut damaged = all();
            damaged[at] = byte;
            let _ = ControlMessages::read(&damaged);
        }
    }
}
