//! `reweave-lab optical-switch`: an optical switch, emulated in the network it is started in.

use std::net::SocketAddrV4;
use std::time::Duration;

use crate::error::LabError;
use crate::optical::{self, Make, Mishap};

/// Be an optical switch whose ports are the interfaces p1, p2, ... of this network namespace
#[derive(Debug, clap::Args)]
pub struct OpticalSwitch {
    /// How many ports it has
    #[arg(long, value_name = "COUNT")]
    ports: u16,
    /// Where it is asked over RESTCONF
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddrV4,
    /// How long its mirrors move
    #[arg(long, value_name = "MS", default_value_t = 10)]
    switching_ms: u64,
    /// How long the ends of a new circuit take to lock on to the light
    #[arg(long, value_name = "MS", default_value_t = 0)]
    locking_ms: u64,
    /// How it goes wrong, until told otherwise by PUT /lab/mishap
    #[arg(long, value_name = "HOW")]
    mishap: Option<Mishap>,
}

impl OpticalSwitch {
    pub fn run(self) -> Result<u8, LabError> {
        let make = Make {
            ports: self.ports,
            switching: Duration::from_millis(self.switching_ms),
            locking: Duration::from_millis(self.locking_ms),
        };
        optical::serve(make, self.listen, self.mishap)
    }
}
