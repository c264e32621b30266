//! What the service manager is told, where one started this: that it listens, and that it is alive.
//! Elsewhere these say nothing to nobody.

use std::time::Duration;

use sd_notify::{NotifyState, notify};
use tokio::time::interval;

/// A sign of life comes so often; whoever watches waits for several.
pub(crate) const SIGN: Duration = Duration::from_secs(1);

/// Others find this now. Whether it leads, or waits for others, is for `/readyz` to say.
pub(crate) fn ready() {
    tell(NotifyState::Ready);
}

pub(crate) fn alive() {
    tell(NotifyState::Watchdog);
}

/// Gives signs of life while something is waited for.
pub(crate) async fn alive_while<T>(awaited: impl Future<Output = T>) -> T {
    let mut signs = interval(SIGN);
    let signs = async {
        loop {
            signs.tick().await;
            alive();
        }
    };
    tokio::select! {
        outcome = awaited => outcome,
        () = signs => unreachable!("signs have no end"),
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = notify(&[state]) {
        tracing::debug!("the service manager could not be told: {error}");
    }
}
