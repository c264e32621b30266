//! Signals as something to wait for, instead of something that interrupts.

use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;

use crate::error::LabError;

/// Signals that request the end of a program.
pub(crate) const TERMINATION_SIGNALS: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// A signal that has arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) signal: Signal,
    /// Whether a process sent it. The terminal sends its own to the whole group.
    pub(crate) by_process: bool,
}

/// Holds back some signals, for this thread and all that it starts from now on, and receives them.
pub(crate) struct Signals(SignalFd);

impl Signals {
    pub(crate) fn hold(signals: impl IntoIterator<Item = Signal>) -> Result<Self, LabError> {
        let mask: SigSet = signals.into_iter().collect();
        let hold = || -> Result<SignalFd, Errno> {
            mask.thread_block()?;
            SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC)
        };
        hold()
            .map(Self)
            .map_err(|source| LabError::Signals { source })
    }

    /// Waits for the next signal.
    pub(crate) fn next(&self) -> Result<Arrived, LabError> {
        loop {
            match self.0.read_signal() {
                Ok(Some(info)) => {
                    if let Ok(signal) = Signal::try_from(info.ssi_signo as i32) {
                        let by_process = info.ssi_code <= libc::SI_USER;
                        return Ok(Arrived { signal, by_process });
                    }
                }
                Ok(None) | Err(Errno::EINTR) => {}
                Err(source) => return Err(LabError::Signals { source }),
            }
        }
    }
}

/// Holds back nothing any longer: for a program that is about to be started. Allocates nothing.
pub(crate) fn release_all() -> Result<(), Errno> {
    SigSet::empty().thread_set_mask()
}

/// Whether the lab was asked to end. Once raised it stays so; any thread may look.
pub(crate) struct Interrupt(Signals);

impl Interrupt {
    pub(crate) fn install() -> Result<Self, LabError> {
        Signals::hold(TERMINATION_SIGNALS).map(Self)
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.wait_for(Duration::ZERO)
    }

    pub(crate) fn wait(&self) {
        while !self.poll(PollTimeout::NONE) {}
    }

    /// Waits up to `patience`. Returns whether the flag was raised.
    pub(crate) fn wait_for(&self, patience: Duration) -> bool {
        self.poll(PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX))
    }

    /// Waits until it is raised or `readable` is, and says whether it is raised.
    pub(crate) fn wait_or_readable(&self, readable: &impl AsFd) -> bool {
        let own = PollFd::new(self.0.0.as_fd(), PollFlags::POLLIN);
        let other = PollFd::new(readable.as_fd(), PollFlags::POLLIN);
        while !poll(&mut [own.clone(), other.clone()], PollTimeout::NONE)
            .is_ok_and(|ready| ready > 0)
        {}
        self.is_raised()
    }

    /// The signal is never read, so it remains there for everyone to see.
    fn poll(&self, timeout: PollTimeout) -> bool {
        let mut watched = [PollFd::new(self.0.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut watched, timeout).is_ok_and(|ready| ready > 0)
    }
}
