//! The kernel's events about interfaces that come up or go down.

use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::error::NetlinkError;
use super::links::{Link, link};
use super::socket::{BUFFER_BYTES, listed};

/// `RTMGRP_LINK` multicast group.
const RTMGRP_LINK: u32 = 1;
/// The limit of events per turn; all interfaces are in the next sample anyway.
const MAX_MESSAGES_PER_TURN: usize = 64;

pub struct LinkEvents {
    socket: Socket,
    buffer: Vec<u8>,
    /// Events were lost, and this was not reported yet.
    missed: bool,
}

/// The received events.
pub struct LinkEventBatch {
    /// Interfaces with an event since the last call, in their state then.
    pub links: Vec<Link>,
    /// Whether there is nothing more for now.
    pub is_all: bool,
    /// Whether events were lost: then all interfaces must be read.
    pub missed: bool,
}

fn event_socket() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.set_non_blocking(true)?;
    socket.bind(&SocketAddr::new(0, RTMGRP_LINK))?;
    Ok(socket)
}

impl LinkEvents {
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self {
            socket: event_socket().map_err(|source| NetlinkError::Open { source })?,
            buffer: vec![0; BUFFER_BYTES],
            missed: false,
        })
    }

    /// Readable when [`poll`](Self::poll) should be called.
    pub fn heard(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    /// Lost events are reported with the last waiting ones: until those are read, the kernel drops more without a
    /// notice.
    pub fn poll(&mut self) -> LinkEventBatch {
        let mut links = Vec::new();
        for _ in 0..MAX_MESSAGES_PER_TURN {
            match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Ok(length) => {
                    let datagram = &self.buffer[..length.min(BUFFER_BYTES)];
                    let messages = listed::<RouteNetlinkMessage>(datagram);
                    links.extend(messages.iter().filter_map(link));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return LinkEventBatch {
                        links,
                        is_all: true,
                        missed: mem::take(&mut self.missed),
                    };
                }
                // Most likely the buffer was full; after any error, something may be lost.
                Err(_) => self.missed = true,
            }
        }
        LinkEventBatch {
            links,
            is_all: false,
            missed: false,
        }
    }
}
