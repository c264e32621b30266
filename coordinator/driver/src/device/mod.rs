//! Optical switches by the languages they speak.

mod exec;
mod restconf;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::{StreamExt, stream};
use reweave_common::circuit::{Circuit, CircuitSet};
use reweave_common::error::told;
use tokio::time::{Instant, sleep};

use self::exec::Exec;
use self::restconf::Restconf;
use crate::config::{Optical, Speaks};
use crate::error::{DeviceError, DriverError};
use crate::fence::Moved;
use crate::moves::Moves;

/// What is asked of a device at a time.
const MOST_REQUESTS: usize = 8;
/// Between two looks at a device that has not moved yet.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub struct Device {
    name: String,
    patience: Duration,
    line: Line,
}

enum Line {
    Restconf(Restconf),
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
        let patience = optical.patience();
        let line = match &optical.speaks {
            Speaks::Restconf(settings) => {
                let line = Restconf::open(settings, patience);
                Line::Restconf(line.map_err(|source| DriverError::Prepare {
                    name: optical.name.clone(),
                    source,
                })?)
            }
            Speaks::Exec(settings) => Line::Exec(Exec::new(settings.clone(), patience)),
        };
        Ok(Self {
            name: optical.name.clone(),
            patience,
            line,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub async fn read(&self) -> Result<CircuitSet, DeviceError> {
        match &self.line {
            Line::Restconf(line) => line.read().await,
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
            sleep(LOOK_AGAIN).await;
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
        let asked = circuits.iter().map(|&circuit| self.ask(verb, circuit));
        let mut answers = stream::iter(asked).buffer_unordered(MOST_REQUESTS);
        let mut moved = Moved::Done;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(()) => {}
                Err(DeviceError::TimedOut { .. }) if moved == Moved::Done => moved = Moved::Late,
                Err(DeviceError::TimedOut { .. }) => {}
                Err(error) => moved = Moved::Refused(told(&error)),
            }
        }
        moved
    }

    async fn ask(&self, verb: Verb, circuit: Circuit) -> Result<(), DeviceError> {
        match (&self.line, verb) {
            (Line::Restconf(line), Verb::Connect) => line.connect(circuit).await,
            (Line::Restconf(line), Verb::Disconnect) => line.disconnect(circuit).await,
            (Line::Exec(line), Verb::Connect) => line.connect(circuit).await,
            (Line::Exec(line), Verb::Disconnect) => line.disconnect(circuit).await,
        }
    }
}
