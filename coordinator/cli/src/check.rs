//! `reweave check`: the judge of plans, asked by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reweave_check::{Network, Unsound, check};
use reweave_common::course::Tables;
use reweave_common::fabric::Fabric;
use reweave_common::operator::Plan;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::page::{Ink, Page};
use crate::sim::input;
use crate::{Output, print};

/// Whether packets arrive under a plan on a fabric that is as its file has it
///
/// Exits with 0 when it is sound, with 1 when it is not and says why, and with 2 when a file is bad.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// What `reweave plan --output json` said
    plan: PathBuf,
    /// The fabric's file
    #[arg(long, value_name = "FABRIC.toml")]
    fabric: PathBuf,
}

#[derive(Serialize)]
struct Verdict {
    sound: bool,
    why: Vec<String>,
}

/// As it was printed: beside what else was answered, or by itself.
#[derive(Deserialize)]
#[serde(untagged)]
enum Printed {
    Answer { plan: Box<Plan> },
    Alone(Box<Plan>),
}

impl Check {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::fabric(&self.fabric)?;
        let why = judge(&fabric, &read(&self.plan)?, &self.plan)?;
        let verdict = Verdict {
            sound: why.is_empty(),
            why: why.iter().map(Unsound::to_string).collect(),
        };
        print(output, &verdict, |page| show(page, &verdict))?;
        Ok(match verdict.sound {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

fn read(path: &Path) -> Result<Plan, CliError> {
    let read = serde_json::from_slice(&input::bytes(path)?);
    let printed: Printed = read.map_err(|source| CliError::NoPlan {
        path: path.to_owned(),
        source,
    })?;
    Ok(match printed {
        Printed::Answer { plan } | Printed::Alone(plan) => *plan,
    })
}

/// No pin is in force, and no link is down.
fn judge(fabric: &Fabric, plan: &Plan, path: &Path) -> Result<Vec<Unsound>, CliError> {
    let plan = plan
        .resolve(fabric)
        .map_err(|source| CliError::OtherFabric {
            path: path.to_owned(),
            source,
        })?;
    let addresses = fabric.nodes();
    let addresses = addresses.filter_map(|(node, _)| Some((fabric.address(node)?, node)));
    let addresses: BTreeMap<_, _> = addresses.collect();
    let (nothing, down) = (Tables::new(), BTreeSet::new());
    let network = Network {
        fabric,
        addresses: &addresses,
        down: &down,
        generation: plan.parent,
        pins: &[],
        tables: &nothing,
        unsure: &nothing,
        circuits: fabric.first_circuits(),
        floor: 0.0,
    };
    Ok(check(&network, &plan).err().unwrap_or_default())
}

fn show(page: &mut Page, verdict: &Verdict) {
    if verdict.sound {
        return page.line(&page.ink(Ink::Bold, "sound"));
    }
    page.line(&page.ink(Ink::Bold, "unsound"));
    for why in &verdict.why {
        page.line(&format!("  {why}"));
    }
}
