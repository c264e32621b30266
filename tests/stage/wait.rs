//! Waiting for conditions.

use std::time::{Duration, Instant};

use crate::error::StageError;
use crate::notifier::{CLUSTER_EVENTS, Notifier};

/// What takes longer than this on a stage will never come, however much else the machine has to do.
pub const STAGE_TIMEOUT: Duration = Duration::from_mins(2);
/// An attempt is often a program that runs on the cores of the cluster, so polling backs off exponentially.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Tries until there is something: again at each event of the cluster, and by polling, since not every condition has
/// an event. An error is fatal only when the time is over.
pub fn wait_for<T>(
    what: &str,
    patience: Duration,
    attempt: impl FnMut() -> Result<Option<T>, StageError>,
) -> Result<T, StageError> {
    wait_on(&CLUSTER_EVENTS, what, patience, attempt)
}

/// The same at each event of `notifier`.
pub(crate) fn wait_on<T>(
    notifier: &Notifier,
    what: &str,
    patience: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>, StageError>,
) -> Result<T, StageError> {
    let began = Instant::now();
    let mut poll_interval = MIN_POLL_INTERVAL;
    loop {
        let events = notifier.event_count();
        let last = match attempt() {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => None,
            Err(gone @ StageError::Gone { .. }) => return Err(gone),
            Err(error) => Some(error.to_string()),
        };
        if began.elapsed() >= patience {
            return Err(StageError::InVain {
                what: what.to_owned(),
                waited: patience,
                last,
            });
        }
        notifier.wait_past(events, poll_interval);
        poll_interval = MAX_POLL_INTERVAL.min(poll_interval * 2);
    }
}
