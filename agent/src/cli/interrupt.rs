//! Ctrl-C, for commands that print a result before they end.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// None if signals cannot be blocked: then they end the program.
pub(super) struct Interrupt(Option<SignalFd>);

impl Interrupt {
    /// Blocks the signal. Must be called before threads start.
    pub(super) fn install() -> Self {
        let mask: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let held = mask.thread_block();
        Self(held.and_then(|()| SignalFd::with_flags(&mask, flags)).ok())
    }

    /// Whether the signal arrived since the last call.
    pub(super) fn is_raised(&self) -> bool {
        let signals = self.0.as_ref();
        signals.is_some_and(|it| matches!(it.read_signal(), Ok(Some(_))))
    }
}
