//! Progress of a search on the terminal, and its time limit.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reweave_design::parallel::Progress;
use reweave_sim::engine;

use crate::voice::print_as_is;

/// Delay before the first progress line.
const FIRST_PROGRESS_TIMEOUT: Duration = Duration::from_secs(1);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum length of a progress line.
const MAX_LINE_COLUMNS: usize = 60;

pub(super) struct Searching {
    began: Instant,
    /// Time limit. The best result by then is the answer.
    within: Option<Duration>,
    said: Mutex<Said>,
    visible: bool,
}

/// The last progress line, with its time.
struct Said {
    words: String,
    shown: Option<Instant>,
}

impl Searching {
    pub(super) fn begin(within: Option<Duration>) -> Self {
        Self {
            began: Instant::now(),
            within,
            said: Mutex::default(),
            visible: io::stderr().is_terminal(),
        }
    }

    /// Reports progress. Returns whether there is time left.
    pub(super) fn go_on(&self, progress: &Progress) -> bool {
        self.report(|| {
            let Progress { tried, best_ms } = progress;
            format!("{tried} candidates tried, best {best_ms:.2} ms")
        })
    }

    /// Same as `go_on`, for the simulations that compute an interval.
    pub(super) fn weighs(&self, progress: engine::Progress) -> bool {
        self.report(|| {
            let engine::Progress { done, tasks } = progress;
            format!("interval: {done} of {tasks} simulations")
        })
    }

    /// Same as `go_on`, without progress to report.
    pub(super) fn in_time(&self) -> bool {
        let took = self.began.elapsed();
        if self.visible {
            self.said().show(took);
        }
        self.within.is_none_or(|within| took < within)
    }

    fn report(&self, line: impl FnOnce() -> String) -> bool {
        if self.visible {
            self.said().words = line();
        }
        self.in_time()
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self) {
        if self.said().shown.take().is_some() {
            print_as_is(&format!("\r{:MAX_LINE_COLUMNS$}\r", ""));
        }
    }
}

impl Default for Said {
    fn default() -> Self {
        Self {
            words: "searching".to_owned(),
            shown: None,
        }
    }
}

impl Said {
    fn show(&mut self, took: Duration) {
        let ago = self.shown.map(|at| at.elapsed());
        if !is_due(took, ago) {
            return;
        }
        self.shown = Some(Instant::now());
        print_as_is(&format!("\r{:MAX_LINE_COLUMNS$}", self.line(took)));
    }

    fn line(&self, took: Duration) -> String {
        format!("{}, {:.0} s", self.words, took.as_secs_f64())
    }
}

/// Whether the next line is due after this time.
fn is_due(took: Duration, ago: Option<Duration>) -> bool {
    ago.map_or(took > FIRST_PROGRESS_TIMEOUT, |ago| ago > PROGRESS_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_progress_is_shown() {
        let mut searching = Searching::begin(None);
        searching.visible = true;
        assert_eq!(
            searching.said().line(Duration::from_secs(2)),
            "searching, 2 s"
        );
        let best_ms = 19.666;
        assert!(searching.go_on(&Progress { tried: 36, best_ms }));
        let line = searching.said().line(Duration::from_secs(3));
        assert_eq!(line, "36 candidates tried, best 19.67 ms, 3 s");
        assert!(line.len() < MAX_LINE_COLUMNS);
    }

    #[test]
    fn short_wait_shows_no_progress() {
        let ms = Duration::from_millis;
        assert!(!is_due(ms(900), None) && is_due(ms(1100), None));
        assert!(!is_due(ms(5000), Some(ms(200))) && is_due(ms(5000), Some(ms(300))));
    }

    #[test]
    fn search_ends_at_deadline() {
        assert!(!Searching::begin(Some(Duration::ZERO)).in_time());
        assert!(Searching::begin(Some(Duration::MAX)).in_time());
    }
}
