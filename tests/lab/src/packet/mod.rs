//! Packet sockets: frames as interfaces have them, below all protocols.

mod frames;
mod ring;

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::AsRawFd;

use nix::libc;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Socket, Type};

pub(crate) use self::frames::{FrameSocket, Inbox};
pub(crate) use self::ring::{BLOCK_TIMEOUT, Header, HeaderRing};

/// Every protocol, in network byte order.
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();

/// A packet socket that receives nothing until it is bound.
fn unbound() -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Without the privilege to exceed it, the machine's limit (`net.core.rmem_max`) holds.
fn widen(socket: &Socket, bytes: usize) -> io::Result<()> {
    let wanted = i32::try_from(bytes).unwrap_or(i32::MAX);
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &wanted)
        .or_else(|_| set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &wanted))
}

/// Binds to one interface, or to all present and future ones of the calling thread's network namespace.
#[allow(unsafe_code, reason = "no crate binds packet sockets")]
fn bind(socket: &Socket, interface: Option<&str>) -> io::Result<()> {
    let index = interface.map_or(Ok(0), if_nametoindex)?;
    // SAFETY: all fields are integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ALL_PROTOCOLS;
    address.sll_ifindex = i32::try_from(index).unwrap_or(i32::MAX);
    // SAFETY: the address is one of the socket's family and lives during the call.
    checked(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            length_of::<libc::sockaddr_ll>(),
        )
    })
}

#[allow(unsafe_code, reason = "no crate knows the options of packet sockets")]
fn set<T: Copy>(socket: &Socket, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as much as the length says there is.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const *value).cast(),
            length_of::<T>(),
        )
    })
}

#[allow(unsafe_code, reason = "no crate knows the options of packet sockets")]
fn statistics(socket: &Socket) -> io::Result<libc::tpacket_stats> {
    let mut length = length_of::<libc::tpacket_stats>();
    // SAFETY: both fields are integers, for which zero is a value.
    let mut statistics: libc::tpacket_stats = unsafe { zeroed() };
    // SAFETY: the kernel writes no more than `length`, the size of what it points to.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    })?;
    Ok(statistics)
}

fn length_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

fn checked(result: i32) -> io::Result<()> {
    nix::errno::Errno::result(result)?;
    Ok(())
}
