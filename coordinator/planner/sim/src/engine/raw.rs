//! The exchange format for comparison with other simulators: lines of text.
//!
//! ```text
//! cap GBPS                      a link; they are counted from 0
//! flow BYTES DELAY_S LINK...    a flow over links; the delay counts from the end of what it waits for
//! dep A B                       flow B waits for the end of flow A
//! ```
//!
//! Empty lines and what stands behind a `#` mean nothing. A line may name what stands below it.

use std::collections::BTreeMap;
use std::str::{FromStr, SplitAsciiWhitespace};

use reweave_common::input::{InputError, Number};
use reweave_common::units::Rate;

use super::{LinkIndex, PathIndex, Problem, ProblemError, SimTime, TaskIndex, waits};

/// Reads a problem; `file` is the name that errors call it by.
pub fn parse(file: &str, text: &str) -> Result<Problem, InputError> {
    let mut reader = Reader::new(file);
    // A line may refer to later lines, so each kind is read in a separate pass.
    for kind in [Kind::Cap, Kind::Flow, Kind::Dep] {
        for (line, text) in (1..).zip(text.lines()) {
            reader.read(line, text, kind)?;
        }
    }
    reader.refuse_circles(text)?;
    Ok(reader.problem)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cap,
    Flow,
    Dep,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Cap => "cap",
            Self::Flow => "flow",
            Self::Dep => "dep",
        }
    }
}

struct Reader<'f> {
    file: &'f str,
    problem: Problem,
    paths: BTreeMap<Vec<LinkIndex>, PathIndex>,
}

/// The rest of a line, with its position.
struct Line<'f, 't> {
    file: &'f str,
    number: usize,
    kind: Kind,
    words: SplitAsciiWhitespace<'t>,
}

impl<'f> Reader<'f> {
    fn new(file: &'f str) -> Self {
        Self {
            file,
            problem: Problem::new(),
            paths: BTreeMap::new(),
        }
    }

    /// Takes in the line if it is of this kind.
    fn read(&mut self, number: usize, text: &str, wanted: Kind) -> Result<(), InputError> {
        let meant = text.split('#').next().unwrap_or_default();
        let mut words = meant.split_ascii_whitespace();
        let kind = match words.next() {
            None => return Ok(()),
            Some("cap") => Kind::Cap,
            Some("flow") => Kind::Flow,
            Some("dep") => Kind::Dep,
            Some(word) => {
                let problem = format!("{word:?} begins no line; use cap, flow or dep");
                return Err(error(self.file, number, "", problem));
            }
        };
        if kind != wanted {
            return Ok(());
        }
        let mut line = Line {
            file: self.file,
            number,
            kind,
            words,
        };
        let taken = match kind {
            Kind::Cap => self.cap(&mut line)?,
            Kind::Flow => self.flow(&mut line)?,
            Kind::Dep => self.dep(&mut line)?,
        };
        taken.map_err(|problem| line.error(problem.to_string()))?;
        line.must_end()
    }

    fn cap(&mut self, line: &mut Line) -> Result<Result<(), ProblemError>, InputError> {
        let gbps: f64 = line.next("GBPS")?;
        let rate = Rate::from_gbps(gbps).ok_or_else(|| {
            let problem = format!("{} Gb/s is not a rate a link can have", Number(gbps));
            line.error(problem)
        })?;
        Ok(self.problem.add_link(rate).map(drop))
    }

    fn flow(&mut self, line: &mut Line) -> Result<Result<(), ProblemError>, InputError> {
        let bytes: f64 = line.next("BYTES")?;
        let delay_s: f64 = line.next("DELAY_S")?;
        let delay = SimTime::from_seconds(delay_s)
            .ok_or_else(|| line.error(format!("{delay_s:?} s is not a delay: 0 s to 51 hours")))?;
        let links = line.rest("LINK")?;
        if links.is_empty() {
            return Err(line.error("a flow crosses at least one link"));
        }
        Ok(self.add_flow(bytes, delay, links))
    }

    fn add_flow(
        &mut self,
        bytes: f64,
        delay: SimTime,
        links: Vec<LinkIndex>,
    ) -> Result<(), ProblemError> {
        let path = match self.paths.get(&links) {
            Some(&path) => path,
            None => {
                let path = self.problem.add_path(&links)?;
                self.paths.insert(links, path);
                path
            }
        };
        self.problem
            .add_transfer(path, bytes * 8.0, delay)
            .map(drop)
    }

    fn dep(&mut self, line: &mut Line) -> Result<Result<(), ProblemError>, InputError> {
        let before: TaskIndex = line.next("A")?;
        let after: TaskIndex = line.next("B")?;
        Ok(self.problem.add_wait(before, after))
    }

    fn refuse_circles(&self, text: &str) -> Result<(), InputError> {
        let Some(circle) = waits::circle(&self.problem) else {
            return Ok(());
        };
        // The line of the wait of the circle's second for its first, which every circle has.
        let wait = [circle[0], circle[1 % circle.len()]];
        let nth = self.problem.waits().iter().position(|&it| it == wait);
        let deps = (1..)
            .zip(text.lines())
            .filter(|(_, line)| line.split_ascii_whitespace().next() == Some("dep"));
        let line = deps
            .map(|(line, _)| line)
            .nth(nth.unwrap_or(0))
            .unwrap_or(1);
        let problem = super::SimError::Cycle { tasks: circle }.to_string();
        Err(error(self.file, line, "dep", problem))
    }
}

impl Line<'_, '_> {
    fn next<T: FromStr>(&mut self, name: &str) -> Result<T, InputError> {
        match self.words.next() {
            Some(word) => self.read(word, name),
            None => Err(self.error(format!("{name} is missing"))),
        }
    }

    fn rest<T: FromStr>(&mut self, name: &str) -> Result<Vec<T>, InputError> {
        let words = self.words.by_ref().collect::<Vec<_>>();
        words
            .into_iter()
            .map(|word| self.read(word, name))
            .collect()
    }

    fn read<T: FromStr>(&self, word: &str, name: &str) -> Result<T, InputError> {
        let problem = |_| self.error(format!("{name} cannot be {word:?}"));
        word.parse().map_err(problem)
    }

    fn must_end(&mut self) -> Result<(), InputError> {
        match self.words.next() {
            None => Ok(()),
            Some(word) => {
                Err(self.error(format!("nothing is to follow here, not {word:?} either")))
            }
        }
    }

    fn error(&self, problem: impl Into<String>) -> InputError {
        error(self.file, self.number, self.kind.word(), problem)
    }
}

fn error(file: &str, line: usize, key: &str, problem: impl Into<String>) -> InputError {
    InputError {
        file: file.to_owned(),
        line,
        key: key.to_owned(),
        problem: problem.into(),
    }
}
