//! What the service manager is told, where one started this: that the agent runs, and that its loop
//! goes round.

use std::future::pending;

use sd_notify::{NotifyState, notify, watchdog_enabled};
use tokio::time::{Interval, interval};

/// To be fed by the loop that it watches.
pub(crate) struct Watchdog(Option<Interval>);

impl Watchdog {
    /// The agent serves from now on, whether a coordinator is there or not.
    pub(crate) fn ready() -> Self {
        tell(NotifyState::Ready);
        Self(watchdog_enabled().map(|patience| interval(patience / 3)))
    }

    /// Never, where nobody watches.
    pub(crate) async fn due(&mut self) {
        match &mut self.0 {
            Some(feedings) => drop(feedings.tick().await),
            None => pending().await,
        }
    }

    pub(crate) fn feed(&self) {
        tell(NotifyState::Watchdog);
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = notify(&[state]) {
        tracing::debug!("the service manager could not be told: {error}");
    }
}
