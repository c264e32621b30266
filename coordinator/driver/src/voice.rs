//! Standard output and standard error, which may be a full disk, or a closed pipe. A closed pipe is no error: its
//! reader has seen enough.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use reweave_common::exit_code::BAD_USAGE;

/// Data, in a line.
pub(crate) fn say(text: impl Display) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// What the command line answers instead of running a command: help and versions are data, and so must be written.
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

/// Words beside the data.
pub(crate) fn tell(words: impl Display) {
    let _ = writeln!(io::stderr(), "{words}");
}
