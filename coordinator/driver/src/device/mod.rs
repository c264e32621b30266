//! Optical switches by protocol.

mod exec;
mod netconf;
mod restconf;
mod sessions;
#[cfg(test)]
mod tests;
mod tl1;

use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reweave_common::circuit::{Circuit, CircuitSet};
use reweave_common::error::error_chain;
use reweave_formats::optical::Pair;
use tokio::time::{Instant, sleep, timeout};

use self::exec::Exec;
use self::netconf::Netconf;
use self::restconf::Restconf;
use self::sessions::Sessions;
use self::tl1::Tl1;
use crate::config::{Optical, Speaks};
use crate::error::{DeviceError, DriverError, PrepareError};
use crate::fence::Moved;
use crate::moves::Moves;

/// What is asked of a device at a time.
const MAX_CONCURRENT_REQUESTS: usize = 8;
/// Between two looks at a device that has not moved yet.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub struct Device {
    name: String,
    patience: Duration,
    line: Line,
}

enum Line {
    Restconf(Restconf),
    Netconf(Box<Sessions<Netconf>>),
    Tl1(Sessions<Tl1>),
    Exec(Exec),
}

/// The verbs of a device, and what they are about.
#[derive(Debug, Clone, Copy)]
enum Verb {
    Connect,
    Disconnect,
}

impl Device {
    pub fn open(optical: &Optical) -> Result<Self, DriverError> {
        let line = Line::open(&optical.speaks, optical.patience());
        Ok(Self {
            name: optical.name.clone(),
            patience: optical.patience(),
            line: line.map_err(|source| DriverError::Prepare {
                name: optical.name.clone(),
                source,
            })?,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub async fn read(&self) -> Result<CircuitSet, DeviceError> {
        match &self.line {
            Line::Restconf(line) => line.read().await,
            Line::Netconf(sessions) => sessions.read().await,
            Line::Tl1(sessions) => sessions.read().await,
            Line::Exec(line) => line.read().await,
        }
    }

    /// Reads again and again until the device holds `until`, for as long as it may take to move.
    pub async fn read_until(&self, until: Option<&CircuitSet>) -> Result<CircuitSet, DeviceError> {
        match until {
            Some(until) => self.read_while(|found| found != until).await,
            None => self.read().await,
        }
    }

    async fn read_while(
        &self,
        goes_on: impl Fn(&CircuitSet) -> bool,
    ) -> Result<CircuitSet, DeviceError> {
        let deadline = Instant::now() + self.patience;
        loop {
            let found = self.read().await;
            let is_there = found.as_ref().is_ok_and(|found| !goes_on(found));
            if is_there || Instant::now() >= deadline {
                return found;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// All disconnecting comes first, for a port serves one circuit at a time. Where that is not
    /// said to be done, it is looked for before anything is connected.
    pub async fn carry_out(&self, moves: &Moves) -> Moved {
        let gone = self.all(Verb::Disconnect, &moves.disconnect).await;
        if matches!(gone, Moved::Refused(_)) || gone == Moved::Late && !self.are_gone(moves).await {
            return gone;
        }
        match self.all(Verb::Connect, &moves.connect).await {
            Moved::Done => gone,
            other => other,
        }
    }

    async fn are_gone(&self, moves: &Moves) -> bool {
        let is_gone = |found: &CircuitSet| moves.disconnect.iter().all(|it| !found.contains(*it));
        let found = self.read_while(|found| !is_gone(found)).await;
        found.is_ok_and(|found| is_gone(&found))
    }

    async fn all(&self, verb: Verb, circuits: &[Circuit]) -> Moved {
        let answers = self.line.change(verb, circuits).await;
        let mut moved = Moved::Done;
        for answer in answers {
            match answer {
                Ok(()) => {}
                // What was not answered may still be done, even if another request was refused.
                Err(error) if !error.is_refusal() => moved = Moved::Late,
                Err(error) if moved == Moved::Done => moved = Moved::Refused(error_chain(&error)),
                Err(_) => {}
            }
        }
        moved
    }
}

impl Line {
    fn open(speaks: &Speaks, patience: Duration) -> Result<Self, PrepareError> {
        Ok(match speaks {
            Speaks::Restconf(settings) => Self::Restconf(Restconf::open(settings, patience)?),
            Speaks::Netconf(settings) => {
                let device = Netconf::new(settings.clone(), patience);
                Self::Netconf(Box::new(Sessions::of(device)))
            }
            Speaks::Tl1(settings) => Self::Tl1(Sessions::of(Tl1::new(settings.clone(), patience)?)),
            Speaks::Exec(settings) => Self::Exec(Exec::new(settings.clone(), patience)),
        })
    }

    /// One answer for each circuit, or one for all where they are one request.
    async fn change(&self, verb: Verb, circuits: &[Circuit]) -> Vec<Result<(), DeviceError>> {
        match self {
            _ if circuits.is_empty() => vec![],
            Self::Netconf(sessions) => vec![sessions.change(verb, circuits).await],
            Self::Tl1(sessions) => vec![sessions.change(verb, circuits).await],
            Self::Restconf(_) | Self::Exec(_) => {
                let asked = circuits.iter().map(|&circuit| self.ask(verb, circuit));
                let answers = stream::iter(asked).buffer_unordered(MAX_CONCURRENT_REQUESTS);
                answers.collect().await
            }
        }
    }

    async fn ask(&self, verb: Verb, circuit: Circuit) -> Result<(), DeviceError> {
        match (self, verb) {
            (Self::Restconf(line), Verb::Connect) => line.connect(circuit).await,
            (Self::Restconf(line), Verb::Disconnect) => line.disconnect(circuit).await,
            (Self::Exec(line), Verb::Connect) => line.connect(circuit).await,
            (Self::Exec(line), Verb::Disconnect) => line.disconnect(circuit).await,
            (Self::Netconf(line), _) => line.change(verb, &[circuit]).await,
            (Self::Tl1(line), _) => line.change(verb, &[circuit]).await,
        }
    }
}

async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, DeviceError>>,
) -> Result<T, DeviceError> {
    let late = |_| DeviceError::TimedOut { patience };
    timeout(patience, work).await.map_err(late)?
}

fn read_file(path: &Path) -> Result<String, PrepareError> {
    fs::read_to_string(path).map_err(|source| PrepareError::Read {
        path: path.to_owned(),
        source,
    })
}

/// A file may end with a line's end, a password does not.
fn read_secret(path: &Path) -> Result<String, PrepareError> {
    Ok(read_file(path)?.trim_end().to_owned())
}

/// The device's own names of circuits that should go.
fn named(circuits: &[Circuit], held: &[Pair]) -> Result<Vec<Pair>, DeviceError> {
    let name = |&circuit: &Circuit| {
        let found = held.iter().find(|pair| pair.circuit() == circuit);
        found.copied().ok_or(DeviceError::NoSuchCircuit { circuit })
    };
    circuits.iter().map(name).collect()
}
