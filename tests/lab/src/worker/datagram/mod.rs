//! Flows over UDP: to port 4791, as RoCEv2 sends, and reliable as its NICs make it, but in user
//! space: any kernel serves, and every lost or reordered packet is counted.
//!
//! [`endpoint::Endpoint`] and what it is made of is pure. Both directions of a flow are streams of
//! bytes, so the receipts that a receiver gives travel like what they are given for.

mod arrivals;
mod driver;
mod endpoint;
mod flight;
mod inbox;
mod outbox;
mod packet;
mod ranges;
mod receiver;
mod rtt;
mod sender;
mod session;
#[cfg(test)]
mod simulation;
mod socket;
#[cfg(test)]
mod tests;
mod window;

use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::timeout;

use self::driver::Driver;
use self::endpoint::{Endpoint, Role};
use self::session::Session;
use super::clock;
use super::flow::Wire;
use super::protocol::FlowSpec;
use crate::error::LabError;

/// Every rank listens before any connects, so an answer is due at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Receiving ends of flows, which answer as soon as they exist.
pub(crate) struct Listeners(Vec<(FlowSpec, Wire)>);

impl Listeners {
    pub(crate) fn open<'f>(flows: impl Iterator<Item = &'f FlowSpec>) -> Result<Self, LabError> {
        let open = |flow: &FlowSpec| {
            let at = flow.destination;
            let session = start(Role::Awaits, at, flow.source)
                .map_err(|source| LabError::Listen { at, source })?;
            Ok((flow.clone(), session.into_wire()))
        };
        flows.map(open).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn into_wires(self) -> Vec<(FlowSpec, Wire)> {
        self.0
    }
}

pub(crate) async fn connect(flow: &FlowSpec) -> io::Result<Wire> {
    let session = start(Role::Opens, flow.source, flow.destination)?;
    timeout(CONNECT_TIMEOUT, session.opened()).await??;
    Ok(session.into_wire())
}

fn start(role: Role, local: SocketAddrV4, peer: SocketAddrV4) -> io::Result<Rc<Session>> {
    let socket = socket::open(local, peer)?;
    let endpoint = Endpoint::new(role, socket::path(&socket)?, clock::now());
    let session = Session::new(endpoint);
    spawn_local(Driver::new(socket, Rc::clone(&session)).run());
    Ok(session)
}
