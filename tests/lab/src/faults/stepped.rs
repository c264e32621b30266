//! Faults that begin and end when they are asked for, in the order of their times: a test, or a person, looks at what
//! each of them does for as long as that takes.
//!
//! A connection to the lab's socket asks for the next moment of the timeline. Its answer comes when all of it has
//! happened: a list of events, or null where no moment is left.

use std::fmt;
use std::io::Write as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::timeline::Timeline;
use super::{Event, Stage, happen};
use crate::signals::Interrupt;

/// An event, for those who asked for it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Happened {
    /// From the beginning of the timeline.
    pub(crate) at_s: f64,
    pub(crate) what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl From<&Event> for Happened {
    fn from(event: &Event) -> Self {
        Self {
            at_s: event.at.as_secs_f64(),
            what: event.what.clone(),
            error: event.outcome.as_ref().err().map(ToString::to_string),
        }
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            None => write!(f, "{:.3} s: {}", self.at_s, self.what),
            Some(error) => write!(f, "{:.3} s: FAILED: {error}", self.at_s),
        }
    }
}

/// Plays the scenario's faults, one moment for each connection, until the lab is asked to end. Each event is told at
/// once.
pub(crate) fn play_stepped(
    stage: &Stage<'_>,
    listener: &UnixListener,
    interrupt: &Interrupt,
    mut tell: impl FnMut(Event),
) {
    let beginning = Instant::now();
    let mut timeline = Timeline::new(stage.scenario);
    while !interrupt.wait_beside(listener) {
        let Ok((asker, _)) = listener.accept() else {
            continue;
        };
        let happened = timeline.next().map(|moment| {
            let changes = moment.changes.iter();
            let events = changes.map(|change| {
                let event = happen(stage, change, beginning);
                let happened = Happened::from(&event);
                tell(event);
                happened
            });
            events.collect::<Vec<_>>()
        });
        answer(asker, happened.as_deref());
    }
}

/// An asker that is gone does not matter: what it asked for has happened, and the lab has said so.
fn answer(mut asker: UnixStream, happened: Option<&[Happened]>) {
    let line = serde_json::to_vec(&happened).expect("events are plain data");
    let _ = asker.write_all(&line);
}
