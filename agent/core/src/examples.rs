//! Examples for several tests.

use std::net::{Ipv4Addr, SocketAddrV4};

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::sample::PinRule;

/// A pin of the flow from this port over this spine.
pub(crate) fn rule(port: u16, spine: u8) -> PinRule {
    let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
    PinRule {
        flow: FlowKey {
            protocol: Protocol::Tcp,
            source: end(1, port),
            destination: end(2, 5001),
        },
        interface: format!("swp{spine}"),
        next_hop: Ipv4Addr::new(10, 1, 0, spine),
    }
}
