//! Confirmation of traced paths: the receiver's agent sees packets like those of the flow, and reports how many
//! routers they passed. Numbers are big-endian.
//!
//! ```text
//! 0 magic   4 kind   5 protocol   6 source port   8 destination port   10 what was seen   11 TTL left
//! 12 which packet: the number that its IP header has
//! ```
//!
//! The addresses are those of the request's packet: the requester must be the sender, and no other host gets an
//! answer.

use std::collections::{BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use etherparse::{IpNumber, Ipv4HeaderSlice, TcpHeaderSlice, UdpHeaderSlice};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;

use crate::latency::{PACKET_BYTES, TTL};

const MAGIC: [u8; 4] = *b"RwA1";
const KIND_ASK: u8 = 1;
const KIND_ANSWER: u8 = 2;
/// No packet of a trace has this number.
const NO_PACKET_ID: u16 = 0;
/// How long packets are watched after a request.
const WATCH_TIMEOUT: Duration = Duration::from_secs(2);
/// The limit of seen packets; the oldest are forgotten.
const MAX_SEEN_PACKETS: usize = 1024;

/// What the receiver's agent reports of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathConfirmation {
    /// The packet has not arrived.
    Nothing,
    /// The packet passed this many routers.
    Past(u8),
    /// The agent has no permission to watch packets.
    Blind,
}

