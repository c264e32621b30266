//! Notifies the service manager: the agent runs, and its loop turns.

use std::future::pending;

use reweave_link::service;
use tokio::time::{Interval, interval};

/// To be fed by the loop that it watches.
pub(crate) struct Watchdog(Option<Interval>);

impl Watchdog {
    /// The agent serves from now on, whether a coordinator is there or not.
    pub(crate) fn ready() -> Self {
        service::ready();
        Self(service::patience().map(|patience| interval(patience / 3)))
    }

    /// Never, without a watchdog.
    pub(crate) async fn due(&mut self) {
        match &mut self.0 {
            Some(feedings) => drop(feedings.tick().await),
            None => pending().await,
        }
    }

    pub(crate) fn feed(&self) {
        service::alive();
    }
}
