//! An optical switch, emulated: what a fibre from a port leads to is decided by mirrors, and
//! mirrors are moved by requests.
//!
//! It is a process of its own, in a network namespace where each port is an interface `p1`, `p2`,
//! ... whose other end is a host's. A circuit hands every packet that comes in at one of two ports
//! out at the other, unseen and unchanged. A port without light holds its interface down, so the
//! host at the other end loses carrier and nothing else, as with a real fibre.
//!
//! It is asked over RESTCONF, as the switches of the Polatis family are, and goes wrong on demand
//! in the ways those do ([`Mishap`]).

mod crossbar;
mod device;
mod light;
mod mishap;
mod restconf;
mod xml;

use std::net::SocketAddrV4;
use std::time::Duration;

use tokio::net::TcpListener;

pub use self::crossbar::Refusal;
use self::device::Device;
pub(crate) use self::mishap::Mishap;
use crate::error::LabError;
use crate::tools::Tools;

/// What kind of switch it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Make {
    pub(crate) ports: u16,
    /// How long mirrors move. The ports they serve are dark meanwhile.
    pub(crate) switching: Duration,
    /// How long the ends of a circuit stay dark after that, until they have locked on to the light.
    pub(crate) locking: Duration,
}

/// Serves until it is killed. Says where on standard output, once it does.
pub(crate) fn serve(
    make: Make,
    circuits: &[(u16, u16)],
    at: SocketAddrV4,
    mishap: Option<Mishap>,
) -> Result<u8, LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| LabError::Worker { source })?;
    runtime.block_on(async {
        let device = Device::switch_on(make, circuits, Tools::find()?)?;
        device.set_mishap(mishap);
        let listener = TcpListener::bind(at).await;
        let listener = listener.map_err(|source| LabError::Listen { at, source })?;
        println!("listening at {at}");
        let served = axum::serve(listener, restconf::router(device)).await;
        served.map_err(|source| LabError::Worker { source })?;
        Ok(0)
    })
}
