//! `reweave-lab down`: ends a lab and waits until nothing of it is left.

use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::LabError;
use crate::state::{Running, sweep};

/// Time limit for a lab to end by itself, and then to end when it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// End a lab, and wait until nothing of it is left; no lab to end is fine
#[derive(Debug, clap::Args)]
pub struct Down {
    /// The lab; needed only when several are running
    name: Option<String>,
}

impl Down {
    pub fn run(self) -> Result<u8, LabError> {
        sweep()?;
        let lab = match Running::find(self.name.as_deref()) {
            Err(none @ (LabError::NoLab | LabError::NoSuchLab { .. })) => {
                eprintln!("nothing to end: {none}");
                return Ok(0);
            }
            found => found?,
        };
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            if end(&lab, signal)? {
                // One that was killed could not tidy up.
                return sweep().map(|()| 0);
            }
        }
        Err(LabError::StillThere { name: lab.name })
    }
}

/// Sends the signal to the lab's first process, and waits; says whether the lab is gone.
fn end(lab: &Running, signal: Signal) -> Result<bool, LabError> {
    let deadline = Instant::now() + EXIT_TIMEOUT;
    let mut sent = false;
    while Instant::now() < deadline {
        // A starting lab has no first process yet.
        match lab.record().filter(|_| !sent) {
            // While the lab is alive, the process is its own and no other that came later.
            Some(record) if lab.is_alive() => sent = send(lab, record.pid(), signal)?,
            _ if !lab.is_alive() => return Ok(true),
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
    Ok(false)
}

fn send(lab: &Running, first: Pid, signal: Signal) -> Result<bool, LabError> {
    match kill(first, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(true),
        Err(source) => Err(LabError::Stop {
            name: lab.name.clone(),
            source,
        }),
    }
}
