//! Records a run: one JSON value per line.
//!
//! The first line is the start state. When the coordinator becomes leader, a line has the state it leads from, after one
//! with what the state has since version 1.2, if that is not empty. Then come every input with its moment, and every
//! command when it was applied, each followed by its effects.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use reweave_common::moment::Moment;
use reweave_core::{Command, Effect, Input, Policy, State, StateTail};
use serde::{Deserialize, Serialize};
use thiserror::Error;

#[derive(Debug, Error)]
#[error("cannot write the recording {}", path.display())]
pub(crate) struct RecordError {
    path: PathBuf,
    source: io::Error,
}

/// The start state of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Beginning {
    pub(crate) policy: Policy,
    /// The text of the fabric file.
    pub(crate) fabric: String,
}

/// One line of a recording.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Beginning(Box<Beginning>),
    Leads(Box<State>),
    Input {
        at: Moment,
        input: Box<Input>,
    },
    Applied(Box<Command>),
    Effect(Box<Effect>),
    /// Of the state in the next line.
    Tail(Box<StateTail>),
}

/// The same lines, of what is not given away.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum BorrowedLine<'a> {
    Beginning(&'a Beginning),
    Leads(&'a State),
    Input { at: Moment, input: &'a Input },
    Applied(&'a Command),
    Effect(&'a Effect),
    Tail(&'a StateTail),
}

#[derive(Debug)]
pub(crate) struct Recorder {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Recorder {
    /// Recordings are evidence, so none is ever written over.
    pub(crate) fn begin(path: &Path, beginning: &Beginning) -> Result<Self, RecordError> {
        let file = File::create_new(path).map_err(|source| RecordError {
            path: path.to_owned(),
            source,
        })?;
        let mut recorder = Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
        };
        recorder.write(&BorrowedLine::Beginning(beginning))?;
        Ok(recorder)
    }

    pub(crate) fn input(&mut self, at: Moment, input: &Input) -> Result<(), RecordError> {
        self.write(&BorrowedLine::Input { at, input })?;
        match input {
            Input::Tick => self.flush(),
            _ => Ok(()),
        }
    }

    pub(crate) fn leads(&mut self, state: &State) -> Result<(), RecordError> {
        if *state.tail() != StateTail::default() {
            self.write(&BorrowedLine::Tail(state.tail()))?;
        }
        self.write(&BorrowedLine::Leads(state))
    }

    pub(crate) fn applied(&mut self, command: &Command) -> Result<(), RecordError> {
        self.write(&BorrowedLine::Applied(command))
    }

    pub(crate) fn effect(&mut self, effect: &Effect) -> Result<(), RecordError> {
        self.write(&BorrowedLine::Effect(effect))
    }

    fn write(&mut self, line: &BorrowedLine<'_>) -> Result<(), RecordError> {
        let written = serde_json::to_writer(&mut self.file, line).map_err(Into::into);
        let written = written.and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|source| RecordError {
            path: self.path.clone(),
            source,
        })
    }

    pub(crate) fn flush(&mut self) -> Result<(), RecordError> {
        self.file.flush().map_err(|source| RecordError {
            path: self.path.clone(),
            source,
        })
    }
}

/// An effect as the recorder writes it.
pub(crate) fn effect_line(effect: &Effect) -> Result<String, serde_json::Error> {
    serde_json::to_string(&BorrowedLine::Effect(effect))
}
