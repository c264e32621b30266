//! How far a search is, on the terminal of whoever waits, and when there is no more time for it.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reweave_planner::parallel::Progress;

/// Nobody wonders before.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct Searching {
    began: Instant,
    /// What is known by then is the answer.
    within: Option<Duration>,
    shown: Mutex<Option<Instant>>,
    visible: bool,
}

impl Searching {
    pub(super) fn begin(within: Option<Duration>) -> Self {
        Self {
            began: Instant::now(),
            within,
            shown: Mutex::default(),
            visible: io::stderr().is_terminal(),
        }
    }

    /// Whether there is time to go on.
    pub(super) fn go_on(&self, progress: &Progress) -> bool {
        if self.visible {
            self.show(progress, self.began.elapsed());
        }
        self.in_time()
    }

    pub(super) fn in_time(&self) -> bool {
        self.within
            .is_none_or(|within| self.began.elapsed() < within)
    }

    fn show(&self, progress: &Progress, took: Duration) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = shown.map_or(took > PATIENCE, |at| at.elapsed() > INTERVAL);
        if !is_time {
            return;
        }
        *shown = Some(Instant::now());
        // Whoever does not see it misses nothing.
        let _ = write!(
            io::stderr(),
            "\r{} ways tried, {:.2} ms so far, {:.0} s",
            progress.tried,
            progress.best_ms,
            took.as_secs_f64()
        );
    }

    pub(super) fn end(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.take().is_some() {
            let _ = write!(io::stderr(), "\r{:60}\r", "");
        }
    }
}
