//! Going on in the background: the command returns when the lab is ready, the lab stays.

use std::fs::File;
use std::io::{Read, Write};

use nix::fcntl::OFlag;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, pipe2, setsid};

use crate::error::LabError;
use crate::sandbox::{fork_once, silence};

/// The two processes after a fork.
pub(crate) enum Side {
    /// The command itself, which is done; its exit code.
    Front(u8),
    Back(Background),
}

/// The process that continues in the background.
pub(crate) struct Background {
    front: File,
}

/// Splits this process, which must have one thread only, in two.
pub(crate) fn detach() -> Result<Side, LabError> {
    let fork_failed = |source| LabError::Fork { source };
    let (listening, telling) = pipe2(OFlag::O_CLOEXEC).map_err(fork_failed)?;
    match fork_once()? {
        ForkResult::Parent { child } => {
            drop(telling);
            Ok(Side::Front(wait_until_ready(listening.into(), child)))
        }
        ForkResult::Child => {
            setsid().map_err(fork_failed)?;
            let front = telling.into();
            Ok(Side::Back(Background { front }))
        }
    }
}

impl Background {
    /// Lets go of terminal and pipes, and reports success to the command in front.
    pub(crate) fn let_front_go(&self) {
        silence();
        // The front process may have been killed; the lab continues in any case.
        let _ = (&self.front).write_all(&[0]);
    }
}

/// The child speaks for itself; if it ends before it is ready, its exit code is ours.
fn wait_until_ready(mut listening: File, child: Pid) -> u8 {
    if listening.read_exact(&mut [0]).is_ok() {
        return 0;
    }
    match waitpid(child, None) {
        Ok(WaitStatus::Exited(_, code)) => u8::try_from(code).unwrap_or(1),
        _ => 1,
    }
}
