//! Log of the events of a simulation, line by line.

use std::fmt::{Debug, Write as _};

use reweave_common::moment::Moment;

/// A failure prints the last lines alone.
const LAST_LINES: usize = 60;

#[derive(Debug)]
pub struct Journal {
    seed: u64,
    lines: Vec<(Moment, String)>,
}

impl Journal {
    /// Creates the journal of the simulation with this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            lines: Vec::new(),
        }
    }

    pub fn note(&mut self, at: Moment, line: String) {
        self.lines.push((at, line));
    }

    pub fn text(&self) -> String {
        text_of(&self.lines)
    }

    /// Ends the test with all there is to know.
    #[track_caller]
    pub fn fail(&self, now: Moment, why: &str, under_way: &dyn Debug) -> ! {
        let last = text_of(&self.lines[self.lines.len().saturating_sub(LAST_LINES)..]);
        panic!(
            "seed {} at {} us: {why}\n{last}under way: {under_way:#?}",
            self.seed,
            now.as_micros()
        );
    }
}

fn text_of(lines: &[(Moment, String)]) -> String {
    let mut text = String::new();
    for (at, line) in lines {
        let _ = writeln!(text, "{:>12} {line}", at.as_micros());
    }
    text
}
