//! `reweave-lab down`: ends a lab and waits until nothing of it is left.

use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};

use crate::error::LabError;
use crate::state::Running;

/// How long a lab may take to end by itself, and then to vanish when it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// End a lab, and wait until nothing of it is left; no lab to end is fine
#[derive(Debug, clap::Args)]
pub struct Down {
    /// The lab; needed only when several are running
    name: Option<String>,
}

impl Down {
    pub fn run(self) -> Result<u8, LabError> {
        let lab = match Running::find(self.name.as_deref()) {
            Err(LabError::NoLab | LabError::NoSuchLab { .. }) => return Ok(0),
            found => found?,
        };
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            ask(&lab, signal)?;
            if is_gone(&lab) {
                return Ok(0);
            }
        }
        Err(LabError::StillThere { name: lab.name })
    }
}

fn ask(lab: &Running, signal: Signal) -> Result<(), LabError> {
    let Some(record) = lab.record() else {
        return Ok(());
    };
    // As long as the lab is alive, the process is its own and no other that came later.
    if !lab.is_alive() {
        return Ok(());
    }
    match kill(record.pid(), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(source) => Err(LabError::Stop {
            name: lab.name.clone(),
            source,
        }),
    }
}

fn is_gone(lab: &Running) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while lab.is_alive() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
