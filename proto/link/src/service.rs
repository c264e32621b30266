//! Notifies the service manager that this program is ready and alive. Without a service manager these calls do
//! nothing.

use std::future::pending;
use std::time::Duration;

use sd_notify::{NotifyState, notify, watchdog_enabled};
use tokio::time::{Interval, interval};

/// Reports that this program serves requests now.
pub fn ready() {
    tell(NotifyState::Ready);
}

pub fn alive() {
    tell(NotifyState::Watchdog);
}

/// The watchdog timeout of systemd, if set.
pub fn patience() -> Option<Duration> {
    watchdog_enabled()
}

/// Fed by the loop that it watches.
pub struct Watchdog(Option<Interval>);

impl Watchdog {
    /// Reports that the program serves requests now.
    #[must_use]
    pub fn ready() -> Self {
        ready();
        Self(patience().map(|patience| interval(patience / 3)))
    }

    /// Waits until the watchdog is due; forever without systemd.
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
