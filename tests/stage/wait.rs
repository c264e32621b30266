//! Waiting for conditions.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::StageError;

/// What takes longer than this on a stage will never come, however much else the machine has to do.
pub const PATIENCE: Duration = Duration::from_mins(2);
const GLANCE: Duration = Duration::from_millis(20);

/// Tries until there is something. An error is fatal only when the time is over.
pub fn wait_for<T>(
    what: &str,
    patience: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>, StageError>,
) -> Result<T, StageError> {
    let began = Instant::now();
    loop {
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
        thread::park_timeout(GLANCE);
    }
}
