//! Standard output and standard error. A closed pipe is no error: its reader has seen enough.

use std::fmt::Display;
use std::io::{self, ErrorKind, StdoutLock, Write};
use std::process::ExitCode;

use reweave_common::exit_code::BAD_USAGE;

pub(crate) fn out() -> Out<StdoutLock<'static>> {
    Out(io::stdout().lock())
}

/// What the command line answers instead of running a command: help and versions are data, and so must be written.
pub(crate) fn instead(said: &clap::Error) -> ExitCode {
    let printed = said.print().and_then(|()| io::stdout().flush());
    match printed {
        Err(error) if !said.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            print_note(format_args!("error: cannot print: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(BAD_USAGE)),
    }
}

/// Words beside the data.
pub(crate) fn print_note(words: impl Display) {
    let _ = writeln!(io::stderr(), "{words}");
}

pub(crate) struct Out<W>(W);

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_pipe_passes_full_disk_fails() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut out = Out(writer);
        assert!(out.write_all(b"unheard").is_ok() && out.flush().is_ok());
        let full = std::fs::File::options().write(true).open("/dev/full");
        assert!(Out(full.unwrap()).write_all(b"x").is_err());
    }
}
