//! Steps through a scenario's faults: each begins or ends when a client asks for it, in the order of their times.
//!
//! A connection to the lab's control socket asks for the next moment of the timeline. The reply is one JSON value, sent
//! when the kernel has carried that moment out.

use std::io::Write as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::timeline::{Moment, Timeline};
use super::{Event, Stage, happen};
use crate::error::LabError;
use crate::report::FaultReport;
use crate::signals::Interrupt;

/// Reply to a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum StepReply {
    Played(Vec<FaultReport>),
    /// Error of the first failed change; the other changes of the moment were tried too.
    Failed(String),
    TimelineFinished,
}

/// Plays one moment of the timeline for each connection, until the lab is asked to end.
pub(crate) fn play_stepped(
    stage: &Stage<'_>,
    control: &UnixListener,
    interrupt: &Interrupt,
    mut log: impl FnMut(&Event),
) {
    let beginning = Instant::now();
    let mut timeline = Timeline::new(stage.scenario);
    while !interrupt.wait_or_readable(control) {
        let Ok((client, _)) = control.accept() else {
            continue;
        };
        let reply = match timeline.next() {
            None => StepReply::TimelineFinished,
            Some(moment) => play_moment(stage, &moment, beginning, &mut log),
        };
        send_reply(client, &reply);
    }
}

fn play_moment(
    stage: &Stage<'_>,
    moment: &Moment,
    beginning: Instant,
    log: &mut impl FnMut(&Event),
) -> StepReply {
    let changes = moment.changes.iter();
    let events: Vec<_> = changes.map(|it| happen(stage, it, beginning)).collect();
    events.iter().for_each(log);
    let played: Result<Vec<_>, LabError> = events.into_iter().map(Event::into_report).collect();
    match played {
        Ok(faults) => StepReply::Played(faults),
        Err(error) => StepReply::Failed(error.to_string()),
    }
}

/// A client that has gone does not matter: the moment was played, and the lab has logged it.
fn send_reply(mut client: UnixStream, reply: &StepReply) {
    let line = serde_json::to_vec(reply).expect("a reply is plain data");
    let _ = client.write_all(&line);
}