/// Whether a packet claims to be about arrivals.
pub fn is_word(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The sender's question whether the packet with this number has arrived; without a number, it only starts the watch.
pub fn question(flow: &FlowKey, id: Option<u16>) -> [u8; PACKET_BYTES] {
    word(KIND_ASK, flow, id.unwrap_or(NO_PACKET_ID))
}

/// The flow and the content of an answer from the first address to the second.
pub fn read_answer([from, to]: [Ipv4Addr; 2], bytes: &[u8]) -> Option<(FlowKey, PathConfirmation)> {
    let (flow, bytes) = read(KIND_ANSWER, [to, from], bytes)?;
    let sight = match bytes[10] {
        0 => PathConfirmation::Nothing,
        1 => PathConfirmation::Past(TTL.saturating_sub(bytes[11])),
        2 => PathConfirmation::Blind,
        _ => return None,
    };
    Some((flow, sight))
}

fn word(kind: u8, flow: &FlowKey, id: u16) -> [u8; PACKET_BYTES] {
    let mut bytes = [0; PACKET_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = kind;
    bytes[5] = number(flow.protocol).0;
    bytes[6..8].copy_from_slice(&flow.source.port().to_be_bytes());
    bytes[8..10].copy_from_slice(&flow.destination.port().to_be_bytes());
    bytes[12..14].copy_from_slice(&id.to_be_bytes());
    bytes
}

fn read(
    kind: u8,
    [source, destination]: [Ipv4Addr; 2],
    bytes: &[u8],
) -> Option<(FlowKey, [u8; PACKET_BYTES])> {
    let bytes = bytes.first_chunk::<PACKET_BYTES>()?;
    let protocol = protocol(IpNumber(bytes[5]))?;
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let flow = FlowKey {
        protocol,
        source: SocketAddrV4::new(source, port(6)),
        destination: SocketAddrV4::new(destination, port(8)),
    };
    (is_word(bytes) && bytes[4] == kind).then_some((flow, *bytes))
}

fn number(protocol: Protocol) -> IpNumber {
    match protocol {
        Protocol::Tcp => IpNumber::TCP,
        Protocol::Udp => IpNumber::UDP,
    }
}

fn protocol(number: IpNumber) -> Option<Protocol> {
    match number {
        IpNumber::TCP => Some(Protocol::Tcp),
        IpNumber::UDP => Some(Protocol::Udp),
        _ => None,
    }
}

/// A packet as traces send them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ObservedPacket {
    flow: FlowKey,
    id: u16,
    ttl: u8,
}

/// The receiving side.
#[derive(Debug, Default)]
pub struct ConfirmationResponder {
    roster: BTreeSet<Ipv4Addr>,
    looks_until: Moment,
    blind: bool,
    seen: VecDeque<ObservedPacket>,
}

impl ConfirmationResponder {
    pub fn handle_roster(&mut self, roster: impl IntoIterator<Item = Ipv4Addr>) {
        self.roster = roster.into_iter().collect();
    }

    /// The answer to a request from the first to the second address; none for hosts that are not on the roster.
    pub fn handle_word(
        &mut self,
        now: Moment,
        [from, to]: [Ipv4Addr; 2],
        bytes: &[u8],
    ) -> Option<[u8; PACKET_BYTES]> {
        let (flow, asked) = read(KIND_ASK, [from, to], bytes)?;
        let id = u16::from_be_bytes([asked[12], asked[13]]);
        if !self.roster.contains(&from) {
            return None;
        }
        if !self.looks(now) {
            self.seen.clear();
        }
        self.looks_until = now + WATCH_TIMEOUT;
        // Earlier packets may have taken another path.
        let seen = self.seen.iter().find(|it| (it.flow, it.id) == (flow, id));
        let mut answer = word(KIND_ANSWER, &flow, id);
        (answer[10], answer[11]) = match seen {
            Some(seen) => (1, seen.ttl),
            None => (if self.blind { 2 } else { 0 }, 0),
        };
        Some(answer)
    }

    /// Whether received packets should be handed in now.
    pub fn looks(&self, now: Moment) -> bool {
        now < self.looks_until
    }

    /// Records whether packets can be watched.
    pub fn handle_blind(&mut self, blind: bool) {
        self.blind = blind;
    }

    /// Takes a received packet, from its IP header on.
    pub fn handle_packet(&mut self, packet: &[u8]) {
        if let Some(seen) = as_of_a_trace(packet) {
            if self.seen.len() == MAX_SEEN_PACKETS {
                self.seen.pop_front();
            }
            self.seen.push_back(seen);
        }
    }
}

/// The flow of a trace's packet, which no other program sends: TCP without flags, or UDP without content.
fn as_of_a_trace(packet: &[u8]) -> Option<ObservedPacket> {
    let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
    let rest = packet.get(header.slice().len()..)?;
    let protocol = protocol(header.protocol())?;
    let ports = match protocol {
        Protocol::Tcp => {
            let tcp = TcpHeaderSlice::from_slice(rest).ok()?;
            let bare = !(tcp.syn() || tcp.ack() || tcp.rst() || tcp.fin());
            bare.then(|| [tcp.source_port(), tcp.destination_port()])?
        }
        Protocol::Udp => {
            let udp = UdpHeaderSlice::from_slice(rest).ok()?;
            let bare = udp.length() == 8;
            bare.then(|| [udp.source_port(), udp.destination_port()])?
        }
    };
    let flow = FlowKey {
        protocol,
        source: SocketAddrV4::new(header.source_addr(), ports[0]),
        destination: SocketAddrV4::new(header.destination_addr(), ports[1]),
    };
    Some(ObservedPacket {
        flow,
        id: header.identification(),
        ttl: header.ttl(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::probe::{Probe, ProbeAim, ProbeMark};

    const SENDER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const RECEIVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn flow(protocol: Protocol, port: u16) -> FlowKey {
        FlowKey {
            protocol,
            source: SocketAddrV4::new(SENDER_ADDRESS, port),
            destination: SocketAddrV4::new(RECEIVER_ADDRESS, 4791),
        }
    }

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    /// A trace's packet that arrives past this many routers.
    fn arrived(flow: FlowKey, id: u16, routers: u8) -> Vec<u8> {
        let probe = Probe {
            aim: ProbeAim::Hop(flow),
            ttl: TTL - routers,
            id,
        };
        probe.packet(ProbeMark(0xfeed_beef))
    }

    fn witness() -> ConfirmationResponder {
        let mut witness = ConfirmationResponder::default();
        witness.handle_roster([SENDER_ADDRESS]);
        witness
    }

    fn confirmation(
        witness: &mut ConfirmationResponder,
        now: Moment,
        flow: &FlowKey,
        id: u16,
    ) -> Option<PathConfirmation> {
        let question = question(flow, Some(id));
        let answer = witness.handle_word(now, [SENDER_ADDRESS, RECEIVER_ADDRESS], &question)?;
        let (of, sight) = read_answer([RECEIVER_ADDRESS, SENDER_ADDRESS], &answer)?;
        assert_eq!(of, *flow);
        Some(sight)
    }

    #[test]
    fn packet_hop_distance_is_witnessed() {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let (mut witness, flows) = (witness(), [1, 2].map(|port| flow(protocol, port)));
            let first = confirmation(&mut witness, at(0), &flows[0], NO_PACKET_ID);
            assert_eq!(first, Some(PathConfirmation::Nothing));
            witness.handle_packet(&arrived(flows[0], 7, 3));
            let mut ask = |flow, id| confirmation(&mut witness, at(1), flow, id);
            assert_eq!(ask(&flows[0], 7), Some(PathConfirmation::Past(3)));
            assert_eq!(
                ask(&flows[0], 8),
                Some(PathConfirmation::Nothing),
                "an earlier one"
            );
            assert_eq!(
                ask(&flows[1], 7),
                Some(PathConfirmation::Nothing),
                "of another flow"
            );
        }
    }

    #[test]
    fn witnessing_ends_after_timeout() {
        let (mut witness, flow) = (witness(), flow(Protocol::Tcp, 1));
        confirmation(&mut witness, at(0), &flow, NO_PACKET_ID);
        assert!(witness.looks(at(1999)) && !witness.looks(at(2000)));
    }

    #[test]
    fn unknown_host_gets_no_witness() {
        let mut witness = ConfirmationResponder::default();
        let flow = flow(Protocol::Tcp, 1);
        assert_eq!(confirmation(&mut witness, at(1), &flow, 7), None);
        assert!(!witness.looks(at(1)));
    }

    #[test]
    fn blind_witness_reports_blindness() {
        let mut witness = witness();
        witness.handle_blind(true);
        let flow = flow(Protocol::Udp, 1);
        assert_eq!(
            confirmation(&mut witness, at(0), &flow, 7),
            Some(PathConfirmation::Blind)
        );
    }

    #[test]
    fn flow_packets_are_no_trace_probes() {
        let mut packet = arrived(flow(Protocol::Tcp, 1), 7, 3);
        // An acknowledgement.
        packet[33] = 0x10;
        assert_eq!(as_of_a_trace(&packet), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_safe(bytes: Vec<u8>, at in 0..64_usize, byte: u8) {
            let _ = as_of_a_trace(&bytes);
            let mut damaged = question(&flow(Protocol::Udp, 7), Some(9));
            damaged[at] = byte;
            for kind in [KIND_ASK, KIND_ANSWER] {
                let _ = read(kind, [SENDER_ADDRESS, RECEIVER_ADDRESS], &damaged);
            }
            let _ = read_answer([RECEIVER_ADDRESS, SENDER_ADDRESS], &bytes);
        }
    }
}
