//! Simulating with a limit, and a word now and then for who waits.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use reweave_planner::sim::{Outcome, Problem, Run};

use crate::error::CliError;

/// Who waits longer than this wants to see that something happens.
const QUIET: Duration = Duration::from_millis(500);
const BETWEEN_WORDS: Duration = Duration::from_millis(100);
const STEPS_BETWEEN_LOOKS: u32 = 256;
const BAR_WIDTH: usize = 30;

#[derive(Debug, Clone, Args)]
pub(crate) struct Effort {
    /// Give up after so many units of work (links looked at; a core does some 50 million a second)
    #[arg(long, value_name = "UNITS", default_value_t = 20_000_000_000)]
    work_limit: u64,
}

impl Effort {
    pub(super) fn limit(&self) -> u64 {
        self.work_limit
    }

    /// The outcome, and how long it took to find.
    pub(super) fn simulate(&self, problem: &Problem) -> Result<(Outcome, Duration), CliError> {
        let began = Instant::now();
        let mut run = Run::new(problem, self.work_limit)?;
        let mut bar = Bar::new(began);
        while bar.steps(&mut run)? {
            bar.show(run.done(), problem.tasks());
        }
        bar.clear();
        Ok((run.finish()?, began.elapsed()))
    }
}

/// How far a simulation is; shown on a terminal only.
struct Bar {
    seen: bool,
    next: Instant,
    shown: bool,
}

impl Bar {
    fn new(began: Instant) -> Self {
        Self {
            seen: io::stderr().is_terminal(),
            next: began + QUIET,
            shown: false,
        }
    }

    /// Some steps; false when there are no more.
    fn steps(&self, run: &mut Run<'_>) -> Result<bool, CliError> {
        for _ in 0..STEPS_BETWEEN_LOOKS {
            if !run.step()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show(&mut self, done: usize, of: usize) {
        if !self.seen || Instant::now() < self.next {
            return;
        }
        let full = done * BAR_WIDTH / of.max(1);
        let bar = "#".repeat(full) + &".".repeat(BAR_WIDTH - full);
        self.say(&format!("\rsimulating [{bar}] {done} of {of} flows"));
        self.next = Instant::now() + BETWEEN_WORDS;
        self.shown = true;
    }

    fn clear(&self) {
        if self.shown {
            self.say("\r\x1b[K");
        }
    }

    /// Whoever cannot be told does not mind.
    fn say(&self, words: &str) {
        let mut stderr = io::stderr();
        let _ = stderr
            .write_all(words.as_bytes())
            .and_then(|()| stderr.flush());
    }
}
