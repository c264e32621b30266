//! Faults: applies those of a scenario to a running cluster, each at its time.
//!
//! [`timeline`] computes the changes in advance, as a pure function; the [`Stage`] applies and reports them. A fault
//! that cannot be applied is reported, and the others continue.

mod conditions;
mod stage;
mod stepped;
mod timeline;
mod wording;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use reweave_common::scenario::{Fault, Scenario};

pub(crate) use self::stage::Stage;
pub(crate) use self::stepped::{StepReply, play_stepped};

use self::conditions::Change;
use self::timeline::{Moment, Timeline};
use crate::error::LabError;
use crate::parallel::joined;
use crate::report::FaultReport;

/// Something that was done to the cluster.
#[derive(Debug)]
pub(crate) struct Event {
    /// When the doing began, from the beginning of the timeline. Tools take some milliseconds, nft
    /// longest, but what they do has its effect before they are done.
    pub(crate) at: Duration,
    pub(crate) what: String,
    pub(crate) outcome: Result<(), LabError>,
}

impl Event {
    pub(crate) fn into_report(self) -> Result<FaultReport, LabError> {
        self.outcome.map(|()| FaultReport {
            at_s: self.at.as_secs_f64(),
            what: self.what,
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_s = self.at.as_secs_f64();
        match &self.outcome {
            Ok(()) => write!(f, "{at_s:.3} s: {}", self.what),
            Err(error) => write!(f, "{at_s:.3} s: FAILED: {error}"),
        }
    }
}

/// Result of work under faults.
pub(crate) struct Played<T> {
    pub(crate) result: T,
    /// Faults that had not begun when the work was done.
    pub(crate) not_played: Vec<Planned>,
}

/// First change of a fault.
#[derive(Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) what: String,
}

/// Plays the scenario's faults on a thread of its own while `work` is done; their times count from
/// now. Faults that are active when the work is done stay active. Each event is reported at once.
pub(crate) fn play_during<T>(
    stage: &Stage<'_>,
    tell: impl FnMut(Event) + Send,
    work: impl FnOnce() -> T,
) -> Played<T> {
    let beginning = Instant::now();
    let (stop, stopped) = mpsc::channel();
    thread::scope(|scope| {
        let playing = scope.spawn(move || play(stage, beginning, &stopped, tell));
        let result = work();
        drop(stop);
        let not_played = joined(playing).map_or_else(Vec::new, |end| planned(stage.scenario, end));
        Played { result, not_played }
    })
}

/// Returns the changes of faults that begin at `from` or later.
fn planned(scenario: &Scenario, from: Duration) -> Vec<Planned> {
    let late = |(index, fault): (usize, &Fault)| (fault.at >= from).then_some(index);
    let late = scenario.faults.iter().enumerate().filter_map(late);
    let words = |index| {
        let Moment { at, changes } = Timeline::of(scenario, [index]).next()?;
        let words: Vec<_> = changes
            .iter()
            .map(|change| wording::words(change, scenario))
            .collect();
        Some(Planned {
            at,
            what: words.join(", "),
        })
    };
    late.filter_map(words).collect()
}

/// Plays until the last fault has ended or the sender of `stop` is dropped; then the time is
/// returned of what would have come next.
fn play(
    stage: &Stage<'_>,
    beginning: Instant,
    stop: &Receiver<()>,
    mut tell: impl FnMut(Event),
) -> Option<Duration> {
    for moment in Timeline::new(stage.scenario) {
        let left = (beginning + moment.at).saturating_duration_since(Instant::now());
        if stop.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
            return Some(moment.at);
        }
        for change in &moment.changes {
            tell(happen(stage, change, beginning));
        }
    }
    None
}

fn happen(stage: &Stage<'_>, change: &Change, beginning: Instant) -> Event {
    let at = beginning.elapsed();
    let what = wording::words(change, stage.scenario);
    let outcome = stage.apply(change).map_err(|source| LabError::Fault {
        what: what.clone(),
        source: Box::new(source),
    });
    Event { at, what, outcome }
}
