//! An emulated optical switch: mirrors determine where the fibre of a port leads, and requests move the mirrors.
//!
//! It is a process of its own, in a network namespace where each port is an interface `p1`, `p2`, ... whose other end
//! is a host's. A circuit hands every packet that comes in at one of two ports out at the other, unseen and unchanged.
//! A port without light holds its interface down, so the host at the other end loses carrier and nothing else, as with
//! a real fibre.
//!
//! It is asked over RESTCONF and TL1, as the switches of the Polatis family are, and goes wrong on demand in the ways
//! those do ([`Mishap`]).

mod budget;
mod crossbar;
mod device;
mod light;
mod mishap;
mod restconf;
mod tl1;
mod xml;

use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use tokio::net::TcpListener;

pub(crate) use self::budget::Budget;
pub use self::crossbar::Refusal;
use self::device::Device;
pub(crate) use self::mishap::Mishap;
use crate::error::LabError;
use crate::tools::Tools;

/// Properties of the switch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Make {
    pub(crate) ports: u16,
    /// Switching time of the mirrors, while their ports are dark.
    pub(crate) switching: Duration,
    /// Time after that until the ends of a circuit have locked on to the light.
    pub(crate) locking: Duration,
}

/// Addresses of its servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doors {
    pub(crate) restconf: SocketAddrV4,
    pub(crate) tl1: SocketAddrV4,
}

/// Serves until it is killed. Says where on standard output, once it does.
pub(crate) fn serve(
    make: Make,
    budget: Budget,
    circuits: &[(u16, u16)],
    doors: Doors,
    mishap: Option<Mishap>,
) -> Result<u8, LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| LabError::Worker { source })?;
    runtime.block_on(async {
        let device = Device::switch_on(make, budget, circuits, Tools::find()?)?;
        device.set_mishap(mishap);
        let (restconf, restconf_at) = listen(doors.restconf).await?;
        let (tl1, tl1_at) = listen(doors.tl1).await?;
        println!("listening at {restconf_at} for RESTCONF and at {tl1_at} for TL1");
        tokio::spawn(tl1::serve(tl1, device.clone()));
        let served = axum::serve(restconf, restconf::router(device)).await;
        served.map_err(|source| LabError::Worker { source })?;
        Ok(0)
    })
}

/// Port 0 is one that is free.
async fn listen(at: SocketAddrV4) -> Result<(TcpListener, SocketAddr), LabError> {
    let failed = |source| LabError::Listen { at, source };
    let listener = TcpListener::bind(at).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
