//! Standard output and standard error, which may be a full disk or a closed pipe.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::{self, ExitCode};

use reweave_common::api_version::Versioned;
use reweave_common::exit_code::{BAD_USAGE, DONE, FAILED};
use serde::Serialize;

pub(super) fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}

/// Prints one JSON object on a line. The API version is its first field.
pub(super) fn json(object: &impl Serialize) {
    match serde_json::to_string(&Versioned::new(object)) {
        Ok(text) => line(text),
        Err(error) => fail(&error),
    }
}

/// Prints data. The program ends if that fails, with success if the reader closed the pipe.
pub(super) fn print(text: impl Display) {
    let mut stdout = io::stdout().lock();
    let Err(error) = write!(stdout, "{text}").and_then(|()| stdout.flush()) else {
        return;
    };
    if error.kind() == ErrorKind::BrokenPipe {
        process::exit(DONE.into());
    }
    fail(&error);
}

/// Ends the program: it has no other result.
fn fail(why: &impl Display) -> ! {
    tell(format_args!("error: cannot print: {why}"));
    process::exit(FAILED.into());
}

/// Prints help or a version. These are data as well, so a failed write is reported.
pub(crate) fn instead(said: &clap::Error) -> ExitCode {
    let printed = said.print().and_then(|()| io::stdout().flush());
    match printed {
        Err(error) if !said.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            tell(format_args!("error: cannot print: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(BAD_USAGE)),
    }
}

/// Prints a message. A command continues if it cannot be written.
pub(super) fn tell(words: impl Display) {
    let _ = writeln!(io::stderr(), "{words}");
}
