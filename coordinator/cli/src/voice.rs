//! All output: data go to standard output, messages to standard error. If the reader of a pipe is gone, the program
//! ends without an error.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use reweave_common::printable::shown;

use crate::error::CliError;

/// Prints data, the result of a command.
pub(crate) fn print_data(text: &str) -> Result<ExitCode, CliError> {
    is_read(text).map(|_| ExitCode::SUCCESS)
}

/// Prints data and returns whether the reader is still there. A command that waits for events would never end
/// otherwise.
pub(crate) fn is_read(text: &str) -> Result<bool, CliError> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    heard(written.and_then(|()| stdout.flush()))
}

/// Prints help or a version. These are data as well, so a failed write is reported.
pub(crate) fn print_help(help: &clap::Error) -> Result<ExitCode, CliError> {
    let written = help.print().and_then(|()| io::stdout().flush());
    heard(written).map(|_| ExitCode::SUCCESS)
}

fn heard(written: io::Result<()>) -> Result<bool, CliError> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::Say(error)),
    }
}

/// Prints a message on one line of standard error.
pub(crate) fn print_note(words: &str) {
    print_as_is(&(in_a_line(words) + "\n"));
}

/// Prints a formatted message to standard error. A command continues if it cannot be written.
pub(crate) fn print_as_is(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Replaces line breaks and control characters in a text of any origin.
pub(crate) fn in_a_line(words: &str) -> String {
    shown(words, |_| false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(in_a_line("a\nb\x1b"), "a\u{fffd}b\u{fffd}");
    }
}
