//! Waits that are interrupted are begun again.
//!
//! A socket that waits for a limited time (`SO_RCVTIMEO`) fails with `EINTR` whenever its process is stopped and
//! continued, by a debugger, a freezer of containers or a person (signal(7), "Interruption of system calls and library
//! functions by stop signals"). The standard library's `read_exact` and the like go on; `read` and `recv` do not.

use std::io::{self, ErrorKind};

pub(crate) fn retry<T>(mut wait: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match wait() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interruption_is_retried() {
        let mut outcomes = [
            ErrorKind::Interrupted,
            ErrorKind::Interrupted,
            ErrorKind::WouldBlock,
        ]
        .into_iter();
        let ended = retry::<()>(|| Err(outcomes.next().expect("it has ended").into()));
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
