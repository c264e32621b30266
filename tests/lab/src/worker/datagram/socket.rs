//! Sockets with the 5-tuple of a flow.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use super::window::Path;

/// Headers of IPv4 and UDP.
const HEADER_BYTES: usize = 20 + 8;
/// A loopback would take more at once than any network does.
pub(super) const MAX_MTU_BYTES: usize = 9000;
/// Enough for data that arrive while the process waits for a CPU; the kernel may give less.
const BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Bound to `local`, which it may share with sockets that have other peers, and connected to
/// `peer`, so that it hears no other.
pub(super) fn open(local: SocketAddrV4, peer: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    enlarge_buffer(&socket)?;
    never_fragment(&socket)?;
    socket.bind(&local.into())?;
    socket.connect(&peer.into())?;
    UdpSocket::from_std(socket.into())
}

/// Returns the kernel's values of the path. The peer has the same kernel, and so the same buffer.
pub(super) fn path(socket: &UdpSocket) -> io::Result<Path> {
    Ok(Path {
        datagram_bytes: datagram_bytes(socket)?,
        // The kernel's value includes as much again for its own overhead.
        most_bytes: getsockopt(socket, sockopt::RcvBuf)? / 2,
    })
}

/// Returns the size of a datagram on the path.
pub(super) fn datagram_bytes(socket: &UdpSocket) -> io::Result<usize> {
    let mtu = getsockopt(socket, sockopt::IpMtu)? as usize;
    Ok(mtu.min(MAX_MTU_BYTES) - HEADER_BYTES)
}

/// Only root may exceed the kernel's limit.
fn enlarge_buffer(socket: &Socket) -> io::Result<()> {
    if setsockopt(&socket.as_fd(), sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
        socket.set_recv_buffer_size(BUFFER_BYTES)?;
    }
    Ok(())
}

/// A fragment that is lost would lose its whole datagram, and only the first has ports to be
/// routed by.
#[allow(unsafe_code, reason = "IP_MTU_DISCOVER has no wrapper")]
fn never_fragment(socket: &Socket) -> io::Result<()> {
    let value = libc::IP_PMTUDISC_DO;
    // SAFETY: the kernel reads one integer, whose size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
