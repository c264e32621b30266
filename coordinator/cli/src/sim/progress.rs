//! How far a long run is, on the terminal of whoever waits for it.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use reweave_planner::workload;

/// Nobody wonders before.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(250);

pub(crate) struct Progress {
    began: Instant,
    shown: Option<Instant>,
    visible: bool,
}

impl Progress {
    pub(crate) fn begin() -> Self {
        Self {
            began: Instant::now(),
            shown: None,
            visible: io::stderr().is_terminal(),
        }
    }

    pub(crate) fn see(&mut self, progress: workload::Progress) {
        let since = self.shown.map_or(self.began.elapsed(), |at| at.elapsed());
        let pause = if self.shown.is_none() {
            PATIENCE
        } else {
            INTERVAL
        };
        if !self.visible || since < pause {
            return;
        }
        self.shown = Some(Instant::now());
        let percent = progress.done as f64 / progress.tasks.max(1) as f64 * 100.0;
        // Whoever does not see it misses nothing.
        let _ = write!(
            io::stderr(),
            "\r{percent:5.1} % of {} tasks, {:.0} s",
            progress.tasks,
            self.began.elapsed().as_secs_f64()
        );
    }

    /// How long it took, in milliseconds.
    pub(crate) fn end(self) -> f64 {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r{:60}\r", "");
        }
        self.began.elapsed().as_secs_f64() * 1e3
    }
}
