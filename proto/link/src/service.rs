//! What the service manager is told, where one started this program: that it is there for others, and
//! that it is alive. Elsewhere these say nothing to nobody.

use std::time::Duration;

use sd_notify::{NotifyState, notify, watchdog_enabled};

/// Others find this program from now on.
pub fn ready() {
    tell(NotifyState::Ready);
}

pub fn alive() {
    tell(NotifyState::Watchdog);
}

/// How long a sign of life is waited for, where anybody waits.
pub fn patience() -> Option<Duration> {
    watchdog_enabled()
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = notify(&[state]) {
        tracing::debug!("the service manager could not be told: {error}");
    }
}
