//! Interfaces as the kernel tells of them by itself, when one comes up or goes down.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::error::NetlinkError;
use super::links::{Link, link};
use super::socket::{BUFFER, listed};

/// What the kernel calls those who want to hear of interfaces.
const OF_LINKS: u32 = 1;
/// A host where interfaces come and go all the time has other work too: all of them are in the next sample.
const MOST: usize = 64;

pub struct LinkTurns {
    socket: Socket,
    buffer: Vec<u8>,
}

impl LinkTurns {
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, OF_LINKS))?;
            Ok(socket)
        };
        Ok(Self {
            socket: open().map_err(|source| NetlinkError::Open { source })?,
            buffer: vec![0; BUFFER],
        })
    }

    /// Readable when there is something to [`poll`](Self::poll).
    pub fn heard(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    /// Interfaces of which something was told since the last time, as they are then; and whether that is all.
    /// What nobody had room for is lost.
    pub fn poll(&mut self) -> (Vec<Link>, bool) {
        let mut told = Vec::new();
        for _ in 0..MOST {
            match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Ok(length) => {
                    let datagram = &self.buffer[..length.min(BUFFER)];
                    let messages = listed::<RouteNetlinkMessage>(datagram);
                    told.extend(messages.iter().filter_map(link));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (told, true),
                // Among them that there was no room for more.
                Err(_) => {}
            }
        }
        (told, false)
    }
}
