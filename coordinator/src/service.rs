//! Notifies the service manager, if one started this program.

use std::time::Duration;

use reweave_link::service::alive;
use tokio::time::interval;

/// The interval of signs of life; the service manager waits for several.
pub(crate) const WATCHDOG_INTERVAL: Duration = Duration::from_secs(1);

/// Gives signs of life while something is waited for.
pub(crate) async fn alive_while<T>(awaited: impl Future<Output = T>) -> T {
    let mut signs = interval(WATCHDOG_INTERVAL);
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
