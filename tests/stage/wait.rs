//! Waiting for conditions.

use std::time::{Duration, Instant};

use crate::error::StageError;
use crate::news;

/// What takes longer than this on a stage will never come, however much else the machine has to do.
pub const PATIENCE: Duration = Duration::from_mins(2);
/// A try is often a program that runs, on the cores that the cluster runs on. So conditions that no news announces are
/// looked at soon at first, and then ever more seldom.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Tries until there is something: again at each news, and after a pause without. An error is fatal only when the time
/// is over.
pub fn wait_for<T>(
    what: &str,
    patience: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>, StageError>,
) -> Result<T, StageError> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let news_before = news::count();
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
        news::wait_beyond(news_before, pause);
        pause = MAX_PAUSE.min(pause * 2);
    }
}
