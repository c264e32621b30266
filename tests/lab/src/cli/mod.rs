//! The commands of `reweave-lab`, one module each: arguments in, exit code out.

mod down;
mod exec;
mod job;
mod list;
mod optical;
mod run;
mod step;
mod up;

use std::io::{self, Write};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use down::Down;
pub use exec::Exec;
pub use job::Job;
pub use list::List;
pub use optical::OpticalSwitch;
pub use run::Run;
pub use step::Step;
pub use up::Up;

use crate::error::LabError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Output {
    Text,
    Json,
}

/// Prints a result on standard output, for people or for programs.
pub(crate) fn show(output: Output, text: &str, value: &impl Serialize) -> Result<(), LabError> {
    let mut stdout = io::stdout().lock();
    let mut write = || match output {
        Output::Text => stdout.write_all(text.as_bytes()),
        Output::Json => {
            serde_json::to_writer(&mut stdout, value)?;
            stdout.write_all(b"\n")
        }
    };
    write()
        .and_then(|()| io::stdout().flush())
        .map_err(|source| LabError::Say { source })
}

/// One rank of a job, ordered about on standard input.
pub fn worker() -> Result<u8, LabError> {
    crate::worker::run()
}

/// A job in a lab, ordered on standard input.
pub fn conduct() -> Result<u8, LabError> {
    crate::conduct::run()
}
