//! All that is said: data to standard output, words to standard error. Either may be a pipe whose reader is gone, and
//! then that reader has seen enough.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use reweave_common::printable::shown;

use crate::error::CliError;

/// Data, by which a command has done what it is for.
pub(crate) fn say(text: &str) -> Result<ExitCode, CliError> {
    is_read(text).map(|_| ExitCode::SUCCESS)
}

/// Data, and whether its reader is still there: a command that has more to say only when it happens would never end.
pub(crate) fn is_read(text: &str) -> Result<bool, CliError> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    heard(written.and_then(|()| stdout.flush()))
}

/// Help and versions, which are data as well: it is reported where they could not be written.
pub(crate) fn say_as_asked(help: &clap::Error) -> Result<ExitCode, CliError> {
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

/// Words beside the data, in a line.
pub(crate) fn tell(words: &str) {
    print_as_is(&(in_a_line(words) + "\n"));
}

/// The same, of words that are laid out already. A command does its work even if they cannot be written.
pub(crate) fn print_as_is(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Words of any origin.
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
