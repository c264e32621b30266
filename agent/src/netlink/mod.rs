//! The kernel's routing side: interfaces with their addresses, gateways and counters, and the pins.

mod error;
mod interfaces;
mod links;
mod messages;
mod pins;
mod queues;
mod socket;

pub use error::{NetlinkError, Refused};
pub use links::Link;
pub use pins::{Held, PinError};
pub(crate) use socket::NetlinkSocket;

use netlink_sys::protocols::NETLINK_ROUTE;

/// A line to the kernel of the network namespace it was opened in.
pub struct RouteSocket {
    socket: NetlinkSocket,
}

impl RouteSocket {
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = NetlinkSocket::open(NETLINK_ROUTE)?;
        Ok(Self { socket })
    }
}
