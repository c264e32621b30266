//! `reweave hold`, `resume` and `abort`: what a person wants of a plan that is on its way.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{Request, Response, Steering};
use reweave_common::plan::Generation;

use crate::apply::number;
use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::{Output, print};

#[derive(Debug, Args)]
pub(crate) struct Steer {
    /// Generation of the plan; `reweave status` lists plans in progress
    #[arg(value_name = "N", value_parser = number)]
    generation: u64,
}

impl Steer {
    pub(crate) fn run(
        &self,
        reach: &Reach,
        output: Output,
        how: Steering,
    ) -> Result<ExitCode, CliError> {
        let generation = Generation(self.generation);
        match Coordinator::reach(reach)?.ask(&Request::Steer { generation, how })? {
            Response::Steered { generation, how } => {
                let steered = serde_json::json!({ "generation": generation, "how": how });
                print(output, &steered, |page| page.line(&said(generation, how)))
            }
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }
}

fn said(generation: Generation, how: Steering) -> String {
    match how {
        Steering::Hold => {
            format!(
                "plan {generation} is held and starts no further step; `reweave resume \
                 {generation}` continues it"
            )
        }
        Steering::Resume => format!("plan {generation} continues"),
        Steering::Abort => {
            format!(
                "plan {generation} is aborted; `reweave history {generation}` shows when it is \
                 rolled back"
            )
        }
    }
}
