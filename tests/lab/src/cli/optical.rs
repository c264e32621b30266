//! `reweave-lab optical-switch`: an optical switch, emulated in the network it is started in.

use std::net::SocketAddrV4;
use std::time::Duration;

use reweave_common::units::Loss;

use crate::error::LabError;
use crate::optical::{self, Budget, Doors, Make, Mishap};

/// Be an optical switch whose ports are the interfaces p1, p2, ... of this network namespace
#[derive(Debug, clap::Args)]
pub struct OpticalSwitch {
    /// Number of ports
    #[arg(long, value_name = "COUNT")]
    ports: u16,
    /// Address of the RESTCONF server
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:80")]
    listen: SocketAddrV4,
    /// Address of the TL1 server
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:3082")]
    tl1: SocketAddrV4,
    /// Switching time of the mirrors
    #[arg(long, value_name = "MS", default_value_t = 10)]
    switching_ms: u64,
    /// Time for the ends of a new circuit to lock on to the light
    #[arg(long, value_name = "MS", default_value_t = 0)]
    locking_ms: u64,
    /// A circuit that it has from the start, such as 1-9
    #[arg(long = "circuit", value_name = "PORTS", value_parser = circuit)]
    circuits: Vec<(u16, u16)>,
    /// Loss between any two ports
    #[arg(long, value_name = "DB", default_value = "0", value_parser = loss)]
    loss_db: Loss,
    /// Additional loss at a port, such as 3=0.5
    #[arg(long = "port-loss", value_name = "PORT=DB", value_parser = port_loss)]
    port_losses: Vec<(u16, Loss)>,
    /// A circuit in which light loses more has none at its ends [default: none that is made]
    #[arg(long, value_name = "DB", value_parser = loss)]
    budget_db: Option<Loss>,
    /// Fault to simulate, until PUT /lab/mishap sets another
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
        let doors = Doors {
            restconf: self.listen,
            tl1: self.tl1,
        };
        let budget = Budget {
            insertion: self.loss_db,
            at_ports: self.port_losses.into_iter().collect(),
            most: self.budget_db,
        };
        optical::serve(make, budget, &self.circuits, doors, self.mishap)
    }
}

fn loss(text: &str) -> Result<Loss, String> {
    let db = text.parse().ok().and_then(Loss::from_db);
    db.ok_or_else(|| "a loss is a number of decibels, 0 to 100".to_owned())
}

fn port_loss(text: &str) -> Result<(u16, Loss), String> {
    let (port, db) = text.split_once('=').unwrap_or_default();
    let port = port
        .parse()
        .map_err(|_| "a port, '=', and what is lost there".to_owned())?;
    Ok((port, loss(db)?))
}

fn circuit(text: &str) -> Result<(u16, u16), String> {
    let ports = text.split_once('-');
    let ports = ports.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    ports.ok_or_else(|| "two ports with a dash between them are a circuit".to_owned())
}
