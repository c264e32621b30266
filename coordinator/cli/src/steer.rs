//! `reweave hold`, `resume` and `abort`: control of a plan in progress.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{Request, Response, Steering};
use reweave_common::plan::Generation;
use serde::Serialize;

use crate::apply::number;
use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, print_report};

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
                print_report(output, &SteeredPlan { generation, how })
            }
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }
}

#[derive(Serialize)]
struct SteeredPlan {
    generation: Generation,
    how: Steering,
}

impl Report for SteeredPlan {
    fn lay_out(&self, page: &mut Page) {
        let Self { generation, how } = self;
        page.line(&match how {
            Steering::Hold => format!(
                "plan {generation} is held and starts no further step; `reweave resume \
                 {generation}` continues it"
            ),
            Steering::Resume => format!("plan {generation} continues"),
            Steering::Abort => format!(
                "plan {generation} is aborted; `reweave history {generation}` shows when it is \
                 rolled back"
            ),
        });
    }
}
