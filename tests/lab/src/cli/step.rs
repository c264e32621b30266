//! `reweave-lab step`: what comes next in a lab that plays its faults step by step.

use super::{Output, show};
use crate::error::LabError;
use crate::faults::Happened;
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
        let stream = lab.ask_for_step()?;
        let name = lab.name;
        let answer: Option<Vec<Happened>> = match serde_json::from_reader(stream) {
            Ok(answer) => answer,
            Err(source) => return Err(LabError::StepLost { name, source }),
        };
        let happened = answer.ok_or(LabError::NoStep { name })?;
        let lines = happened.iter().map(|event| format!("{event}\n"));
        show(self.output, &lines.collect::<String>(), &happened)?;
        let all_well = happened.iter().all(|event| event.error.is_none());
        Ok(u8::from(!all_well))
    }
}
