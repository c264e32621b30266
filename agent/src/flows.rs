//! The TCP sockets of this host, as the kernel's socket diagnostics tell of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use reweave_agent_core::flows::Socket;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::units::Bytes;

use crate::netlink::{NetlinkError, NetlinkSocket, listed};

/// A line to the kernel of the network namespace it was opened in.
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
        let mut sockets = vec![];
        // A socket that listens on both sends over IPv4 under its IPv6 name.
        for (family, id) in [
            (AF_INET, SocketId::new_v4()),
            (AF_INET6, SocketId::new_v6()),
        ] {
            let listed = self.socket.dump("list its sockets", &request(family, id))?;
            sockets.extend(listed.iter().filter_map(socket));
        }
        Ok(sockets)
    }
}

/// See `decoders`.
pub(crate) fn read(datagram: &[u8]) {
    for message in listed::<SockDiagMessage>(datagram) {
        let _ = socket(&message);
    }
}

fn request(family: u8, socket_id: SocketId) -> SockDiagMessage {
    let sending = StateFlags::ESTABLISHED
        | StateFlags::CLOSE_WAIT
        | StateFlags::FIN_WAIT1
        | StateFlags::CLOSING
        | StateFlags::LAST_ACK;
    SockDiagMessage::InetRequest(InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: sending,
        socket_id,
    })
}

fn socket(message: &SockDiagMessage) -> Option<Socket> {
    let SockDiagMessage::InetResponse(response) = message else {
        return None;
    };
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
