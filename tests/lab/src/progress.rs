//! A progress line on a terminal.

use std::io::{self, IsTerminal, Write};

const CLEAR_LINE: &str = "\r\x1b[K";

pub(crate) struct Progress {
    watched: bool,
}

impl Progress {
    /// Speaks on standard error if that is a terminal, else is silent.
    pub(crate) fn on_terminal() -> Self {
        Self {
            watched: io::stderr().is_terminal(),
        }
    }

    pub(crate) fn say(&self, what: &str) {
        if self.watched {
            let _ = write!(io::stderr().lock(), "{CLEAR_LINE}{what} ...");
        }
    }

    pub(crate) fn count(&self, what: &str, done: usize, of: usize) {
        // Writing to a terminal costs more than much of what is counted.
        if self.watched && done.is_multiple_of(of.div_ceil(10)) {
            self.say(&format!("{what} {done}/{of}"));
        }
    }

    pub(crate) fn clear(&self) {
        if self.watched {
            let _ = write!(io::stderr().lock(), "{CLEAR_LINE}");
        }
    }
}
