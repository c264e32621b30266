//! Whether a person wants the demo to end. What it has started gets Ctrl-C from the terminal by
//! itself; this program goes on for as long as it takes to clear up.

use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;

pub(crate) struct Interrupt(Option<SignalFd>);

impl Interrupt {
    /// Where signals cannot be held back they end the program, and the lab stays.
    pub(crate) fn install() -> Self {
        let endings = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
        let mask: SigSet = endings.into_iter().collect();
        let held = mask.thread_block();
        Self(
            held.and_then(|()| SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC))
                .ok(),
        )
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.wait_for(Duration::ZERO)
    }

    /// Waits for it no longer than `patience`, and says whether it was raised.
    pub(crate) fn wait_for(&self, patience: Duration) -> bool {
        let Some(signals) = &self.0 else { return true };
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        // It is never read, so it stays raised.
        let mut watched = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        poll(&mut watched, timeout).is_ok_and(|ready| ready > 0)
    }
}
