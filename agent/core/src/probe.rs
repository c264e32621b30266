//! The packets of traces, and how their answers are read.
//!
//! A probe for a flow looks like one of its packets to every router, so it takes the same path, and the hosts at both
//! ends ignore it:
//! - Its checksum is wrong on purpose. A receiver that gets it after all throws it away before it
//!   looks for the socket. A TCP probe has no flag set either, which alone would have it thrown
//!   away without an answer.
//! - A router's answer quotes it, and the sender's kernel shows that quote to the live TCP socket.
//!   The socket ignores it unless the quoted sequence number lies in its window. The number is
//!   the same for all probes of an agent, so that happens at most for a moment in 4 GiB of a flow,
//!   and leaves a soft error that the next acknowledgement clears.

use std::net::{Ipv4Addr, SocketAddrV4};

use etherparse::icmpv4::TimeExceededCode;
use etherparse::{
    IcmpEchoHeader, Icmpv4Header, Icmpv4Slice, Icmpv4Type, IpNumber, Ipv4Header, Ipv4HeaderSlice,
    TcpHeader, UdpHeader,
};
use reweave_common::flow::{FlowKey, Protocol};

/// The purpose of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeAim {
    /// Which router a flow passes.
    Hop(FlowKey),
    /// Whether a host is within reach of the probe's TTL.
    Distance(Ipv4Addr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    pub aim: ProbeAim,
    pub ttl: u8,
    /// Never 0: kernels replace that.
    pub id: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceAnswer {
    pub aim: ProbeAim,
    pub id: u16,
    pub from: Ipv4Addr,
    pub event: TraceEvent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceEvent {
    /// The probe's TTL ran out at the router that answers.
    Expired,
    /// The probe has arrived and the host answers.
    Echoed,
}

/// Distinguishes this agent's probes from those of other programs on the host; drawn at random.
#[derive(Debug, Clone, Copy)]
pub struct ProbeMark(pub u32);

impl Probe {
    /// The source the packet has to have, if that matters.
    pub fn source(&self) -> Ipv4Addr {
        match self.aim {
            ProbeAim::Hop(flow) => *flow.source.ip(),
            ProbeAim::Distance(_) => Ipv4Addr::UNSPECIFIED,
        }
    }

    pub fn destination(&self) -> Ipv4Addr {
        match self.aim {
            ProbeAim::Hop(flow) => *flow.destination.ip(),
            ProbeAim::Distance(host) => host,
        }
    }

    /// The IP packet, all but the fields that kernels fill in: checksum, length, missing source.
    pub fn packet(&self, mark: ProbeMark) -> Vec<u8> {
        let transport = match self.aim {
            ProbeAim::Hop(flow) if flow.protocol == Protocol::Tcp => tcp(&flow, mark),
            ProbeAim::Hop(flow) => udp(&flow, mark),
            ProbeAim::Distance(_) => echo(mark.low(), self.id),
        };
        let header = Ipv4Header {
            total_len: (Ipv4Header::MIN_LEN + transport.len()) as u16,
            identification: self.id,
            dont_fragment: true,
            time_to_live: self.ttl,
            protocol: ip_number(self.aim),
            source: self.source().octets(),
            destination: self.destination().octets(),
            ..Ipv4Header::default()
        };
        [header.to_bytes().as_slice(), &transport].concat()
    }
}

fn ip_number(aim: ProbeAim) -> IpNumber {
    match aim {
        ProbeAim::Hop(flow) => match flow.protocol {
            Protocol::Tcp => IpNumber::TCP,
            Protocol::Udp => IpNumber::UDP,
        },
        ProbeAim::Distance(_) => IpNumber::ICMP,
    }
}

fn tcp(flow: &FlowKey, mark: ProbeMark) -> Vec<u8> {
    let [from, to] = [flow.source, flow.destination];
    let mut header = TcpHeader::new(from.port(), to.port(), mark.0, 0);
    let [source, destination] = [from, to].map(|end| end.ip().octets());
    let right = header.calc_checksum_ipv4_raw(source, destination, &[]);
    header.checksum = !right.unwrap_or_default();
    header.to_bytes().to_vec()
}

fn udp(flow: &FlowKey, mark: ProbeMark) -> Vec<u8> {
    let header = UdpHeader {
        source_port: flow.source.port(),
        destination_port: flow.destination.port(),
        length: UdpHeader::LEN_U16,
        checksum: mark.wrong_udp_checksum(flow),
    };
    header.to_bytes().to_vec()
}

fn echo(id: u16, seq: u16) -> Vec<u8> {
    let request = Icmpv4Type::EchoRequest(IcmpEchoHeader { id, seq });
    let header = Icmpv4Header::with_checksum(request, &[]);
    header.to_bytes().to_vec()
}

impl ProbeMark {
    fn low(self) -> u16 {
        self.0 as u16
    }

    /// The mark, unless that happened to be right, or 0, which says that there is no checksum.
    fn wrong_udp_checksum(self, flow: &FlowKey) -> u16 {
        let bare = UdpHeader {
            source_port: flow.source.port(),
            destination_port: flow.destination.port(),
            length: UdpHeader::LEN_U16,
            checksum: 0,
        };
        let [source, destination] = [flow.source, flow.destination].map(|end| end.ip().octets());
        let right = bare.calc_checksum_ipv4_raw(source, destination, &[]);
        let is_wrong = |sum: &u16| *sum != 0 && Ok(*sum) != right;
        let candidates = [self.low(), !self.low(), self.low() ^ 1];
        candidates.into_iter().find(is_wrong).unwrap_or(1)
    }

    /// Reads a packet as an ICMP socket hands it out, with its IP header; none if it is no answer
    /// to a probe with this mark.
    pub fn read(self, packet: &[u8]) -> Option<TraceAnswer> {
        let outer = Ipv4HeaderSlice::from_slice(packet).ok()?;
        let icmp = Icmpv4Slice::from_slice(packet.get(outer.slice().len()..)?).ok()?;
        let from = outer.source_addr();
        match icmp.icmp_type() {
            Icmpv4Type::EchoReply(reply) => Some(TraceAnswer {
                aim: self.aim_of_echo(reply.id, from)?,
                id: reply.seq,
                from,
                event: TraceEvent::Echoed,
            }),
            Icmpv4Type::TimeExceeded(TimeExceededCode::TtlExceededInTransit) => {
                let (aim, id) = self.quoted(icmp.payload())?;
                let event = TraceEvent::Expired;
                Some(TraceAnswer {
                    aim,
                    id,
                    from,
                    event,
                })
            }
            _ => None,
        }
    }

    fn aim_of_echo(self, echo_id: u16, host: Ipv4Addr) -> Option<ProbeAim> {
        (self.low() == echo_id).then_some(ProbeAim::Distance(host))
    }

    /// Routers quote the IP header and at least 8 bytes more.
    fn quoted(self, quote: &[u8]) -> Option<(ProbeAim, u16)> {
        let header = Ipv4HeaderSlice::from_slice(quote).ok()?;
        let rest = quote.get(header.slice().len()..)?;
        let aim = match header.protocol() {
            IpNumber::TCP => self.quoted_flow(Protocol::Tcp, &header, rest)?,
            IpNumber::UDP => self.quoted_flow(Protocol::Udp, &header, rest)?,
            IpNumber::ICMP => self.aim_of_echo(half(rest, 4)?, header.destination_addr())?,
            _ => return None,
        };
        Some((aim, header.identification()))
    }

    fn quoted_flow(
        self,
        protocol: Protocol,
        header: &Ipv4HeaderSlice<'_>,
        rest: &[u8],
    ) -> Option<ProbeAim> {
        let flow = FlowKey {
            protocol,
            source: SocketAddrV4::new(header.source_addr(), half(rest, 0)?),
            destination: SocketAddrV4::new(header.destination_addr(), half(rest, 2)?),
        };
        let ours = match protocol {
            Protocol::Tcp => {
                let sequence = u32::from(half(rest, 4)?) << 16 | u32::from(half(rest, 6)?);
                sequence == self.0
            }
            Protocol::Udp => half(rest, 6)? == self.wrong_udp_checksum(&flow),
        };
        ours.then_some(ProbeAim::Hop(flow))
    }
}

/// The 16 bits at `at`.
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEST_MARK: ProbeMark = ProbeMark(0xfeed_beef);
    const ROUTER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 7);

    fn end(host: u8, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port)
    }

    fn flow(protocol: Protocol) -> FlowKey {
        FlowKey {
            protocol,
            source: end(1, 40_000),
            destination: end(2, 4791),
        }
    }

    fn icmp_from(from: Ipv4Addr, icmp: Icmpv4Type, payload: &[u8]) -> Vec<u8> {
        let icmp = Icmpv4Header::with_checksum(icmp, payload);
        let length = (icmp.header_len() + payload.len()) as u16;
        let to = [10, 0, 0, 1];
        let ip = Ipv4Header::new(length, 60, IpNumber::ICMP, from.octets(), to);
        let ip = ip.expect("a short packet");
        [ip.to_bytes().as_slice(), &icmp.to_bytes(), payload].concat()
    }

    /// What a router sends back that quotes as little as it may.
    fn expired(packet: &[u8]) -> Vec<u8> {
        let kind = Icmpv4Type::TimeExceeded(TimeExceededCode::TtlExceededInTransit);
        icmp_from(ROUTER_ADDRESS, kind, &packet[..28])
    }

    fn aims() -> [ProbeAim; 3] {
        let host = *end(2, 0).ip();
        [
            ProbeAim::Hop(flow(Protocol::Tcp)),
            ProbeAim::Hop(flow(Protocol::Udp)),
            ProbeAim::Distance(host),
        ]
    }

    #[test]
    fn router_answer_names_probe() {
        for aim in aims() {
            let probe = Probe {
                aim,
                ttl: 3,
                id: 77,
            };
            let event = TraceEvent::Expired;
            let expected = TraceAnswer {
                aim,
                id: 77,
                from: ROUTER_ADDRESS,
                event,
            };
            assert_eq!(
                TEST_MARK.read(&expired(&probe.packet(TEST_MARK))),
                Some(expected)
            );
        }
    }

    #[test]
    fn host_echo_names_probe() {
        for aim in &aims()[2..] {
            let packet = Probe {
                aim: *aim,
                ttl: 64,
                id: 9,
            }
            .packet(TEST_MARK);
            let reply = IcmpEchoHeader {
                id: half(&packet, 24).unwrap(),
                seq: half(&packet, 26).unwrap(),
            };
            let from = *end(2, 0).ip();
            let answer = TEST_MARK.read(&icmp_from(from, Icmpv4Type::EchoReply(reply), &[]));
            let event = TraceEvent::Echoed;
            assert_eq!(
                answer,
                Some(TraceAnswer {
                    aim: *aim,
                    id: 9,
                    from,
                    event
                })
            );
        }
    }

    #[test]
    fn answers_to_foreign_probes_are_ignored() {
        for aim in aims() {
            let theirs = Probe {
                aim,
                ttl: 3,
                id: 77,
            }
            .packet(ProbeMark(0x1234_5678));
            assert_eq!(TEST_MARK.read(&expired(&theirs)), None, "{aim:?}");
        }
    }

    #[test]
    fn probe_follows_flow_with_bad_checksum() {
        let packet = Probe {
            aim: aims()[0],
            ttl: 2,
            id: 5,
        }
        .packet(TEST_MARK);
        let (ip, rest) = Ipv4Header::from_slice(&packet).unwrap();
        assert_eq!((ip.source, ip.destination), ([10, 0, 0, 1], [10, 0, 0, 2]));
        assert_eq!((ip.time_to_live, ip.identification), (2, 5));
        let (tcp, payload) = TcpHeader::from_slice(rest).unwrap();
        assert_eq!((tcp.source_port, tcp.destination_port), (40_000, 4791));
        assert!(!(tcp.syn || tcp.ack || tcp.rst || tcp.fin) && payload.is_empty());
        assert_ne!(Ok(tcp.checksum), tcp.calc_checksum_ipv4(&ip, &[]));
    }

    proptest! {
        #[test]
        fn udp_checksum_is_wrong_but_present(mark: u32, port: u16) {
            let mut flow = flow(Protocol::Udp);
            flow.source.set_port(port);
            let probe = Probe { aim: ProbeAim::Hop(flow), ttl: 1, id: 1 };
            let packet = probe.packet(ProbeMark(mark));
            let (ip, rest) = Ipv4Header::from_slice(&packet).unwrap();
            let (udp, _) = UdpHeader::from_slice(rest).unwrap();
            prop_assert_ne!(udp.checksum, 0);
            prop_assert_ne!(Ok(udp.checksum), udp.calc_checksum_ipv4(&ip, &[]));
            prop_assert!(ProbeMark(mark).read(&expired(&packet)).is_some());
        }

        #[test]
        fn arbitrary_bytes_are_safe(bytes: Vec<u8>) {
            let _ = TEST_MARK.read(&bytes);
            let packet = Probe { aim: aims()[0], ttl: 1, id: 1 }.packet(TEST_MARK);
            let mut answer = expired(&packet);
            answer.truncate(bytes.len());
            let _ = TEST_MARK.read(&answer);
        }
    }
}
