//! Notifies the service manager that this program is ready and alive. Without a service manager these calls do
//! nothing.

use std::future::pending;
use std::time::Duration;

use sd_notify::{NotifyState, notify, watchdog_enabled};
use tokio::time::{Interval, interval};

/// Others find this program from now on.
pub fn ready() {
    tell(NotifyState::Ready);
}

pub fn alive() {
    tell(NotifyState::Watchdog);
}

/// How long a sign of life is awaited, where systemd watches.
pub fn patience() -> Option<Duration> {
    watchdog_enabled()
}

/// To be fed by the loop that it watches.
pub struct Watchdog(Option<Interval>);

impl Watchdog {
    /// The program serves from now on.
    #[must_use]
    pub fn ready() -> Self {
        ready();
        Self(patience().map(|patience| interval(patience / 3)))
    }

    /// Never, where systemd does not watch.
    pub async fn due(&mut self) {
        match &mut self.0 {
            Some(feedings) => drop(feedings.tick().await),
            None => pending().await,
        }
    }

    pub fn feed(&self) {
        alive();
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = notify(&[state]) {
        tracing::debug!("cannot notify the service manager: {error}");
    }
}
