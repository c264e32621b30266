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

#[cfg(test)]
mod tests {
    use reweave_common::circuit::CircuitSet;
    use reweave_common::fabric::Crossing;
    use serde_json::json;

    use super::*;

    /// Three hosts in a ring.
    const RING: &str = r#"
        kind = "graph"
        node = [{ name = "h0", role = "relay" }, { name = "h1", role = "relay" },
                { name = "h2", role = "relay" }]
        optical = [{ name = "ocs0", ports = 6, circuits = [[1, 2], [3, 4], [5, 6]] }]
        fibre = [{ node = "h0", interface = "a", optical = "ocs0", port = 1, gbps = 1 },
                 { node = "h1", interface = "a", optical = "ocs0", port = 2, gbps = 1 },
                 { node = "h1", interface = "b", optical = "ocs0", port = 3, gbps = 1 },
                 { node = "h2", interface = "a", optical = "ocs0", port = 4, gbps = 1 },
                 { node = "h2", interface = "b", optical = "ocs0", port = 5, gbps = 1 },
                 { node = "h0", interface = "b", optical = "ocs0", port = 6, gbps = 1 }]
    "#;

    fn ring() -> Fabric {
        Fabric::parse("ring.toml", RING).unwrap()
    }

    /// The name of the link that this circuit of the switch makes.
    fn over(fabric: &Fabric, circuit: &str) -> String {
        let wanted = CircuitSet::from_text(circuit).unwrap();
        let is_it =
            |crossing: Option<Crossing>| crossing.is_some_and(|it| wanted.contains(it.circuit));
        let mut links = fabric.links().map(|(link, _)| link);
        let link = links.find(|link| is_it(fabric.crossing(*link)));
        fabric.link_name(link.unwrap())
    }

    /// The ring is opened between h2 and h0; h1 sends what is for h2 over this circuit.
    fn opened(fabric: &Fabric, optical: &str, to_h2: &str) -> Plan {
        let via = |circuit: &str| json!([{ "link": over(fabric, circuit), "weight": 1 }]);
        let plan = json!({
            "generation": 1, "parent": 0, "takes_back": null, "pins": [], "changes": [], "hindered_by": [],
            "moves": [], "predictions": [],
            "circuits": { optical: [[1, 2], [3, 4]] },
            "tables": {
                "h0": { "h1": via("1-2"), "h2": via("1-2") },
                "h1": { "h0": via("1-2"), "h2": via(to_h2) },
                "h2": { "h0": via("3-4"), "h1": via("3-4") },
            },
            "report": { "findings": [], "slowest_before_bits_per_s": 0,
                        "slowest_after_bits_per_s": 0, "alternatives": [] },
        });
        serde_json::from_value(plan).unwrap()
    }

    fn judged(optical: &str, to_h2: &str) -> Result<Vec<Unsound>, CliError> {
        let fabric = ring();
        judge(
            &fabric,
            &opened(&fabric, optical, to_h2),
            Path::new("plan.json"),
        )
    }

    #[test]
    fn a_plan_by_name_is_judged_on_the_fabric_of_its_file() {
        assert_eq!(judged("ocs0", "3-4").unwrap(), []);
        let circle = judged("ocs0", "1-2").unwrap();
        assert!(circle[0].to_string().contains("h2"), "{circle:?}");
    }

    #[test]
    fn a_plan_for_another_fabric_is_bad_input_and_says_what_is_not_there() {
        let error = judged("ocs9", "3-4").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.told().contains("no optical switch \"ocs9\""),
            "{}",
            error.told()
        );
    }
}
