//! Standard output, which may be a full disk, or a pipe that nobody reads any more.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process;

pub(super) fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}

/// What cannot be printed ends the program: there is nothing else that it is to do. Whoever closed
/// the pipe has seen enough.
pub(super) fn print(text: impl Display) {
    let mut stdout = io::stdout().lock();
    let Err(error) = write!(stdout, "{text}").and_then(|()| stdout.flush()) else {
        return;
    };
    if error.kind() == ErrorKind::BrokenPipe {
        process::exit(0);
    }
    eprintln!("error: cannot print: {error}");
    process::exit(1);
}
