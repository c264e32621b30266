//! The running switch: handles requests, moves mirrors, switches light, and simulates faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reweave_common::units::Loss;
use serde::Serialize;
use thiserror::Error;
use tokio::time::sleep;

use super::Make;
use super::budget::Budget;
use super::crossbar::{Crossbar, Refusal};
use super::light::Light;
use super::mishap::{FLAP_COUNT, FLAP_INTERVAL, Mishap, VANISHED_TIME};
use crate::error::LabError;
use crate::parallel::lock;
use crate::tools::Tools;

/// State shared by all clients.
#[derive(Debug, Clone)]
pub(super) struct Device {
    make: Make,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    crossbar: Crossbar,
    light: Light,
    mishap: Option<Mishap>,
    orders: u64,
}

#[derive(Debug, Error)]
pub(super) enum DeviceError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Broken(#[from] LabError),
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// Nothing, ever.
    Silence,
}

/// A circuit as its light is.
#[derive(Debug, Serialize)]
pub(super) struct Seen {
    ingress: u16,
    egress: u16,
    loss_db: f64,
    light: bool,
}

impl Device {
    pub(super) fn switch_on(
        make: Make,
        budget: Budget,
        circuits: &[(u16, u16)],
        tools: Tools,
    ) -> Result<Self, LabError> {
        let mut crossbar = Crossbar::new(make.ports);
        let mut light = Light::off(make.ports, budget, tools)?;
        for &(ingress, egress) in circuits {
            crossbar
                .begin(ingress, egress)
                .map_err(|source| LabError::Circuit { source })?;
            crossbar.end(ingress, egress);
            light.join(ingress, egress)?;
        }
        let state = State {
            crossbar,
            light,
            mishap: None,
            orders: 0,
        };
        Ok(Self {
            make,
            state: Arc::new(Mutex::new(state)),
        })
    }

    pub(super) fn set_mishap(&self, mishap: Option<Mishap>) {
        let mut state = lock(&self.state);
        state.mishap = mishap;
        state.orders = 0;
    }

    pub(super) fn pairs(&self) -> BTreeMap<u16, u16> {
        lock(&self.state).crossbar.pairs().clone()
    }

    /// Returns the loss of each circuit, and whether light is seen at its ends.
    pub(super) fn light(&self) -> Vec<Seen> {
        let state = lock(&self.state);
        let seen = state
            .crossbar
            .pairs()
            .iter()
            .map(|(&ingress, &egress)| Seen {
                ingress,
                egress,
                loss_db: state.light.loss(ingress, egress).db(),
                light: state.light.is_lit(ingress, egress),
            });
        seen.collect()
    }

    pub(super) fn set_loss(&self, port: u16, loss: Loss) -> Result<(), LabError> {
        let mut state = lock(&self.state);
        let mut pairs = state.crossbar.pairs().iter();
        let circuit = pairs.find(|&(&a, &b)| [a, b].contains(&port));
        let circuit = circuit.map(|(&a, &b)| (a, b));
        state.light.set_loss(port, loss, circuit)
    }

    /// Sets a circuit between two ports. Moving mirrors arrive even if the client disconnects.
    pub(super) async fn connect(&self, ingress: u16, egress: u16) -> Result<Answer, DeviceError> {
        if lock(&self.state).crossbar.has(ingress, egress) {
            return Ok(Answer::Done);
        }
        let mishap = self.next_mishap();
        let nothing_moves = mishap == Some(Mishap::Partial);
        if !nothing_moves {
            self.move_mirrors(ingress, egress, mishap).await?;
        }
        Ok(match mishap {
            Some(Mishap::Silent) => Answer::Silence,
            _ => Answer::Done,
        })
    }

    async fn move_mirrors(
        &self,
        ingress: u16,
        instructed: u16,
        mishap: Option<Mishap>,
    ) -> Result<(), DeviceError> {
        let egress = lock(&self.state).begin(ingress, instructed, mishap)?;
        sleep(self.make.switching).await;
        lock(&self.state).crossbar.end(ingress, egress);
        let device = self.clone();
        tokio::spawn(async move { device.shine(ingress, egress, mishap).await });
        Ok(())
    }

    /// Lights a circuit.
    async fn shine(&self, ingress: u16, egress: u16, mishap: Option<Mishap>) {
        sleep(self.make.locking).await;
        match mishap {
            Some(Mishap::StaysDark) => return,
            Some(Mishap::Flap) => {
                for _ in 0..FLAP_COUNT {
                    self.set_light(ingress, egress, true);
                    sleep(FLAP_INTERVAL).await;
                    self.set_light(ingress, egress, false);
                    sleep(FLAP_INTERVAL).await;
                }
            }
            _ => {}
        }
        self.set_light(ingress, egress, true);
        if mishap == Some(Mishap::Vanish) {
            sleep(VANISHED_TIME).await;
            self.vanish(ingress, egress);
        }
    }

    pub(super) fn disconnect(&self, ingress: u16) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        let dark = state.crossbar.remove(ingress)?;
        Ok(state.light.darken(&dark)?)
    }

    /// Sets the light of a circuit. A circuit that has been moved since is ignored.
    fn set_light(&self, ingress: u16, egress: u16, on: bool) {
        let mut state = lock(&self.state);
        if !state.crossbar.has(ingress, egress) {
            return;
        }
        let done = if on {
            state.light.join(ingress, egress)
        } else {
            state.light.darken(&[ingress, egress].into())
        };
        if let Err(error) = done {
            eprintln!("error: {error}");
        }
    }

    fn vanish(&self, ingress: u16, egress: u16) {
        let is_there = lock(&self.state).crossbar.has(ingress, egress);
        if is_there && let Err(error) = self.disconnect(ingress) {
            eprintln!("error: {error}");
        }
    }

    /// Returns the fault for the next command.
    fn next_mishap(&self) -> Option<Mishap> {
        let mut state = lock(&self.state);
        state.orders += 1;
        let spared = state.mishap == Some(Mishap::Partial) && state.orders % 2 == 1;
        state.mishap.filter(|_| !spared)
    }
}

impl State {
    /// Starts the move to `instructed`, or to the circuit of a fault. Returns the destination.
    fn begin(
        &mut self,
        ingress: u16,
        instructed: u16,
        mishap: Option<Mishap>,
    ) -> Result<u16, DeviceError> {
        let wrong = (mishap == Some(Mishap::WrongPort))
            .then(|| self.crossbar.next_free(instructed, ingress))
            .flatten();
        let egress = wrong.unwrap_or(instructed);
        let dark = self.crossbar.begin(ingress, egress)?;
        self.light.darken(&dark)?;
        Ok(egress)
    }
}
