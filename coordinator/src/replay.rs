//! Replays a recorded run: the same inputs at the same moments into a fresh core, and every effect compared with the
//! recorded one, byte for byte.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reweave_common::fabric::Fabric;
use reweave_common::input::InputError;
use reweave_core::{Command, Core, Effect, Policy, State, StateTail};
use thiserror::Error;

use crate::error::CoordinatorError;
use crate::recorder::{Beginning, Line, effect_line};
use crate::voice;

#[derive(Debug, Error)]
pub(crate) enum ReplayError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: not a line of a recording", path.display())]
    NotALine {
        path: PathBuf,
        line: usize,
        source: serde_json::Error,
    },
    #[error("{}:{line}: {problem}", path.display())]
    OutOfPlace {
        path: PathBuf,
        line: usize,
        problem: &'static str,
    },
    #[error("{}: no recording; `reweave-coordinator run --record` makes one", path.display())]
    NoRun { path: PathBuf },
    #[error("its fabric cannot be read")]
    Fabric(#[from] InputError),
    #[error("an effect cannot be written")]
    Write(#[source] io::Error),
    #[error(
        "{}:{line}: the run had\n  {recorded}\nand the replay has\n  {replayed}", path.display()
    )]
    Differs {
        path: PathBuf,
        line: usize,
        recorded: String,
        replayed: String,
    },
}

impl ReplayError {
    pub(crate) fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Differs { .. } | Self::Write(_))
    }
}

pub(crate) fn replay(path: &Path) -> Result<(), CoordinatorError> {
    let replayed = replay_to(path, voice::out())?;
    voice::print_note(format_args!(
        "{} inputs reproduced all {} effects of the run",
        replayed.inputs, replayed.effects
    ));
    Ok(())
}

/// The same, with the effects written to `out`.
pub(crate) fn replay_to(path: &Path, out: impl Write) -> Result<Replayed, ReplayError> {
    let file = File::open(path).map_err(|source| read_failed(path, source))?;
    Replay::new(path, out).run(BufReader::new(file))
}

fn read_failed(path: &Path, source: io::Error) -> ReplayError {
    ReplayError::Read {
        path: path.to_owned(),
        source,
    }
}

struct Replay<'p, W> {
    path: &'p Path,
    out: W,
    /// What every core of this run is made with.
    settings: Option<(Policy, Arc<Fabric>)>,
    /// Of the next state.
    tail: StateTail,
    core: Option<Core>,
    /// Effects of the last input that the recording has not confirmed yet.
    pending: VecDeque<String>,
    line: usize,
    count: Replayed,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    pub(crate) inputs: usize,
    pub(crate) effects: usize,
}

impl<'p, W: Write> Replay<'p, W> {
    fn new(path: &'p Path, out: W) -> Self {
        Self {
            path,
            out,
            settings: None,
            tail: StateTail::default(),
            core: None,
            pending: VecDeque::new(),
            line: 0,
            count: Replayed::default(),
        }
    }

    /// A recording may end within a line, or between an input and its effects: the run was killed.
    fn run(mut self, recording: impl BufRead) -> Result<Replayed, ReplayError> {
        let mut lines = recording.split(b'\n').peekable();
        while let Some(line) = lines.next() {
            let text = line.map_err(|source| read_failed(self.path, source))?;
            self.line += 1;
            match serde_json::from_slice(&text) {
                Ok(line) => self.live(line, &text)?,
                Err(_) if lines.peek().is_none() => break,
                Err(source) => return Err(self.not_a_line(source)),
            }
        }
        match self.core {
            Some(_) => Ok(self.count),
            None => Err(ReplayError::NoRun {
                path: self.path.to_owned(),
            }),
        }
    }

    fn live(&mut self, line: Line, text: &[u8]) -> Result<(), ReplayError> {
        match line {
            Line::Beginning(beginning) if self.settings.is_none() => self.begin(*beginning),
            Line::Beginning(_) => Err(self.out_of_place("a run begins only once")),
            Line::Tail(tail) => {
                self.tail = *tail;
                Ok(())
            }
            Line::Leads(state) => self.lead(*state),
            Line::Input { at, input } => self.advance(|core| core.handle(at, *input), true),
            Line::Applied(command) => self.apply(*command),
            Line::Effect(_) => self.compare(String::from_utf8_lossy(text).into_owned()),
        }
    }

    fn begin(&mut self, beginning: Beginning) -> Result<(), ReplayError> {
        let fabric = Fabric::parse("the recorded fabric", &beginning.fabric)?;
        self.settings = Some((beginning.policy, Arc::new(fabric)));
        Ok(())
    }

    /// Drops the pending effects of the previous core.
    fn lead(&mut self, state: State) -> Result<(), ReplayError> {
        let Some((policy, fabric)) = self.settings.clone() else {
            return Err(self.out_of_place("a leader appears before the start of the run"));
        };
        let state = state.with_tail(mem::take(&mut self.tail));
        self.core = Some(Core::resume(policy, fabric, state));
        Ok(())
    }

    fn apply(&mut self, command: Command) -> Result<(), ReplayError> {
        self.advance(|core| core.apply(command), false)
    }

    /// Lets the core have what it had in the run, and notes what comes of it.
    fn advance(&mut self, have: impl FnOnce(&mut Core), is_input: bool) -> Result<(), ReplayError> {
        if let Some(unheard) = self.pending.pop_front() {
            return Err(self.differs("no further effect".to_owned(), unheard));
        }
        let mut core = self.core.take();
        let Some(leading) = &mut core else {
            return Err(self.out_of_place("an input before the run began"));
        };
        have(leading);
        self.count.inputs += usize::from(is_input);
        while let Some(effect) = leading.poll_effect() {
            self.note(&effect)?;
        }
        self.core = core;
        Ok(())
    }

    fn note(&mut self, effect: &Effect) -> Result<(), ReplayError> {
        let text = effect_line(effect).map_err(|error| ReplayError::Write(error.into()))?;
        writeln!(self.out, "{text}").map_err(ReplayError::Write)?;
        self.pending.push_back(text);
        self.count.effects += 1;
        Ok(())
    }

    fn compare(&mut self, recorded: String) -> Result<(), ReplayError> {
        match self.pending.pop_front() {
            Some(replayed) if replayed == recorded => Ok(()),
            Some(replayed) => Err(self.differs(recorded, replayed)),
            None => Err(self.differs(recorded, "no further effect".to_owned())),
        }
    }

    fn differs(&self, recorded: String, replayed: String) -> ReplayError {
        ReplayError::Differs {
            path: self.path.to_owned(),
            line: self.line,
            recorded,
            replayed,
        }
    }

    fn out_of_place(&self, problem: &'static str) -> ReplayError {
        ReplayError::OutOfPlace {
            path: self.path.to_owned(),
            line: self.line,
            problem,
        }
    }

    fn not_a_line(&self, source: serde_json::Error) -> ReplayError {
        ReplayError::NotALine {
            path: self.path.to_owned(),
            line: self.line,
            source,
        }
    }
}
