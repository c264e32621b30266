//! The TCP sockets of this host, by the kernel's socket diagnostics.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use netlink_packet_core::{
    DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, Parseable,
};
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use reweave_agent_core::flows::Socket;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::units::Bytes;

use crate::netlink::{NetlinkError, NetlinkSocket, listed};

/// A socket to the kernel of the network namespace in which it was opened.
pub struct FlowSocket {
    socket: NetlinkSocket,
}

impl FlowSocket {
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = NetlinkSocket::open(NETLINK_SOCK_DIAG)?;
        Ok(Self { socket })
    }

    /// All TCP sockets that send, or may, over IPv4.
    pub fn sockets(&mut self) -> Result<Vec<Socket>, NetlinkError> {
        let listed = self.socket.dump("list its sockets", &AllTcp)?;
        Ok(listed.iter().filter_map(socket).collect())
    }
}

/// See `decoders`.
pub(crate) fn read(datagram: &[u8]) {
    for message in listed::<TcpSocket>(datagram) {
        let _ = socket(&message);
    }
}

/// The oldest way to ask, and the only one that asks for IPv4 and IPv6 at once: the kernel goes through all
/// of its table of sockets each time, and large machines have large tables. Both are wanted, since a
/// socket that listens on both sends over IPv4 under its IPv6 name.
#[derive(Debug, Clone)]
struct AllTcp;

/// What is answered: one of them.
struct TcpSocket(InetResponse);

impl AllTcp {
    /// `TCPDIAG_GETSOCK`
    const TCPDIAG_GETSOCK: u16 = 18;
    /// The length of `struct inet_diag_req`. The offsets below are within it.
    const REQUEST_BYTES: usize = 60;
    const EXTENSIONS_OFFSET_BYTES: usize = 3;
    const STATES_OFFSET_BYTES: usize = 52;
}

impl NetlinkSerializable for AllTcp {
    fn message_type(&self) -> u16 {
        Self::TCPDIAG_GETSOCK
    }

    fn buffer_len(&self) -> usize {
        Self::REQUEST_BYTES
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let sending = StateFlags::ESTABLISHED
            | StateFlags::CLOSE_WAIT
            | StateFlags::FIN_WAIT1
            | StateFlags::CLOSING
            | StateFlags::LAST_ACK;
        buffer.fill(0);
        buffer[Self::EXTENSIONS_OFFSET_BYTES] = ExtensionFlags::INFO.bits();
        let states = &mut buffer[Self::STATES_OFFSET_BYTES..Self::STATES_OFFSET_BYTES + 4];
        states.copy_from_slice(&sending.bits().to_ne_bytes());
    }
}

impl NetlinkDeserializable for TcpSocket {
    type Error = DecodeError;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        InetResponse::parse(payload).map(Self)
    }
}

fn socket(TcpSocket(response): &TcpSocket) -> Option<Socket> {
    let info = tcp_info(response)?;
    Some(Socket {
        flow: flow(&response.header.socket_id)?,
        acked: Bytes::new(info.bytes_acked),
        received: Bytes::new(info.bytes_received),
        busy: Some(Duration::from_micros(info.busy_time)),
        rtt: Some(Duration::from_micros(info.rtt.into())),
        retransmits: Some(info.total_retrans.into()),
    })
}

fn tcp_info(response: &InetResponse) -> Option<&TcpInfo> {
    response.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(info) => Some(info),
        _ => None,
    })
}

/// What this host sends.
fn flow(id: &SocketId) -> Option<FlowKey> {
    Some(FlowKey {
        protocol: Protocol::Tcp,
        source: SocketAddrV4::new(v4(id.source_address)?, id.source_port),
        destination: SocketAddrV4::new(v4(id.destination_address)?, id.destination_port),
    })
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(address) => address.to_ipv4_mapped(),
    }
}
