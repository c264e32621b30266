//! `reweave-lab step`: the next moment of a lab's faults.

use super::{Output, show};
use crate::error::LabError;
use crate::faults::StepReply;
use crate::state::Running;

/// Begin or end the next faults of a lab that is up with --stepped
///
/// Returns when they have begun or ended.
#[derive(Debug, clap::Args)]
pub struct Step {
    /// The lab; needed only when several are running
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Step {
    pub fn run(self) -> Result<u8, LabError> {
        let lab = Running::find(self.lab.as_deref())?;
        let control = lab.connect_control_socket()?;
        let name = lab.name;
        let reply = match serde_json::from_reader(control) {
            Ok(reply) => reply,
            Err(source) => return Err(LabError::ControlSocket { name, source }),
        };
        match reply {
            StepReply::Played(faults) => {
                let lines = faults
                    .iter()
                    .map(|it| format!("{:.3} s: {}\n", it.at_s, it.what));
                show(self.output, &lines.collect::<String>(), &faults)?;
                Ok(0)
            }
            StepReply::Failed(error) => Err(LabError::StepFailed { name, error }),
            StepReply::TimelineFinished => Err(LabError::TimelineFinished { name }),
        }
    }
}
