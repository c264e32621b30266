//! Retries: other programs change the same kernel meanwhile, and it may have no room for its answers.

use nix::errno::Errno;

use super::NetlinkError;

/// Another program may take a next hop's number just when it was found free.
const MAX_TRIES: usize = 3;

/// The kernel's error, if it was one.
pub(super) trait AtKernel {
    fn at_kernel(&self) -> Option<&NetlinkError>;
}

/// Each attempt has to read the state first: the progress of the previous one is unknown.
pub(super) fn again<E: AtKernel>(mut attempt: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    for _ in 1..MAX_TRIES {
        match attempt() {
            Err(error) if error.at_kernel().is_some_and(may_pass) => {}
            outcome => return outcome,
        }
    }
    attempt()
}

/// Found free and then taken, gone in between, or without an answer.
fn may_pass(error: &NetlinkError) -> bool {
    let crossed = matches!(error.errno(), Some(Errno::EEXIST | Errno::ENOENT));
    crossed || error.is_overrun()
}
