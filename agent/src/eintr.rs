//! Retries system calls that fail with `EINTR`.
//!
//! A read from a socket with a timeout (`SO_RCVTIMEO`) fails with `EINTR` when its process gets SIGSTOP and SIGCONT, for
//! example from a debugger or a cgroup freezer (signal(7), "Interruption of system calls and library functions by stop
//! signals"). `read_exact`, `read_line` and `write_all` retry by themselves; `read` and `recv` do not.

use std::io::{self, ErrorKind};

pub fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_eintr_is_retried() {
        let mut outcomes = [
            ErrorKind::Interrupted,
            ErrorKind::Interrupted,
            ErrorKind::WouldBlock,
        ]
        .into_iter();
        let outcome = retry::<()>(|| Err(outcomes.next().expect("retry has returned").into()));
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
