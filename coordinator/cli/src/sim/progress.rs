//! Progress of a long run on the terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use reweave_sim::engine;

use crate::voice::print_as_is;

/// Delay before the first progress line.
const FIRST_PROGRESS_TIMEOUT: Duration = Duration::from_secs(1);
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
const BAR_CELLS: usize = 24;
/// Maximum length of a progress line.
const MAX_LINE_COLUMNS: usize = 78;

pub(crate) struct Progress {
    /// Name of the counted things.
    what: &'static str,
    began: Instant,
    shown: Option<Instant>,
    visible: bool,
}

impl Progress {
    /// Starts the progress line. It is silent without a terminal, as in a pipe.
    pub(crate) fn begin(what: &'static str) -> Self {
        Self {
            what,
            began: Instant::now(),
            shown: None,
            visible: io::stderr().is_terminal(),
        }
    }

    pub(crate) fn see(&mut self, progress: engine::Progress) {
        let (since, pause) = match self.shown {
            Some(at) => (at.elapsed(), PROGRESS_INTERVAL),
            None => (self.began.elapsed(), FIRST_PROGRESS_TIMEOUT),
        };
        if !self.visible || since < pause {
            return;
        }
        self.shown = Some(Instant::now());
        let line = line(progress, self.what, self.began.elapsed());
        print_as_is(&format!("\r{line:MAX_LINE_COLUMNS$}"));
    }

    /// Returns the time of the run in milliseconds.
    pub(crate) fn end(self) -> f64 {
        if self.shown.is_some() {
            print_as_is(&format!("\r{:MAX_LINE_COLUMNS$}\r", ""));
        }
        millis(self.began)
    }
}

/// Returns the milliseconds since `began`, rounded to microseconds.
pub(super) fn millis(began: Instant) -> f64 {
    began.elapsed().as_micros() as f64 / 1e3
}

fn line(progress: engine::Progress, what: &str, since: Duration) -> String {
    let engine::Progress { done, tasks } = progress;
    let part = done as f64 / tasks.max(1) as f64;
    let full = (part * BAR_CELLS as f64) as usize;
    let bar = format!(
        "{}{}",
        "#".repeat(full),
        "-".repeat(BAR_CELLS - full.min(BAR_CELLS))
    );
    let seconds = since.as_secs();
    let percent = part * 100.0;
    format!("[{bar}] {percent:5.1} % of {tasks} {what}, {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_shows_share_and_time() {
        let at = |done, tasks| {
            let progress = engine::Progress { done, tasks };
            line(progress, "points", Duration::from_secs(12))
        };
        assert_eq!(
            at(3, 8),
            "[#########---------------]  37.5 % of 8 points, 12 s"
        );
        assert_eq!(
            at(8, 8),
            "[########################] 100.0 % of 8 points, 12 s"
        );
        assert!(at(0, 0).contains("  0.0 % of 0 points"));
        assert!(at(usize::MAX, usize::MAX).len() <= MAX_LINE_COLUMNS);
    }
}
