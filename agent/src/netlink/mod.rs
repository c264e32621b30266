//! The kernel's routing side: interfaces with their addresses, gateways and counters, pins and routes.

mod choice;
mod dcb;
mod error;
mod forwarding_state;
mod interfaces;
mod link_events;
mod links;
mod messages;
mod nexthop;
mod pins;
mod queues;
mod retry;
mod routes;
mod socket;
mod statics;

pub use choice::{Leaves, OwnHashing};
pub(crate) use dcb::Priorities;
pub use error::{KernelError, NetlinkError};
pub use forwarding_state::{EnforcedState, ForwardingStateError};
pub use link_events::{LinkEventBatch, LinkEvents};
pub use links::Link;
pub(crate) use links::down_interfaces;
pub use pins::{KernelState, PinError};
pub use routes::{KernelRoutes, RouteError};
pub(crate) use socket::{NetlinkSocket, listed};

use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;

/// See `decoders`.
pub(crate) fn read(datagram: &[u8]) {
    let _ = socket::listed::<Priorities>(datagram);
    for message in socket::listed::<RouteNetlinkMessage>(datagram) {
        let _ = (links::link(&message), queues::drops(&message));
        match &message {
            RouteNetlinkMessage::NewRule(rule) => {
                let _ = (messages::is_our_rule(rule), messages::pinned(rule));
            }
            RouteNetlinkMessage::NewRoute(route) => {
                let _ = (messages::is_ours(route), messages::private(route));
                let _ = messages::static_to_host(route);
            }
            _ => {}
        }
    }
}

/// A socket to the kernel of the network namespace in which it was opened.
pub struct RouteSocket {
    socket: NetlinkSocket,
}

impl RouteSocket {
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = NetlinkSocket::open(NETLINK_ROUTE)?;
        Ok(Self { socket })
    }
}

impl AsFd for RouteSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn unless(outcome: Result<(), NetlinkError>, harmless: Errno) -> Result<(), NetlinkError> {
    match outcome {
        Err(error) if error.errno() == Some(harmless) => Ok(()),
        other => other,
    }
}
